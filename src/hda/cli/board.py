"""How the runs of a grid are shown: a live board on a terminal, plain lines elsewhere."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hda.bench.crew import Board
from hda.bench.runner import Planned
from hda.cli.terminal import duration


@contextmanager
def showing(planned: Sequence[Planned], seconds: Mapping[str, float]) -> Iterator[Board]:
    """The board that suits where standard output goes.

    Args:
        planned: all runs.
        seconds: by identity, what a run may take, as far as that is known before.
    """
    counts = Counts(planned, seconds)
    if not sys.stdout.isatty():
        yield Lines(counts)
        return
    live = LiveBoard(counts)
    with live.shown():
        yield live


class Counts:
    """How many runs are done, running and left, and how long that may take."""

    def __init__(self, planned: Sequence[Planned], seconds: Mapping[str, float]) -> None:
        self.planned = planned
        self.known = dict(seconds)
        self.done = sum(one.done for one in planned)
        self.failed = 0
        self.left = {one.identity: one for one in planned if not one.done}
        self.running: dict[str, _Running] = {}
        self.steps = {one.identity: round(one.share * one.steps) for one in planned}
        self.measured: list[float] = []  # seconds a step, of what was done here

    def start(self, one: Planned) -> None:
        self.running[one.identity] = _Running(one)

    def at(self, one: Planned, step: int) -> None:
        self.running[one.identity].at(step)
        self.steps[one.identity] = step

    def stop(self, one: Planned) -> None:
        self.running.pop(one.identity, None)

    def end(self, one: Planned, failed: bool = False) -> None:
        running = self.running.pop(one.identity, None)
        if running is not None and running.a_step is not None:
            self.measured.append(running.a_step)
        del self.left[one.identity]
        self.failed += failed
        self.done += not failed

    @property
    def waiting(self) -> int:
        return len(self.left) - len(self.running)

    def time_left(self) -> float | None:
        """Seconds, from the speed of what runs and ran; None while nothing is known."""
        paces = [running.a_step for running in self.running.values() if running.a_step is not None]
        usual = statistics.median(paces or self.measured) if paces or self.measured else None
        total = 0.0
        for name, one in self.left.items():
            running = self.running.get(name)
            own = running.a_step if running else None
            a_step = own or (self.known[name] / one.steps if name in self.known else usual)
            if a_step is None:
                return None
            total += a_step * max(0, one.steps - self.steps[name])
        return total / max(1, len(self.running))

    def sentence(self) -> str:
        parts = [f"{self.done:,} done", f"{len(self.running):,} running", f"{self.waiting:,} left"]
        parts += [f"{self.failed:,} failed"] if self.failed else []
        seconds = self.time_left() if self.left else None
        return ", ".join(parts + ([f"about {duration(seconds)} to go"] if seconds is not None else []))


class _Running:
    """A run under way: where it is, and how fast."""

    def __init__(self, one: Planned) -> None:
        self.one, self.step = one, round(one.share * one.steps)
        self.images: float | None = None
        self.first: tuple[int, float] | None = None
        self.a_step: float | None = None  # seconds, evaluations and checkpoints included

    def at(self, step: int) -> None:
        now, self.step = time.monotonic(), step
        if self.first is None:
            self.first = (step, now)
        elif step - self.first[0] >= 5:
            self.a_step = (now - self.first[1]) / (step - self.first[0])

    def words(self) -> str:
        speed = [] if self.images is None else [f"{self.images:,.0f} images/s"]
        return ", ".join([f"step {self.step:,} of {self.one.steps:,}", *speed])


class Lines(Board):
    """A line for each run that begins or is done, and one on how far it is, every now and then."""

    def __init__(self, counts: Counts, every: float = 30.0) -> None:
        self.counts, self.every, self.last = counts, every, time.monotonic()
        self.said: set[str] = set()

    def started(self, one: Planned) -> None:
        self.counts.start(one)
        again = f" from step {self.counts.steps[one.identity]:,}" if self.counts.steps[one.identity] else ""
        self.say(f"began {one.job.title}{again}")

    def at(self, one: Planned, step: int) -> None:
        self.counts.at(one, step)
        if time.monotonic() - self.last >= self.every:
            self.say(f"{one.job.title}: {self.counts.running[one.identity].words()} ({self.counts.sentence()})")

    def rate(self, one: Planned, images: float) -> None:
        self.counts.running[one.identity].images = images

    def done(self, one: Planned, row: Mapping[str, Any]) -> None:
        self.counts.end(one)
        self.say(f"done {came_to(one, row)} ({self.counts.sentence()})")

    def stopped(self, one: Planned) -> None:
        self.counts.stop(one)

    def failed(self, one: Planned, sentence: str) -> None:
        self.counts.end(one, failed=True)
        self.say(f"failed {one.job.title}: {sentence} ({self.counts.sentence()})")

    def note(self, sentence: str, one: Planned | None = None) -> None:
        if _is_news(sentence) and sentence not in self.said:
            self.said.add(sentence)  # tasks of one dataset have the same to say
            self.say(sentence)

    def say(self, line: str) -> None:
        self.last = time.monotonic()
        print(line, flush=True)


class LiveBoard(Lines):
    """A board that stays where it is, below the lines of what is done."""

    def __init__(self, counts: Counts, console: Console | None = None) -> None:
        super().__init__(counts, every=float("inf"))
        self.console = console or Console(highlight=False)
        self.live = Live(get_renderable=self.picture, console=self.console, refresh_per_second=4, transient=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        with self.live:
            yield

    def started(self, one: Planned) -> None:
        self.counts.start(one)

    def say(self, line: str) -> None:
        self.console.print(line, soft_wrap=True, markup=False)

    def picture(self) -> RenderableType:
        counts = self.counts
        of = len(counts.planned)
        finished = counts.done + sum(min(1.0, r.step / r.one.steps) for r in counts.running.values())
        whole = Table.grid(padding=(0, 1))
        whole.add_row(ProgressBar(total=of, completed=finished, width=24), Text(counts.sentence()))
        each = Table.grid(padding=(0, 1))
        for running in list(counts.running.values()):
            bar = ProgressBar(total=running.one.steps, completed=running.step, width=24)
            each.add_row(bar, Text(running.one.job.title), Text(running.words(), style="dim"))
        return Group(whole, each)


def came_to(one: Planned, row: Mapping[str, Any]) -> str:
    """A run that is done, in a few words."""
    apart = row.get("hold_out")
    more = f", {apart['accuracy']:.1f} % on pictures held out" if apart else ""
    return f"{one.job.title}: {row['accuracy']:.1f} %{more} in {duration(row['seconds'])}"


def _is_news(sentence: str) -> bool:
    return "is finished" not in sentence and not sentence.startswith("resumed at")
