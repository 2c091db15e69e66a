import re

import pytest

from hda import demo as module
from hda.demo import demo
from hda.engine.reporter import Reporter
from hda.errors import UserError

QUICK = {"steps": 2, "batch": 4, "evaluate_every": 2, "log_every": 1, "device": "cpu"}


class Heard(Reporter):
    def __init__(self):
        self.notes = []

    def note(self, sentence):
        self.notes.append(sentence)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A demo of two steps, and what it told."""
    heard = Heard()
    out = tmp_path_factory.mktemp("quick") / "demo"
    return demo(out, seeds=(3, 5), reporter=heard, **QUICK), heard.notes


def test_each_method_is_run_once_with_each_seed(quick):
    outcome, notes = quick
    folder = outcome.report.parent
    runs = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert runs == ["hdan-3", "hdan-5", "source-only-3", "source-only-5"]
    assert all((folder / name / "result.json").is_file() for name in runs)
    assert (len(outcome.source_only), len(outcome.hdan)) == (2, 2)
    assert [note for note in notes if "seed" in note] == [
        "source-only, seed 3 (1 of 4):", "HDAN, seed 3 (2 of 4):", "source-only, seed 5 (3 of 4):", "HDAN, seed 5 (4 of 4):",
    ]  # fmt: skip
    assert sum("typed digits" in note for note in notes) == 1  # what there is to see is told once, not at each run


def test_what_it_came_to_is_plain_data(quick):
    outcome, _ = quick
    found = outcome.as_dict()
    assert found["source_only"]["mean"] == pytest.approx(sum(outcome.source_only) / 2)
    first, second = outcome.hdan
    assert found["hdan"]["std"] == pytest.approx(abs(first - second) / 2**0.5)
    assert (found["seconds"], found["report"]) == (outcome.seconds, str(outcome.report))


def test_the_report_needs_nothing_from_outside_and_shows_what_was_asked_for(quick):
    outcome, _ = quick
    page = outcome.report.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", page) == []
    assert "<script" not in page
    assert page.count("<img") == 2  # samples of both domains
    for words in ("Similarity", "Independence", "Termination", "t-SNE", "accuracy", "seed 3", "seed 5"):
        assert words in page
    assert str(outcome.report.parent) not in page


def test_an_earlier_demo_is_replaced_whole(tmp_path):
    out = tmp_path / "demo"
    out.mkdir()
    (out / module.MARK).write_text("{}")
    (out / "hdan-7").mkdir()
    (out / "hdan-7" / "left.txt").write_text("from the last time")
    outcome = demo(out, seeds=(0,), **QUICK)
    assert outcome.report == out / "report.html"
    assert sorted(path.name for path in out.iterdir()) == [module.MARK, "hdan-0", "report.html", "source-only-0"]


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_is_not_a_demo_is_refused_and_left_as_it_is(tmp_path, what):
    out = tmp_path / "mine"
    kept = out / "notes.txt" if what == "folder" else out
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("kept")
    with pytest.raises(
        UserError, match="mine exists and is not an earlier demo: give another --out or remove it first"
    ):
        demo(out, seeds=(0,), **QUICK)
    assert kept.read_text() == "kept"


def test_a_demo_that_was_stopped_is_replaced_too(tmp_path, monkeypatch):
    def stop(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            demo(tmp_path / "demo", seeds=(0,), **QUICK)
    assert not (tmp_path / "demo" / "report.html").exists()
    module._make_room(tmp_path / "demo")


def test_hdan_reads_more_handwritten_digits_than_source_only(tmp_path):
    outcome = demo(tmp_path / "demo", seeds=(0,), device="cpu")
    assert outcome.hdan[0] - outcome.source_only[0] > 10
