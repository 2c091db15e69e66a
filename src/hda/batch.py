"""What one training step sees, and what it gives: a batch of every domain, how far the run has come, named losses.

Rows are ordered source, labelled target, unlabelled target. There is no field for the labels of the unlabelled target:
a method cannot read what is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Network = Callable[[Tensor, tuple[int, ...]], Tensor]  # pictures, sizes of groups with own statistics -> features


@dataclass(frozen=True)
class Layout:
    """How many rows of a batch belong to whom (all sources together)."""

    source: int
    labelled_target: int
    target: int

    @property
    def rows(self) -> int:
        return self.source + self.labelled_target + self.target

    @property
    def labelled(self) -> int:
        return self.source + self.labelled_target

    def statistics(self, rows: slice) -> tuple[int, ...]:
        """Sizes of the groups, among those rows, that share batch statistics: all labelled rows, then the target's."""
        start, stop, _ = rows.indices(self.rows)
        labelled = max(0, min(stop, self.labelled) - start)
        target = max(0, stop - max(start, self.labelled))
        return tuple(size for size in (labelled, target) if size)


class Share(Protocol):
    """The rows of a batch whose pictures this process has, where several processes share one (`hda.engine`)."""

    @property
    def rows(self) -> int: ...

    def through(self, network: Network, images: Tensor, rows: slice) -> Tensor:
        """Features of some rows of the whole batch, of which every process computes its own: (rows, width)."""
        ...


@dataclass(frozen=True)
class Batch:
    """Pictures of every domain, the labels that may be seen, and whose row is whose."""

    images: tuple[Tensor, ...]  # one (rows, 3, height, width) tensor a view: what `Method.embed` makes features of
    labels: Tensor  # (source + labelled target,) class numbers
    domains: Tensor  # (rows,) 0 is the target; 1 the labelled target if there is one; then the sources in order
    layout: Layout
    share: Share | None = None  # images are of these rows alone; labels, domains and layout are the whole batch's

    def __post_init__(self) -> None:
        if len(self.labels) != self.layout.labelled:
            raise ValueError(f"{len(self.labels)} labels for {self.layout.labelled} labelled rows")
        pictures = self.layout.rows if self.share is None else self.share.rows
        if len(self.domains) != self.layout.rows or any(len(rows) != pictures for rows in self.images):
            raise ValueError(f"pictures and domains must be of {self.layout.rows} rows")

    @property
    def source(self) -> slice:
        return slice(0, self.layout.source)

    @property
    def labelled_target(self) -> slice:
        return slice(self.layout.source, self.layout.labelled)

    @property
    def labelled(self) -> slice:
        """Every row whose label is known: source and labelled target."""
        return slice(0, self.layout.labelled)

    @property
    def target(self) -> slice:
        """The unlabelled target's rows."""
        return slice(self.layout.labelled, self.layout.rows)

    @property
    def groups(self) -> tuple[slice, ...]:
        """The groups that an alignment compares: all sources as one, the labelled target if there is one, the target."""
        parts = (self.source, self.labelled_target, self.target)
        return tuple(part for part in parts if part.stop > part.start)


@dataclass(frozen=True)
class Progress:
    """How far a run is: a tensor on the device, so that a schedule never waits for the host."""

    iteration: Tensor  # 0-dimensional float32: updates done before this one
    steps: int  # updates in the whole run

    @property
    def fraction(self) -> Tensor:
        return self.iteration / self.steps


class Losses(dict[str, Tensor]):
    """Named loss terms, already weighted: their sum is what the step minimises. `watched` is measured, not minimised."""

    def __init__(self, **terms: Tensor) -> None:
        super().__init__(**terms)
        self.watched: dict[str, Tensor] = {}

    def watching(self, **quantities: Tensor) -> Losses:
        self.watched.update({name: value.detach() for name, value in quantities.items()})
        return self

    def including(self, other: Losses) -> Losses:
        """These terms and another's, under names that no two may share."""
        twice = self.keys() & other.keys() | self.watched.keys() & other.watched.keys()
        if twice:
            raise ValueError(f"two losses are named {sorted(twice)[0]!r}")
        self.update(other)
        self.watched.update(other.watched)
        return self

    @property
    def total(self) -> Tensor:
        return torch.stack(list(self.values())).sum()
