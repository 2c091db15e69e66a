import re
from pathlib import Path

import pytest


def test_a_report_is_one_file_that_needs_no_other(hda, run):
    told = hda("report", run, "--json")
    assert told.json == {"report": "run/report.html"}
    page = (run / "report.html").read_text()
    assert "photos" in page
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page) == []
    assert hda("report", run).code == 0  # drawn anew


def test_an_unfinished_run_has_a_report_too(hda, run):
    (run / "result.json").unlink()
    assert hda("report", run).code == 0
    assert "not finished" in (run / "report.html").read_text()


def test_a_report_may_go_elsewhere_but_not_over_something(hda, run):
    assert hda("report", run, "--out", "page.html", "--json").json == {"report": "page.html"}
    assert hda("report", run, "--out", "page.html").sentence == (
        "page.html exists: give another --out or remove it first"
    )
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("gone", "gone is not a run's folder: "),
        ("run ./run", "./run is named twice: name each run once"),
        ("run --out gone/page.html", "the folder gone of --out gone/page.html does not exist: make it first"),
        ("run --out photos", "photos exists: give another --out or remove it first"),
        ("", "RUN must be given"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(hda, run, here, words, sentence):
    before = sorted(here.rglob("*"))
    assert hda("report", *words.split()).sentence.startswith(sentence)
    assert sorted(here.rglob("*")) == before


def test_damaged_files_of_a_run_are_told(hda, run):
    with (run / "metrics.jsonl").open("a") as file:
        file.write("{half\n")
    lines = len((run / "metrics.jsonl").read_text().splitlines())
    assert hda("report", run).sentence.startswith(f"line {lines} of run/metrics.jsonl is damaged: ")
    Path(run / "metrics.jsonl").unlink()
    (run / "result.json").write_text("{")
    assert hda("report", run).sentence.startswith("run/result.json is damaged: ")
