"""Whether a model is as often right as it is sure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Reliability:
    """Predictions in bins of equal width by their confidence; a bin without any has NaN."""

    edges: NDArray[np.float64]  # (bins + 1,)
    counts: NDArray[np.int64]  # (bins,)
    confidence: NDArray[np.float64]  # (bins,) mean
    accuracy: NDArray[np.float64]  # (bins,) share that is right

    @property
    def error(self) -> float:
        """The expected calibration error (Guo et al., ICML 2017), in percent."""
        gaps = np.where(self.counts > 0, np.abs(self.confidence - self.accuracy), 0.0)
        return 100.0 * float((gaps * self.counts).sum() / self.counts.sum())

    @property
    def surplus(self) -> float:
        """Mean confidence less accuracy, in percent: above zero the model is too sure of itself."""
        gaps = np.where(self.counts > 0, self.confidence - self.accuracy, 0.0)
        return 100.0 * float((gaps * self.counts).sum() / self.counts.sum())


def reliability(confidence: ArrayLike, right: ArrayLike, bins: int = 15) -> Reliability:
    """Sort predictions into bins (low, high] by confidence; the first holds 0 too.

    Args:
        confidence: (pictures,), 0 to 1.
        right: (pictures,), whether each prediction is right.
        bins: how many.
    """
    sure, hit = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    if not len(sure):
        raise ValueError("the calibration is of at least one prediction")
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.clip(np.searchsorted(edges, sure, side="left") - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = [np.bincount(place, weights=values, minlength=bins) / counts for values in (sure, hit)]
    return Reliability(edges, counts, *means)
