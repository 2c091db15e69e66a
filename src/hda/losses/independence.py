"""The independence constraint, seen as a gap of non-Gaussianity."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from hda.errors import unknown

Over = Literal["classes", "data"]

_SMALLEST = 1e-12  # variance of a constant row: its standardised values are zeros, not 0 / 0


def kurtosis(x: Tensor, over: Over = "classes") -> Tensor:
    """Kurtosis E[n^4] - 3 E[n^2]^2 of standardised values (unbiased deviation).

    Args:
        x: (rows, classes).
        over: "classes": of each row, (rows,), as in the published code; "data": of each class over the rows, (classes,),
            as the paper's text takes the expectation.

    Over three classes or fewer it is the same for every row: standardised values leave nothing to choose.
    """
    if over not in get_args(Over):
        raise unknown("over", over, get_args(Over))
    dim = 1 if over == "classes" else 0
    variance = x.var(dim=dim, keepdim=True).clamp_min(_SMALLEST)
    square = (x - x.mean(dim=dim, keepdim=True)).square() / variance
    kurt: Tensor = square.square().mean(dim=dim) - 3.0 * square.mean(dim=dim).square()
    return kurt


def independence(g: Tensor, other: Tensor, over: Over = "classes") -> Tensor:
    """The gap | mean |kurtosis(g)| - mean |kurtosis(other)| | (Cui et al., NeurIPS 2020).

    Args:
        g: (rows, classes), the transferable.
        other: (rows, classes): the fundament (the paper's method section) or the heuristics (its figure's discussion).
        over: see `kurtosis`.
    """
    return (kurtosis(g, over).abs().mean() - kurtosis(other, over).abs().mean()).abs()
