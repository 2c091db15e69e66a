"""The similarity constraint: at the start the transferable is the negated heuristic."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def similarity(g: Tensor, h: Tensor) -> Tensor:
    """Mean over the rows of |cos(g, h)|: 1 at the start, when G = -H (Cui et al., NeurIPS 2020).

    Args:
        g: (rows, classes), the transferable.
        h: (rows, classes), the sum of all heuristics.
    """
    return F.cosine_similarity(g, h, dim=1).abs().mean()
