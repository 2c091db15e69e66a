"""Sums over domains of means over their rows, however many rows a domain has in a batch, none included."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def domain_rows(domains: Tensor, count: int) -> Tensor:
    """Which rows are whose, as ones and zeros: (rows,) numbers from 0 to count - 1 -> (count, rows) float32."""
    return (domains == torch.arange(count, device=domains.device)[:, None]).float()


def domain_means(x: Tensor, rows: Tensor) -> Tensor:
    """Means over the rows of each domain; zero for a domain without a row.

    Args:
        x: (rows, ...) values.
        rows: (domains, rows) ones and zeros, as `domain_rows` gives them.

    Returns:
        (domains, ...).
    """
    share = rows / rows.sum(dim=1, keepdim=True).clamp_min(1.0)
    means: Tensor = torch.tensordot(share.to(x.dtype), x, dims=1)
    return means


def cross_entropy_by_domain(logits: Tensor, labels: Tensor, domains: Tensor) -> Tensor:
    """Sum over the domains of the mean cross-entropy of a domain's rows under the domain's own classifier.

    Args:
        logits: (rows, domains, classes): what every domain's classifier says of every row.
        labels: (rows,) class numbers.
        domains: (rows,) whose row is whose, from 0.
    """
    own = logits.take_along_dim(domains[:, None, None], dim=1)[:, 0]
    each = F.cross_entropy(own.to(torch.promote_types(own.dtype, torch.float32)), labels, reduction="none")
    return domain_means(each, domain_rows(domains, logits.shape[1])).sum()
