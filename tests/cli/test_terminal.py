import io
import re
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from hda.cli.terminal import Bars, Lines, duration, figures, reporting

RECORD = {
    "step": 20,
    "classification": 1.23456,
    "termination": 0.5,
    "independence_heuristic": 0.004,
    "total": 1.7,
    "lr": 0.001,
    "seconds": 3.2,
    "images_per_second": 1234.5,
}
MEASURED = {"step": 40, "target_accuracy": 68.754, "mean_class_accuracy": 70.0}


@pytest.fixture
def clock(monkeypatch):
    """The reporter's clock, moved by hand."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr("hda.cli.terminal.time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


@pytest.fixture
def lines(clock, capsys):
    """Lines, and what they have printed since asked last."""
    return SimpleNamespace(report=Lines(every=5.0), printed=lambda: capsys.readouterr().out.splitlines())


@pytest.fixture
def bars():
    console = Console(file=io.StringIO(), force_terminal=True, width=80, highlight=False, color_system=None)
    return SimpleNamespace(report=Bars(console, patience=0.0), shown=lambda: _without_moves(console.file.getvalue()))


def _without_moves(text: str) -> list[str]:
    """The lines of a terminal's text, without the codes that move the cursor."""
    return [re.sub(r"\s+", " ", line).strip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "\n", text).splitlines()]


def test_figures_are_what_was_measured_and_nothing_else():
    assert figures(RECORD) == "classification 1.235, termination 0.500, independence heuristic 0.004"
    assert figures(MEASURED) == "target accuracy 68.8 %"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (61, "1 min 01 s"), (3599, "59 min 59 s"), (7380, "2 h 03 min")],
)
def test_durations_are_told_in_words(seconds, words):
    assert duration(seconds) == words


# Plain lines


def test_a_line_has_losses_rate_and_time_left(lines, clock):
    lines.report.begin(0, 60)
    clock.now += 10
    lines.report.record(RECORD)
    assert lines.printed() == [
        "step 20 of 60: classification 1.235, termination 0.500, independence heuristic 0.004, 1,234 images/s, 20 s left"
    ]


def test_the_time_left_counts_from_where_a_run_was_resumed(lines, clock):
    lines.report.begin(10, 60)
    clock.now += 10
    lines.report.record(RECORD)
    assert lines.printed()[0].endswith(", 40 s left")


def test_lines_come_every_few_seconds_but_the_last_one_and_accuracies_always(lines, clock):
    lines.report.begin(0, 60)
    lines.report.record(RECORD)
    assert lines.printed() == []
    clock.now += 6
    lines.report.record(RECORD)
    lines.report.record(RECORD)
    assert len(lines.printed()) == 1
    lines.report.record(MEASURED)
    lines.report.record(RECORD | {"step": 60, "images_per_second": 3.14})
    first, last = lines.printed()
    assert first == "step 40 of 60: target accuracy 68.8 %"
    assert last.startswith("step 60 of 60: classification")
    assert last.endswith(", 3.1 images/s")


def test_that_a_run_was_resumed_is_no_line_of_figures(lines, clock):
    lines.report.begin(20, 60)
    clock.now += 10
    lines.report.record({"step": 20, "event": "resumed"})
    assert lines.printed() == []


def test_reading_is_told_when_it_takes_its_time(lines, clock):
    progress = lines.report.reading("photos", 3000)
    progress(1000, 3000)
    assert lines.printed() == []
    clock.now += 6
    progress(2000, 3000)
    assert lines.printed() == ["photos: 2,000 of 3,000 images read"]
    progress(3000, 3000)
    progress(3000, 3000)
    assert lines.printed() == ["photos: 3,000 of 3,000 images read"]


def test_reading_in_no_time_is_not_told(lines):
    lines.report.reading("photos", 10)(10, 10)
    assert lines.printed() == []


# Bars


def test_the_bar_has_steps_rate_and_time_and_all_losses_below_it(bars):
    bars.report.begin(0, 40)
    bars.report.advance(20)
    bars.report.record(RECORD | {f"loss_{number}": 0.25 for number in range(6)})
    bars.report.advance(40)
    bars.report.end()
    shown = bars.shown()
    training = [line for line in shown if line.startswith("training")]
    assert re.fullmatch(r"training \S+ 40/40 1,234 images/s in \d+ s", training[-1])
    below = " ".join(shown[len(shown) - shown[::-1].index(training[-1]) :])
    assert "classification 1.235, termination 0.500" in below
    assert "loss 5 0.250" in below
    assert "\u2026" not in below  # nothing is cut off in 80 columns


def test_accuracies_and_notes_stand_above_the_bar(bars):
    bars.report.begin(0, 40)
    bars.report.record(MEASURED)
    bars.report.note("a note with [brackets]")
    bars.report.end()
    shown = bars.shown()
    assert "step 40: target accuracy 68.8 %" in shown
    assert "a note with [brackets]" in shown


def test_a_resumed_bar_begins_where_the_run_does(bars):
    bars.report.begin(30, 40)
    bars.report.record({"step": 30, "event": "resumed"})
    bars.report.end()
    assert any(" 30/40" in line for line in bars.shown())


def test_each_set_that_is_read_has_a_bar_that_ends(bars):
    progress = bars.report.reading("photos", 300)
    for done in (100, 200, 300, 300):
        progress(done, 300)
    assert bars.report.bar is None
    last = [line for line in bars.shown() if line.startswith("reading photos")][-1]
    assert re.fullmatch(r"reading photos \S+ 300/300 in \d+ s", last)


def test_what_is_read_in_no_time_has_no_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    progress = Bars(console, patience=3600.0).reading("photos", 300)
    progress(100, 300)
    progress(300, 300)
    assert console.file.getvalue() == ""


def test_lines_are_for_pipes_and_bars_for_terminals(monkeypatch):
    with reporting() as report:
        assert isinstance(report, Lines)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with reporting() as report:
        assert isinstance(report, Bars)


def test_no_bar_is_left_moving_after_an_error(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    moving = []

    def fail():
        with reporting() as report:
            report.begin(0, 40)
            moving.append(report.bar.live)
            assert moving[0].is_started
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not moving[0].is_started
