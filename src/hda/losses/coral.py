"""Second-order statistics of two domains."""

from __future__ import annotations

import torch
from torch import Tensor


def coral(source: Tensor, target: Tensor) -> Tensor:
    """Squared Frobenius distance of two covariances, over 4 width^2 (Sun and Saenko, 2016).

    Args:
        source: (source rows, width).
        target: (target rows, width).
    """
    return (_covariance(source) - _covariance(target)).square().sum() / (4 * source.shape[1] ** 2)


def _covariance(x: Tensor) -> Tensor:
    """Unbiased; zero of a single row. (rows, width) -> (width, width)."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    x = x - x.mean(dim=0)
    return x.T @ x / max(len(x) - 1, 1)
