"""How a run's progress is shown: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from hda.engine.reporter import Reporter

_HIDDEN = ("step", "seconds", "lr", "total")


def reporter() -> Reporter:
    """The one that suits where standard output goes."""
    return Bar() if sys.stdout.isatty() else Lines()


class Lines(Reporter):
    """Plain lines: notes, what was measured (not more often than every few seconds), and the end."""

    def __init__(self, every: float = 5.0) -> None:
        self.every = every
        self.shown = 0.0

    def note(self, sentence: str) -> None:
        print(sentence, flush=True)

    def reading(self, what: str, pictures: int) -> Callable[[int, int], None]:
        last = 0

        def progress(done: int, of: int) -> None:
            nonlocal last
            if done != last and (done == of or self._due()):
                print(f"{what}: {done:,} of {of:,} images read", flush=True)
                last = done

        return progress

    def begin(self, start: int, steps: int) -> None:
        self.steps = steps
        self.from_step, self.began = start, time.perf_counter()

    def record(self, record: Mapping[str, object]) -> None:
        step = record["step"]
        if "event" in record:
            return
        if step == self.steps or "target_accuracy" in record or self._due():
            print(f"step {step} of {self.steps}: {_words(record)}{self._left(record)}", flush=True)

    def _left(self, record: Mapping[str, Any]) -> str:
        done = record["step"] - self.from_step
        if "images_per_second" not in record or done < 1 or record["step"] == self.steps:
            return ""
        seconds = (time.perf_counter() - self.began) / done * (self.steps - record["step"])
        return f", {_time(seconds)} left"

    def _due(self) -> bool:
        now = time.perf_counter()
        if now - self.shown < self.every:
            return False
        self.shown = now
        return True


class Bar(Reporter):
    """A bar with rate, losses and time left."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)
        self.bar: Any = None
        self.rows = ""

    def note(self, sentence: str) -> None:
        self.console.print(sentence, soft_wrap=True, markup=False)

    def reading(self, what: str, pictures: int) -> Callable[[int, int], None]:
        bar = self._bar()
        task = bar.add_task(f"reading {what}", total=pictures, facts="")

        def progress(done: int, of: int) -> None:
            if not bar.live.is_started:
                bar.start()
            bar.update(task, completed=done, total=of)
            if done == of:
                bar.stop()

        return progress

    def begin(self, start: int, steps: int) -> None:
        self.bar = self._bar()
        self.task = self.bar.add_task("training", total=steps, completed=start, facts="")
        self.bar.start()

    def advance(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def record(self, record: Mapping[str, object]) -> None:
        if "event" in record:
            return
        if "target_accuracy" in record:
            self.bar.console.print(f"step {record['step']}: {_words(record)}", markup=False)
        else:
            self.bar.update(self.task, facts=_words(record))

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _bar(self) -> Any:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        return Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[facts]}", markup=False),
            console=self.console,
        )


def _words(record: Mapping[str, Any]) -> str:
    """The figures of a line of metrics in a few words."""
    parts = []
    for name, value in record.items():
        if name in _HIDDEN or name in ("mean_class_accuracy",):
            continue
        if name == "images_per_second":
            parts.append(f"{value:,.0f} images/s")
        elif name == "target_accuracy":
            parts.append(f"target accuracy {value:.1f} %")
        else:
            parts.append(f"{name.replace('_', ' ')} {value:.3f}")
    return ", ".join(parts)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
