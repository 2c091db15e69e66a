import json
import shutil
from pathlib import Path

import pytest

from hda.report.figures import EVERY


@pytest.fixture
def measured(hda, here):
    """Two finished runs on pictures whose labels are measured with, one of HDAN with its checkpoints kept."""
    quick = "--backbone small --weights none --size 32 --device cpu --steps 2 --batch 4 --evaluate-every 1 --evaluate"
    for method, more in (("hdan", "--keep-checkpoints"), ("source-only", "")):
        words = f"fit --source photos --target drawings --out {method} --method {method} {quick} {more}"
        assert hda(*words.split()).code == 0
    return ["hdan", "source-only"]


def test_figures_of_two_runs_are_files_and_numbers(hda, measured):
    told = hda("figures", *measured, "--out", "drawn", "--json")
    found = told.json["figures"]
    assert len(found) == len(EVERY)
    assert found == json.loads(Path("drawn/figures.json").read_text())
    written = [Path(path) for figure in found.values() for path in figure["files"]]
    assert sorted(written) == sorted(path for path in Path("drawn").iterdir() if path.suffix != ".json")
    assert {path.suffix for path in written} == {".svg", ".png"}
    assert found["heuristic-size"]["numbers"]["hdan"]["steps"] == [1, 2]
    assert found["classes"]["numbers"]["hdan"]["over"] == "source-only"
    assert found["domain-accuracy"]["numbers"]["hdan"]["H"].keys() == {"mean", "std"}
    for name, figure in found.items():
        assert f"{name}: {figure['sentence']}" in told.out


def test_a_run_begun_without_evaluate_never_shows_target_labels(hda, run):
    found = hda("figures", run, "--json").json["figures"]
    for name in ("calibration", "mistakes"):
        assert found[name]["sentence"] == "run was begun without --evaluate, so no target label is looked at."
    assert "at least 8 rows of each, got 6" in found["domain-accuracy"]["sentence"]
    assert (run / "figures" / "tsne.png").exists()


def test_pictures_that_have_moved_are_told_and_found_where_they_are_said_to_be(hda, measured):
    Path("elsewhere").mkdir()
    for folder in ("photos", "drawings"):
        shutil.move(folder, f"elsewhere/{folder}")
    found = hda("figures", "hdan", "--json").json["figures"]
    assert "photos" in found["tsne"]["sentence"]
    assert not found["tsne"]["files"]
    assert found["similarity"]["files"]
    places = ("--source", "elsewhere/photos", "--target", "elsewhere/drawings")
    assert hda("figures", "hdan", "--json", *places).json["figures"]["tsne"]["files"]
    shutil.rmtree("elsewhere/drawings/leaf")
    drawn = sorted(Path("hdan").rglob("*"))
    assert "their classes or their names are others" in hda("figures", "hdan", *places).sentence
    assert "nowhere" in hda("figures", "hdan", "--source", "nowhere").sentence
    assert sorted(Path("hdan").rglob("*")) == drawn


def test_pictures_that_have_changed_are_told(hda, measured):
    Path("drawings/apple/0.jpg").write_bytes(Path("drawings/apple/1.jpg").read_bytes())
    sentence = hda("figures", "hdan", "--json").json["figures"]["tsne"]["sentence"]
    assert sentence.startswith("The pictures have changed since hdan was trained on them: ")


def test_no_pictures_are_looked_at_where_none_are_wanted(hda, measured):
    found = hda("figures", "hdan", "--pictures", "0", "--json").json["figures"]
    assert found["tsne"]["sentence"] == "No pictures were looked at, as asked for."


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("gone", "gone is not a run's folder: "),
        ("run --out photos/apple/0.jpg", "photos/apple/0.jpg is a file: give --out a folder"),
        ("run --pictures -1", "--pictures must be at least 0"),
        ("run --pictures many", "--pictures takes a whole number: got 'many'"),
        ("", "RUN must be given"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(hda, run, here, words, sentence):
    before = sorted(here.rglob("*"))
    assert hda("figures", *words.split()).sentence.startswith(sentence)
    assert sorted(here.rglob("*")) == before


def test_a_report_compares_runs(hda, measured):
    assert hda("report", *measured, "--json").json == {"report": "hdan/report.html"}
    page = Path("hdan/report.html").read_text()
    assert "Gains and losses by class" in page
    assert "points above" in page


def test_the_bound_of_a_run_is_an_estimate_and_needs_heuristics_and_labels(hda, measured, run):
    assert "has no heuristic head" in hda("bound", "source-only").sentence
    assert "was begun without --evaluate" in hda("bound", run).sentence
    assert "fewer than 20 labelled pictures" in hda("bound", "hdan").sentence
    assert hda("bound", "hdan", "--seed", "1").sentence.startswith("--seed is for the problem that is built")
    assert hda("bound", "hdan", "--pictures", "0").sentence.startswith("--pictures 0 leaves nothing")


def test_the_bound_where_the_ideal_is_known(hda):
    told = hda("bound", "--seed", "3", "--json")
    last = told.json["outcomes"][-1]
    assert last["g"]["target_risk"] <= last["g"]["bound"]
    assert f"k is {last['k']['source']['k'] + 0.0:.2f}".replace("-0.00", "0.00") in told.out
    assert ("fails here:" in told.out) is bool(last["fails"])
    assert hda("bound", "--data", "x").sentence == (
        "--data x says where a run's pictures are: name the run too, or leave it out"
    )


def test_a_run_made_in_python_is_told_where_its_pictures_are(hda, here):
    import hda as package

    scenario = package.Scenario.read("photos", "drawings")
    quick = {"backbone": "small", "weights": "none", "size": 32, "steps": 2, "batch": 4, "device": "cpu"}
    package.fit(scenario, out="made", method="hdan", **quick)
    sentence = hda("figures", "made", "--json").json["figures"]["tsne"]["sentence"]
    assert sentence == "made does not say where its pictures are: give --source and --target."
    told = hda("figures", "made", "--source", "photos", "--target", "drawings", "--json")
    assert told.json["figures"]["tsne"]["files"]
    assert "has no true labels" in told.json["figures"]["calibration"]["sentence"]
