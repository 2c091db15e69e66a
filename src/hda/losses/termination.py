"""The termination constraint: at the end of training the heuristics are near zero."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from hda.errors import unknown


def termination(h: Tensor, norm: Literal["l1", "l2"] = "l1", over_classes: Literal["mean", "sum"] = "mean") -> Tensor:
    """Size of the heuristics, mean over the rows (Cui et al., NeurIPS 2020, their range constraint).

    Args:
        h: (rows, classes), the sum of all heuristics.
        norm: "l1" is |h|, "l2" h squared.
        over_classes: "mean" as in the published code, "sum" as in the paper's text (as many times larger as there are
            classes).
    """
    if norm not in ("l1", "l2"):
        raise unknown("norm", norm, ("l1", "l2"))
    if over_classes not in ("mean", "sum"):
        raise unknown("over_classes", over_classes, ("mean", "sum"))
    size = h.abs() if norm == "l1" else h.square()
    return size.mean() if over_classes == "mean" else size.sum(dim=1).mean()
