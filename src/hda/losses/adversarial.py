"""What a domain discriminator minimises, and, through a gradient reversal, the network before it maximises."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def domain_classification(logits: Tensor, domains: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum over the rows of the domain discriminator's cross-entropy.

    Args:
        logits: (rows, 1) for two domains, of which number 1 is the positive; else (rows, domains).
        domains: (rows,) numbers.
        weights: (rows,).
    """
    if logits.shape[1] == 1:
        each = F.binary_cross_entropy_with_logits(logits[:, 0], domains.to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits, domains, reduction="none")
    return (weights * each).sum()
