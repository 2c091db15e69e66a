import csv
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hda.engine.run import Run


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predictions_are_a_table_on_standard_output(hda, run):
    told = hda("predict", run, "new")
    assert told.code == 0
    assert told.out.splitlines()[0] == "path,class,confidence"
    found = rows(told.out)
    assert [row["path"] for row in found] == ["beach.jpg", "tree.png"]
    assert {row["class"] for row in found} <= {"apple", "leaf", "sea"}
    assert all(1 / 3 <= float(row["confidence"]) <= 1 for row in found)
    python = [(path, label, f"{confidence:.4f}") for path, label, confidence in Run(run).predict("new")]
    assert [(row["path"], row["class"], f"{float(row['confidence']):.4f}") for row in found] == python


def test_the_target_is_predicted_as_at_the_end_of_the_run(hda, run):
    then = rows((run / "predictions.csv").read_text())
    now = rows(hda("predict", run, "flat").out)
    assert [(row["path"], row["class"]) for row in now] == [(row["path"], row["class"]) for row in then]
    np.testing.assert_allclose(
        [float(row["confidence"]) for row in now], [float(row["confidence"]) for row in then], atol=1e-4
    )


def test_predictions_go_to_a_new_file(hda, run):
    told = hda("predict", run, "new", "--out", "found.csv", "--json")
    assert Path("found.csv").read_text() == hda("predict", run, "new").out
    counts = {row["class"]: 0 for row in rows(Path("found.csv").read_text())}
    for row in rows(Path("found.csv").read_text()):
        counts[row["class"]] += 1
    assert told.json == {"out": "found.csv", "images": 2, "left_out": 0, "classes": counts}
    assert "2 predictions are in found.csv" in told.out


def test_with_json_the_object_follows_the_table(hda, run):
    told = hda("predict", run, "new", "--json")
    assert told.out.splitlines()[:3] == hda("predict", run, "new").out.splitlines()
    assert told.json["out"] is None


def test_one_image_and_a_list_are_predicted_too(hda, run):
    whole = rows(hda("predict", run, "new").out)
    assert [row["path"] for row in rows(hda("predict", run, "new/beach.jpg").out)] == ["beach.jpg"]
    Path("some.txt").write_text("tree.png\n")
    listed = rows(hda("predict", run, "some.txt", "--root", "new").out)
    assert [(row["path"], row["class"]) for row in listed] == [(row["path"], row["class"]) for row in whole[1:]]


def test_a_run_without_model_predicts_from_its_last_checkpoint(hda, run):
    finished = hda("predict", run, "new").out
    (run / "model.safetensors").unlink()
    (run / "result.json").unlink()
    assert hda("predict", run, "new").out == finished


def test_broken_pictures_are_left_out_and_named_when_asked(hda, run):
    Path("new/torn.jpg").write_bytes(Path("new/beach.jpg").read_bytes()[:300])
    told = hda("predict", run, "new")
    assert "/new/torn.jpg is a broken image: " in told.sentence
    assert told.out == ""
    told = hda("predict", run, "new", "--skip-broken", "--json")
    assert [row["path"] for row in rows(told.out)[:2]] == ["beach.jpg", "tree.png"]
    assert (told.json["images"], told.json["left_out"]) == (2, 1)
    assert told.err.startswith("left out: ")
    assert "/new/torn.jpg (" in told.err


def test_a_name_that_is_no_text_keeps_its_bytes_in_the_file(hda, run):
    name = b"caf\xe9.png".decode(errors="surrogateescape")
    Image.new("RGB", (40, 40)).save(Path("new") / name)
    assert hda("predict", run, "new", "--out", "found.csv").code == 0
    assert b"\ncaf\xe9.png," in Path("found.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("gone new", "gone is not a run's folder: give one that `hda fit` has written"),
        ("flat new", "flat is not a run's folder: "),
        ("run gone", "gone does not exist: check the path"),
        ("run empty", "empty holds no images: "),
        ("run new --out old.csv", "old.csv exists: give another --out or remove it first"),
        ("run new --out gone/found.csv", "the folder gone of --out gone/found.csv does not exist: "),
        ("run new --root photos", "--root photos is for the paths in a list, and new is none: "),
        ("run new --device tpu", "unknown device 'tpu': give auto, cpu, cuda or cuda:N"),
        ("run new --device cuda:99", "device 'cuda:99' needs a GPU that PyTorch can use, and "),
        ("run new drawings", "'drawings' is one word too many"),
        ("run torn/a.jpg --out found.csv", "torn/a.jpg is a broken image: not an image of a known format ("),
        ("run torn --out found.csv --skip-broken", "torn has no image that can be decoded: "),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(hda, run, here, words, sentence):
    Path("empty").mkdir()
    Path("old.csv").write_text("kept")
    Path("torn").mkdir()
    Path("torn/a.jpg").write_bytes(b"no picture")
    before = sorted(here.rglob("*"))
    assert hda("predict", *words.split()).sentence.removeprefix(f"{here}/").startswith(sentence)
    assert sorted(here.rglob("*")) == before
    assert Path("old.csv").read_text() == "kept"


def test_a_run_without_a_checkpoint_has_nothing_to_predict_with(hda, run):
    (run / "model.safetensors").unlink()
    (run / "result.json").unlink()
    for path in sorted((run / "checkpoints").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert hda("predict", run, "new").sentence == ("run has no checkpoint yet: let `hda fit` go on with it (--resume)")


def test_a_damaged_run_is_told(hda, run):
    model = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(model[:1000])
    assert hda("predict", run, "new").sentence.startswith("run/model.safetensors is damaged (")
    (run / "settings.json").write_text("[]")
    assert hda("predict", run, "new").sentence.startswith("run is not a run's folder: ")
