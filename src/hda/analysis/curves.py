"""Curves from the records of runs: reading, smoothing, and what several seeds have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Curve:
    """One quantity over the steps of a run."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True, eq=False)
class Band:
    """One quantity over the steps of several runs: its mean and its deviation from run to run."""

    steps: NDArray[np.int64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def read(records: Iterable[Mapping[str, Any]], name: str) -> Curve:
    """The curve of one quantity; records without it, or with null, are passed over."""
    points = [(record["step"], record[name]) for record in records if record.get(name) is not None]
    return Curve(np.array([step for step, _ in points], np.int64), np.array([value for _, value in points], np.float64))


def smooth(curve: Curve, window: int) -> Curve:
    """The centred moving average over `window` points (an odd number), over fewer towards the ends.

    Fewer means as many on either side as the shorter side has, so that the ends do not drift.
    """
    if window < 1 or window % 2 == 0:
        raise ValueError(f"window is an odd number of points, got {window}")
    count = len(curve)
    sums = np.concatenate([[0.0], np.cumsum(curve.values)])
    at = np.arange(count)
    reach = np.minimum(window // 2, np.minimum(at, count - 1 - at))
    return Curve(curve.steps, (sums[at + reach + 1] - sums[at - reach]) / (2 * reach + 1))


def band(curves: Sequence[Curve]) -> Band:
    """Mean and deviation over runs, at the steps that all of them have."""
    if not curves:
        raise ValueError("a band is of at least one curve")
    steps = curves[0].steps
    for curve in curves[1:]:
        steps = np.intersect1d(steps, curve.steps)
    values = np.stack([curve.values[np.isin(curve.steps, steps)] for curve in curves])
    deviation = values.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(len(steps))
    return Band(steps, values.mean(axis=0), deviation)


def of_runs(records: Iterable[Iterable[Mapping[str, Any]]], name: str) -> Band:
    """The band of one quantity over those runs that have it; without a point where none has."""
    found = [read(of_run, name) for of_run in records]
    return band([curve for curve in found if len(curve)] or found)


def mean_deviation(values: ArrayLike) -> tuple[float, float]:
    """Mean and sample standard deviation (divisor n - 1) of one number a seed; the deviation of one number is 0."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if numbers.size > 1 else 0.0
