"""How a run's progress is shown: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from hda.engine.place import place
from hda.engine.reporter import Reporter

_HIDDEN = ("step", "seconds", "lr", "total", "images_per_second", "mean_class_accuracy", "selected")


@contextmanager
def reporting() -> Iterator[Reporter]:
    """The reporter that suits where standard output goes; no bar is left moving, whatever happens within.

    Of several processes the first one alone reports.
    """
    if not place().first:
        yield Reporter()
        return
    if not sys.stdout.isatty():
        yield Lines()
        return
    bars = Bars()
    try:
        yield bars
    finally:
        bars.stop()


class Lines(Reporter):
    """Plain lines: notes, what was measured (not more often than every few seconds), and the end."""

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.shown = time.perf_counter()

    def note(self, sentence: str) -> None:
        print(sentence, flush=True)

    def reading(self, what: str, pictures: int) -> Callable[[int, int], None]:
        said = 0

        def progress(done: int, of: int) -> None:
            nonlocal said
            if self._due() or (said and done == of != said):
                print(f"{what}: {done:,} of {of:,} images read", flush=True)
                said = done

        return progress

    def begin(self, start: int, steps: int) -> None:
        self.steps = steps
        self.from_step, self.began = start, time.perf_counter()

    def record(self, record: Mapping[str, Any]) -> None:
        if "event" in record:
            return
        step = record["step"]
        if step == self.steps or "target_accuracy" in record or "selected" in record or self._due():
            words = ", ".join([figures(record), *rate(record), *self._left(record)])
            print(f"step {step} of {self.steps}: {words}", flush=True)

    def _left(self, record: Mapping[str, Any]) -> list[str]:
        done = record["step"] - self.from_step
        if "images_per_second" not in record or done < 1 or record["step"] == self.steps:
            return []
        seconds = (time.perf_counter() - self.began) / done * (self.steps - record["step"])
        return [f"{duration(seconds)} left"]

    def _due(self) -> bool:
        now = time.perf_counter()
        if now - self.shown < self.every:
            return False
        self.shown = now
        return True


class Bars(Reporter):
    """A bar for each set that takes its time to read, and one for the training, with the losses below it."""

    def __init__(self, console: Console | None = None, patience: float = 0.5) -> None:
        self.console = console or Console(highlight=False)
        self.patience = patience  # seconds without a bar
        self.bar: Bar | None = None

    def note(self, sentence: str) -> None:
        self.console.print(sentence, soft_wrap=True, markup=False)

    def reading(self, what: str, pictures: int) -> Callable[[int, int], None]:
        began = time.perf_counter()
        bar: Bar | None = None
        task = TaskID(0)

        def progress(done: int, of: int) -> None:
            nonlocal bar, task
            if bar is None and done < of and time.perf_counter() - began >= self.patience:
                bar = self._start()
                task = bar.add_task(f"reading {what}", total=of, rate="")
            if bar is not None and not bar.finished:
                bar.update(task, completed=done)
                if done == of:
                    self.stop()

        return progress

    def begin(self, start: int, steps: int) -> None:
        self.task = self._start().add_task("training", total=steps, completed=start, rate="")

    def advance(self, step: int) -> None:
        if self.bar is not None:
            self.bar.update(self.task, completed=step)

    def record(self, record: Mapping[str, Any]) -> None:
        if "event" in record or self.bar is None:
            return
        if "target_accuracy" in record or "selected" in record:
            self.note(f"step {record['step']}: {figures(record)}")
        else:
            self.bar.below = figures(record)
            self.bar.update(self.task, rate=" ".join(rate(record)))

    def end(self) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave the bar as it stands."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def _start(self) -> Bar:
        self.stop()
        self.bar = Bar(self.console)
        self.bar.start()
        return self.bar


class Bar(Progress):
    """A progress bar with a line of text below it."""

    def __init__(self, console: Console) -> None:
        self.below = ""
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}", markup=False),
            _Left(),
            console=console,
            redirect_stderr=sys.stderr.isatty(),  # what goes to a file is to stay out of the picture
        )

    def get_renderables(self) -> Iterator[RenderableType]:
        yield from super().get_renderables()
        if self.below:
            yield Text(self.below, style="dim")


class _Left(ProgressColumn):
    """The time left, then the time taken."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text(f"in {duration(task.finished_time or 0)}")
        return Text("" if task.time_remaining is None else f"{duration(task.time_remaining)} left")


def figures(record: Mapping[str, Any]) -> str:
    """What a line of metrics measured, in a few words."""
    parts = []
    for name, value in record.items():
        if name == "target_accuracy":
            parts.append(f"target accuracy {value:.1f} %")
        elif name not in _HIDDEN:
            parts.append(f"{name.removeprefix('selection.').replace('_', ' ')} {value:.3f}")
    return ", ".join(parts)


def rate(record: Mapping[str, Any]) -> list[str]:
    """How fast it went, if the line of metrics says so."""
    images = record.get("images_per_second")
    return [] if images is None else [f"{images:,.{0 if images >= 10 else 1}f} images/s"]


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
