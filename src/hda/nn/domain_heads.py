"""A classifier for every source, over the same features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hda.nn.heads import PlainHead


class DomainHeads(nn.Module):
    """One linear layer a domain.

    >>> heads = DomainHeads(2048, classes=65, domains=3)
    >>> heads(torch.rand(8, 2048)).shape
    torch.Size([8, 3, 65])
    """

    def __init__(self, width: int, classes: int, domains: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(PlainHead(width, classes) for _ in range(domains))

    def forward(self, features: Tensor) -> Tensor:
        """What every domain's classifier says of every row: (rows, width) -> (rows, domains, classes)."""
        return torch.stack([head(features) for head in self.heads], dim=1)


def mixed(logits: Tensor, weights: Tensor | None = None) -> Tensor:
    """Logits of a mixture of classifiers: the logarithm of the weighted mean of their probabilities.

    Args:
        logits: (rows, classifiers, classes).
        weights: (rows, classifiers), not negative; as they are if they sum to one. None: all alike.

    Returns:
        (rows, classes), whose softmax is the mixture.
    """
    log_p = logits.log_softmax(dim=2)
    if weights is not None:
        log_p = log_p + weights.clamp_min(1e-12).log()[:, :, None]
    return log_p.logsumexp(dim=1)
