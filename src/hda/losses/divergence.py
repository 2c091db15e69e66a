"""How far apart two predictions of the same row are, as distributions."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sensitivity(first: Tensor, second: Tensor) -> Tensor:
    """Mean over rows and classes of (KL(p, q) + KL(q, p)) / 2 of two draws of a classifier's dropout (Saito et al., 2018).

    In each divergence the distribution that is compared with carries no gradient, as in the published code: so the
    gradient by the logits is bounded, and a classifier that maximises it cannot run away.

    Args:
        first: (rows, classes) logits of p.
        second: (rows, classes) logits of q.
    """
    p, q = _log_softmax(first), _log_softmax(second)
    return (_divergence(p.detach(), q) + _divergence(q.detach(), p)) / 2


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Mean over the rows of (KL(p, m) + KL(q, m)) / 2, where m = (p + q) / 2: from 0 to log 2.

    Args:
        first: (rows, classes) logits of p.
        second: (rows, classes) logits of q.
    """
    p, q = _log_softmax(first), _log_softmax(second)
    m = torch.logaddexp(p, q) - math.log(2.0)
    return (p.exp() * (p - m) + q.exp() * (q - m)).sum(dim=1).mean() / 2


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    return (p.exp() * (p - q)).mean()


def _log_softmax(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(dim=1)
