"""Which pictures a step sees: drawn from the seed and a few counters, so that a stopped run goes on exactly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from hda.batch import Layout

Mixing = Literal["random", "balanced"]


@dataclass
class Stream:
    """An endless shuffle of `size` pictures: one permutation after another, each a function of seed, key and epoch.

    Like a loader that shuffles and drops its last partial batch, an epoch ends after the last whole `batch`. A domain
    with fewer pictures than a batch is simply shuffled again within the batch.
    """

    size: int
    batch: int
    seed: int
    key: int
    position: int = 0  # pictures drawn so far: the whole state

    def __post_init__(self) -> None:
        self._epoch_length = self.size // self.batch * self.batch or self.size
        self._epoch = -1
        self._order = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> np.ndarray:
        """The next `count` picture numbers."""
        drawn = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            epoch, start = divmod(self.position, self._epoch_length)
            if epoch != self._epoch:
                self._epoch, self._order = epoch, _generator(self.seed, self.key, epoch).permutation(self.size)
            some = self._order[start : min(self._epoch_length, start + count - filled)]
            drawn[filled : filled + len(some)] = some
            filled += len(some)
            self.position += len(some)
        return drawn


@dataclass(frozen=True)
class Draw:
    """The rows of one batch: which picture of all (sources in order, labelled target, target), and whose it is."""

    pictures: np.ndarray  # (rows,) int64
    domains: np.ndarray  # (rows,) int64, numbered as in `hda.batch.Batch.domains`


@dataclass
class Sampler:
    """Batches of a fixed layout over k sources, an optional labelled target, and the unlabelled target.

    Args:
        sources: pictures in each source.
        labelled: pictures in the labelled part of the target (0: there is none).
        target: pictures in the unlabelled target (0: the method never looks at it).
        layout: rows of a batch.
        seed: the run's seed.
        mixing: with several sources, "random" draws each row's source independently, as the published code does;
            "balanced" gives every source the same number of rows.
        rows: where some pictures are held out, which of all each of the others is.
    """

    sources: tuple[int, ...]
    labelled: int
    target: int
    layout: Layout
    seed: int
    mixing: Mixing = "random"
    step: int = 0
    rows: np.ndarray | None = None
    _streams: list[Stream] = field(init=False)

    def __post_init__(self) -> None:
        k, layout = len(self.sources), self.layout
        one = layout.source if k == 1 else 1  # several sources drop nothing: none has batches of its own
        sizes = [(size, one) for size in self.sources]
        sizes += [(self.labelled, layout.labelled_target), (self.target, layout.target)]
        self._streams = [Stream(size, max(1, batch), self.seed, key) for key, (size, batch) in enumerate(sizes)]
        self._offsets = np.cumsum([0, *self.sources, self.labelled])
        self._first_source = 2 if self.labelled else 1
        fixed = len(self.sources) == 1 or self.mixing == "balanced"
        self._owned = (
            self._owners(np.arange(self.layout.source) * len(self.sources) // self.layout.source) if fixed else None
        )

    def next(self) -> Draw:
        """The next batch's rows."""
        mine, domains = self._owned or self._owners(self._random_sources())
        pictures = np.empty(self.layout.rows, dtype=np.int64)
        for key, own in mine:
            pictures[own] = self._offsets[key] + self._streams[key].take(len(own))
        self.step += 1
        return Draw(pictures if self.rows is None else self.rows[pictures], domains)

    def state(self) -> dict[str, Any]:
        """Plain data from which `restore` goes on."""
        return {"step": self.step, "positions": [stream.position for stream in self._streams]}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = state["step"]
        for stream, position in zip(self._streams, state["positions"], strict=True):
            stream.position = position

    def _owners(self, of_sources: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
        """Which rows each stream fills, and every row's domain, from the source of each of the sources' rows."""
        k, layout = len(self.sources), self.layout
        target = np.repeat([k, k + 1], [layout.labelled_target, layout.target])
        owners = np.concatenate([of_sources, target])
        rows = [(key, np.flatnonzero(owners == key)) for key in range(len(self._streams))]
        domains = np.where(owners < k, owners + self._first_source, np.where(owners == k, 1, 0))
        return [(key, own) for key, own in rows if len(own)], domains

    def _random_sources(self) -> np.ndarray:
        k, rows = len(self.sources), self.layout.source
        return _generator(self.seed, len(self._streams), self.step).integers(k, size=rows)


def _generator(*key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(list(key)))
