"""What a validator is, and all that it may see: there is no field for a target label."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Scores = Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Pictures as a model sees them."""

    features: NDArray[np.floating]  # (n, width)
    logits: NDArray[np.floating]  # (n, classes)

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.logits.ndim != 2 or len(self.features) != len(self.logits):
            raise ValueError(
                f"features and logits have a row a picture: got {self.features.shape}, {self.logits.shape}"
            )

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """(n,) the class that the model gives each picture."""
        labels: NDArray[np.int64] = self.logits.argmax(axis=1)
        return labels

    @property
    def log_probabilities(self) -> Floats:
        """(n, classes)."""
        logits = self.logits.astype(np.float64)
        shifted = logits - logits.max(axis=1, keepdims=True)
        found: Floats = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return found

    @property
    def probabilities(self) -> Floats:
        """(n, classes)."""
        found: Floats = np.exp(self.log_probabilities)
        return found


@dataclass(frozen=True, eq=False)
class Labelled(Unlabelled):
    """Pictures of the source: their classes are known."""

    labels: NDArray[np.int64]  # (n,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels.shape != (len(self),):
            raise ValueError(f"{len(self)} pictures have as many labels: got {self.labels.shape}")


@dataclass(frozen=True, eq=False)
class Seen:
    """A model as a validator sees it: what it makes of the target, and of the source where the validator needs that."""

    target: Unlabelled
    source: Labelled | None = None  # what it was trained on
    held_out: Labelled | None = None  # what it was not

    def __post_init__(self) -> None:
        if type(self.target) is not Unlabelled:
            raise TypeError("the target is of the type Unlabelled: a validator sees none of its labels")


class Validator:
    """Says how good a model is without a target label. One file, one subclass: `score`, higher is better.

    A score depends on the pictures and not on their order. It is finite for finite features, whatever they are.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()  # of `Seen`, besides the target: "source", "held_out"
    relative: ClassVar[bool] = False  # what a model is worth depends on the others that there are

    def score(self, seen: Seen) -> float:
        """How good the model is; only the order of such numbers means something."""
        raise NotImplementedError

    def measure(self, seen: Seen) -> dict[str, float]:
        """What has to be known of a model to compare it with others, by name."""
        return {self.name: self.score(seen)}

    def values(self, measured: Sequence[Scores]) -> Floats:
        """What each of several models is worth, from what `measure` gave of each: (models,)."""
        return np.array([scores[self.name] for scores in measured], dtype=np.float64)

    def source(self, seen: Seen) -> Labelled:
        return _given(seen.source, self.name, "source")

    def held_out(self, seen: Seen) -> Labelled:
        return _given(seen.held_out, self.name, "held_out")


def best(validator: Validator, measured: Sequence[Scores]) -> int:
    """Which of several models a validator chooses: the first of those worth most."""
    return int(validator.values(measured).argmax())


def ranks(values: Floats) -> Floats:
    """Places from 1, the lowest, to n; equals share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Floats = (last - (counts - 1) / 2)[group]
    return found


def shuffled(rows: NDArray[np.floating]) -> NDArray[np.int64]:
    """An order of rows, as good as random, that follows from what the rows are and not from how they came."""
    digests = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in np.ascontiguousarray(rows)]
    return np.array(sorted(range(len(rows)), key=digests.__getitem__), dtype=np.int64)


def standardised(features: NDArray[np.floating], like: NDArray[np.floating]) -> Floats:
    """Features in units of the mean and deviation that each has over the rows of `like`."""
    known = like.astype(np.float64)
    spread = known.std(axis=0)
    found: Floats = (features.astype(np.float64) - known.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    return found


def _given(part: Labelled | None, name: str, field: str) -> Labelled:
    if part is None:
        raise ValueError(f"the validator {name} needs Seen.{field}")
    return part
