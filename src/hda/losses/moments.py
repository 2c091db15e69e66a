"""How far apart the moments of several domains' features are."""

from __future__ import annotations

import torch
from torch import Tensor

from hda.losses.domains import domain_means, domain_rows


def moment_distance(features: Tensor, domains: Tensor, count: int, orders: int = 2) -> Tensor:
    """The moment distance of Peng et al. (ICCV 2019) between sources and target, and between sources.

    The sum over k = 1 .. `orders` of the mean over the sources of |E(S_i^k) - E(T^k)| and the mean over pairs of sources
    of |E(S_i^k) - E(S_j^k)|, with powers by entry and Euclidean norms. A source without a row takes no part.

    Args:
        features: (rows, width).
        domains: (rows,) 0 is the target; every other number is a source.
        count: number of domains, the target among them.
        orders: up to which moment.
    """
    features = features.to(torch.promote_types(features.dtype, torch.float32))
    rows = domain_rows(domains, count)
    there = rows.amax(dim=1)
    pairs = (there[:, None] * there).triu(diagonal=1)  # of domains that have rows, each pair once
    to_target, between = pairs[0], pairs[1:]
    total = features.new_zeros(())
    for order in range(1, orders + 1):
        means = domain_means(features**order, rows)
        apart = torch.linalg.vector_norm(means[:, None] - means, dim=2)
        total = total + _mean(apart[0], to_target) + _mean(apart[1:], between)
    return total


def _mean(x: Tensor, counted: Tensor) -> Tensor:
    return (counted * x).sum() / counted.sum().clamp_min(1.0)
