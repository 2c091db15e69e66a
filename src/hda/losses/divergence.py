"""How far apart two predictions of the same row are, as distributions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def symmetric_divergence(first: Tensor, second: Tensor) -> Tensor:
    """Mean over the rows of (KL(p, q) + KL(q, p)) / 2, the sensitivity of Saito et al. (ICLR 2018).

    Args:
        first: (rows, classes) logits of p.
        second: (rows, classes) logits of q.
    """
    p, q = _log_softmax(first), _log_softmax(second)
    return ((p.exp() - q.exp()) * (p - q)).sum(dim=1).mean() / 2


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Mean over the rows of (KL(p, m) + KL(q, m)) / 2, where m = (p + q) / 2: from 0 to log 2.

    Args:
        first: (rows, classes) logits of p.
        second: (rows, classes) logits of q.
    """
    p, q = _log_softmax(first), _log_softmax(second)
    m = torch.logaddexp(p, q) - math.log(2.0)
    return (p.exp() * (p - m) + q.exp() * (q - m)).sum(dim=1).mean() / 2


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=1)
