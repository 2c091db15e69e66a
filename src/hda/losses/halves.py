"""Two classifiers side by side as one of twice as many classes: whose a row is, and what it is whoever's it is."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor


def half_surprise(logits: Tensor, half: Literal["first", "second"]) -> Tensor:
    """Mean of -log of the probability that all classes of one half have together (Zhang et al., CVPR 2019).

    The softmax is over both halves, so that the two classifiers are also a classifier of domains.

    Args:
        logits: (rows, 2 * classes), the first classifier's, then the second's.
        half: which classifier the rows are to belong to.
    """
    logits = _exact(logits)
    first, second = logits.chunk(2, dim=1)
    own = first if half == "first" else second
    return (logits.logsumexp(dim=1) - own.logsumexp(dim=1)).mean()


def entropy_of_halves(logits: Tensor) -> Tensor:
    """Mean entropy of the class, whichever half it was said by (Zhang et al., CVPR 2019).

    A class has the probability of both its entries together.

    Args:
        logits: (rows, 2 * classes), the first classifier's, then the second's.
    """
    logits = _exact(logits)
    first, second = logits.chunk(2, dim=1)
    log_p = torch.logaddexp(first, second) - logits.logsumexp(dim=1, keepdim=True)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


def _exact(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))
