"""What changed between two models' predictions of the same pictures: by class, and picture by picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Predicted:
    """A model's predictions, one a picture."""

    classes: NDArray[np.int64]
    confidence: NDArray[np.float64]  # of the predicted class, 0 to 1


@dataclass(frozen=True, eq=False)
class Changes:
    """Accuracy of each class before and after in percent, NaN where it has no picture, and which pictures changed."""

    before: NDArray[np.float64]  # (classes,)
    after: NDArray[np.float64]  # (classes,)
    won: NDArray[np.int64]  # pictures that were wrong and are right, the surest now first
    lost: NDArray[np.int64]  # pictures that were right and are wrong, the surest now first

    @property
    def gains(self) -> NDArray[np.float64]:
        """Points that each class has gained."""
        return self.after - self.before


def changes(before: Predicted, after: Predicted, labels: ArrayLike, classes: int) -> Changes:
    """Compare two models on the pictures that have a label; -1 stands for none.

    Args:
        before: predictions of the one.
        after: predictions of the other, of the same pictures.
        labels: (pictures,) true class numbers.
        classes: how many there are.
    """
    truth = np.asarray(labels, np.int64)
    known = truth >= 0
    hits = [(model.classes == truth) & known for model in (before, after)]
    first, second = (_share(hit[known], truth[known], classes) for hit in hits)
    won, lost = (_surest(rows, after.confidence) for rows in (~hits[0] & hits[1], hits[0] & ~hits[1]))
    return Changes(first, second, won, lost)


def moved(before: Predicted, after: Predicted) -> NDArray[np.int64]:
    """Pictures whose predicted class is another, the most certain change first: by the lower of both confidences.

    No label is needed for it.
    """
    sure = np.minimum(before.confidence, after.confidence)
    return _surest(before.classes != after.classes, sure)


def mistaken(found: Predicted, labels: ArrayLike) -> NDArray[np.int64]:
    """Pictures whose prediction is wrong, the surest first; those without a label (-1) are left out."""
    truth = np.asarray(labels, np.int64)
    return _surest((found.classes != truth) & (truth >= 0), found.confidence)


def _share(hit: NDArray[np.bool_], truth: NDArray[np.int64], classes: int) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        found: NDArray[np.float64] = (
            100.0 * np.bincount(truth, weights=hit, minlength=classes) / np.bincount(truth, minlength=classes)
        )
    return found


def _surest(chosen: NDArray[np.bool_], sure: NDArray[np.float64]) -> NDArray[np.int64]:
    rows = np.flatnonzero(chosen)
    found: NDArray[np.int64] = rows[np.argsort(-sure[rows], kind="stable")]
    return found
