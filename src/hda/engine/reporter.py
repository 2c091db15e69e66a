"""What a run tells while it works: nothing by default; the command line draws a bar or prints lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping


class Reporter:
    """Listens to a run. Every method may be overridden; the base class is silent."""

    def note(self, sentence: str) -> None:
        """Something the user should know, once."""

    def reading(self, what: str, pictures: int) -> Callable[[int, int], None] | None:
        """Pictures are about to be read; what is returned is called with (done, of) along the way."""
        return None

    def begin(self, start: int, steps: int) -> None:
        """Training begins after `start` of `steps` updates."""

    def advance(self, step: int) -> None:
        """That many updates are done (or, on a GPU, under way)."""

    def record(self, record: Mapping[str, object]) -> None:
        """A line was added to `metrics.jsonl`."""

    def end(self) -> None:
        """Training is over, or has failed."""
