"""The classification loss of every method here."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy of the rows whose labels are known, in float32 at least.

    Args:
        logits: (rows, classes).
        labels: (rows,) class numbers.
    """
    return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels)
