import csv
import io
import shutil
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture
def right(hda, run):
    """Whether each of the drawings is predicted rightly, by class, from what `hda predict` says."""
    found: dict[str, list[bool]] = {}
    for row in csv.DictReader(io.StringIO(hda("predict", run, "drawings").out)):
        label = row["path"].split("/")[0]
        found.setdefault(label, []).append(row["class"] == label)
    return found


def test_accuracies_are_those_of_the_predictions(hda, run, right):
    told = hda("evaluate", run, "drawings", "--json")
    assert told.code == 0
    every = [answer for answers in right.values() for answer in answers]
    assert told.json["images"] == len(every) == 9
    assert told.json["accuracy"] == pytest.approx(100 * sum(every) / 9)
    of_classes = [100 * sum(answers) / len(answers) for answers in right.values()]
    assert told.json["mean_class_accuracy"] == pytest.approx(sum(of_classes) / 3)
    shown = {line.split()[0]: line.split()[1] for line in told.out.splitlines() if line.split()[0] in right}
    assert shown == {name: f"{100 * sum(answers) / len(answers):.1f}" for name, answers in right.items()}


def test_classes_without_equal_numbers_make_the_two_accuracies_differ(hda, run, right):
    shutil.rmtree("drawings/apple")
    Path("drawings/sea/0.jpg").unlink()
    rest = {"leaf": right["leaf"], "sea": right["sea"][1:]}
    told = hda("evaluate", run, "drawings", "--json")
    assert told.json["images"] == 5
    assert told.json["accuracy"] == pytest.approx(100 * sum(map(sum, rest.values())) / 5)
    of_classes = [100 * sum(answers) / len(answers) for answers in rest.values()]
    assert told.json["mean_class_accuracy"] == pytest.approx(sum(of_classes) / 2)


def test_the_confusion_matrix_is_a_picture_in_the_run_drawn_anew_each_time(hda, run):
    for _ in range(2):
        told = hda("evaluate", run, "drawings", "--json")
        assert told.json["confusion"] == "run/confusion-drawings.png"
    with Image.open(run / "confusion-drawings.png") as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(2**24)) > 20


def test_the_picture_may_go_elsewhere(hda, run):
    told = hda("evaluate", run, "drawings", "--picture", "matrix.png", "--json")
    assert told.json["confusion"] == "matrix.png"
    assert Path("matrix.png").read_bytes().startswith(b"\x89PNG")
    assert not (run / "confusion-drawings.png").exists()


def test_classes_that_the_run_lacks_are_left_out_and_named(hda, run):
    shutil.copytree("drawings/sea", "drawings/zebra")
    told = hda("evaluate", run, "drawings", "--json")
    assert told.json["images"] == 9
    assert told.err == "left out: 3 images of classes that the run lacks (zebra)\n"


def test_broken_pictures_are_left_out_and_named_when_asked(hda, run, right):
    Path("drawings/leaf/1.jpg").write_bytes(b"no picture")
    assert "/drawings/leaf/1.jpg is a broken image: " in hda("evaluate", run, "drawings").sentence
    told = hda("evaluate", run, "drawings", "--skip-broken", "--json")
    rest = [*right["apple"], right["leaf"][0], right["leaf"][2], *right["sea"]]
    assert told.json["images"] == 8
    assert told.json["accuracy"] == pytest.approx(100 * sum(rest) / 8)
    assert "/drawings/leaf/1.jpg (not an image of a known format)" in told.err


def test_labels_of_a_list_count_instead_of_folders(hda, run):
    paths = [f"drawings/{name}/{number}.jpg" for name in ("apple", "leaf", "sea") for number in range(3)]
    predicted = {
        f"drawings/{row['path']}": row["class"]
        for row in csv.DictReader(io.StringIO(hda("predict", run, "drawings").out))
    }
    Path("labels.txt").write_text("\n".join(f"{path} {predicted[path]}" for path in paths))
    assert hda("evaluate", run, "labels.txt", "--root", ".", "--json").json["accuracy"] == 100.0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("gone drawings", "gone is not a run's folder: "),
        ("run gone", "gone does not exist: check the path"),
        ("run flat", "flat has images directly in it, such as "),
        ("run flat/0-a.jpg", "flat/0-a.jpg is a single image: "),
        ("run strange", "no class of strange (x, y) is among the run's (apple, leaf, sea): "),
        ("run drawings --picture old.png", "old.png exists: give another --picture or remove it first"),
        ("run drawings --picture gone/a.png", "the folder gone of --picture gone/a.png does not exist: "),
        ("run drawings --picture matrix.jpg", "--picture matrix.jpg does not end in .png, "),
        ("run drawings --root photos", "--root photos is for the paths in a list, "),
        ("run drawings --device tpu", "unknown device 'tpu': "),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(hda, run, here, words, sentence):
    Path("old.png").write_text("kept")
    for name in ("x", "y"):
        shutil.copytree("drawings/sea", f"strange/{name}")
    before = sorted(here.rglob("*"))
    assert hda("evaluate", *words.split()).sentence.startswith(sentence)
    assert sorted(here.rglob("*")) == before
    assert Path("old.png").read_text() == "kept"
