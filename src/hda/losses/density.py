"""The maximum density divergence: domains near each other, each class of a domain tight."""

from __future__ import annotations

import torch
from torch import Tensor


def density_divergence(
    source: Tensor, target: Tensor, source_classes: Tensor, target_classes: Tensor, tight: float = 1.0
) -> Tensor:
    """Distance of the domains' rows, plus distances of rows of one class within each domain (Li et al., TPAMI 2020).

    Half the mean distance of the i-th source row to the i-th target row (the shorter domain starts again), and, `tight`
    times, the mean distance over pairs of one class in the source and likewise in the target; zero where there is no pair.
    The half is the published code's: it divides a sum over n pairs by the 2 n rows.

    Args:
        source: (rows, width).
        target: (rows, width); may be of another number of rows.
        source_classes: (rows,) labels.
        target_classes: (rows,) the classifier's decisions.
        tight: weight of the two terms within domains.
    """
    pairs = torch.arange(max(len(source), len(target)), device=source.device)
    apart = _distance(source[pairs % len(source)] - target[pairs % len(target)]).mean() / 2
    return apart + tight * (_within(source, source_classes) + _within(target, target_classes))


def _within(x: Tensor, classes: Tensor) -> Tensor:
    """Mean distance over the pairs of rows of one class."""
    pairs = (classes[:, None] == classes[None, :]).to(x.dtype).triu(diagonal=1)
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    return (pairs * distances).sum() / pairs.sum().clamp_min(1.0)


def _distance(x: Tensor) -> Tensor:
    distance: Tensor = torch.linalg.vector_norm(x, dim=1)  # whose gradient at zero is zero
    return distance
