import json
import statistics
from pathlib import Path

import pytest


@pytest.fixture
def quick(monkeypatch):
    """The demo with runs of two steps."""
    for name, value in {"steps": 2, "batch": 4, "evaluate_every": 2, "log_every": 1, "device": "cpu"}.items():
        monkeypatch.setitem(__import__("hda.demo").demo.SETTINGS, name, value)


def test_the_demo_tells_means_deviations_seconds_and_its_report(hda, here, quick):
    told = hda("demo", "--json")
    assert told.code == 0
    assert set(told.json) == {"source_only", "hdan", "seconds", "report"}
    assert told.json["report"] == "runs/demo/report.html"
    assert Path("runs/demo/report.html").is_file()
    assert told.json["seconds"] > 0
    for name, method in (("source_only", "source-only"), ("hdan", "hdan")):
        results = [json.loads(Path(f"runs/demo/{method}-{seed}/result.json").read_text()) for seed in range(3)]
        accuracies = [result["target_accuracy"] for result in results]
        assert told.json[name] == {
            "mean": pytest.approx(statistics.mean(accuracies)),
            "std": pytest.approx(statistics.stdev(accuracies)),
        }
    rows = {line.split("  ")[0]: line.split() for line in told.out.splitlines()}
    for name, key in (("source-only", "source_only"), ("HDAN", "hdan")):
        assert rows[name][1:3] == [f"{told.json[key]['mean']:.1f}", f"{told.json[key]['std']:.1f}"]
    assert len(rows["difference"]) == 6  # its name, mean, deviation and three seeds


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("photos", "photos exists and is not an earlier demo: give another --out or remove it first"),
        ("photos/sea/0.jpg", "photos/sea/0.jpg exists and is not an earlier demo: "),
        ("photos/sea/0.jpg/demo", "photos/sea/0.jpg/demo cannot be made (Not a directory): give another --out"),
        ("", "--out is empty: give it a value"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(hda, here, quick, out, sentence):
    before = sorted(here.rglob("*"))
    assert hda("demo", "--out", out).sentence.startswith(sentence)
    assert sorted(here.rglob("*")) == before
