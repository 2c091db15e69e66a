"""The classification loss of every method here."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the rows whose labels are known, in float32.

    Args:
        logits: (rows, classes).
        labels: (rows,) class numbers.
    """
    return F.cross_entropy(logits.float(), labels)
