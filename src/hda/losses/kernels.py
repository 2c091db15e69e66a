"""Gaussian kernels of several bandwidths, and distances to put into them."""

from __future__ import annotations

import torch
from torch import Tensor

_SMALLEST = 1e-12  # bandwidth where all rows are alike: their distances are zeros, not 0 / 0


def squared_distances(x: Tensor) -> Tensor:
    """|x_i - x_j|^2 of all pairs of rows: (rows, width) -> (rows, rows).

    From inner products in float64, so that neither memory nor the reduced precision of a GPU's products is a matter.
    """
    return _distances(_inner(x)).to(_wide(x))


def squared_distances_of_products(*layers: Tensor) -> Tensor:
    """Squared distances of the rows' tensor products, never formed: (rows, width) each -> (rows, rows).

    <a (x) b, c (x) d> = <a, c> <b, d> (the lossless fusion of layers in Long et al., NeurIPS 2016).
    """
    return _distances(torch.stack([_inner(x) for x in layers]).prod(dim=0)).to(_wide(layers[0]))


def gaussian_kernels(
    distances: Tensor, kernels: int = 5, factor: float = 2.0, bandwidth: float | None = None
) -> Tensor:
    """The sum of `kernels` Gaussians exp(-distance / bandwidth): (rows, rows) -> (rows, rows).

    The bandwidths are `factor` apart from each other, around the given one or the mean distance of two different rows,
    which carries no gradient.

    Args:
        distances: (rows, rows), squared, zero on the diagonal.
        kernels: how many Gaussians.
        factor: how much wider each is than the one before.
        bandwidth: of the one in the middle; None is the mean distance.
    """
    if bandwidth is None:
        pairs = max(len(distances) * (len(distances) - 1), 1)
        middle = (distances.detach().sum() / pairs).clamp_min(_SMALLEST)
    else:
        middle = distances.new_full((), bandwidth)
    return torch.stack([torch.exp(-distances / (middle * factor ** (k - kernels // 2))) for k in range(kernels)]).sum(0)


def _inner(x: Tensor) -> Tensor:
    x = x.double()
    return x @ x.T


def _distances(inner: Tensor) -> Tensor:
    own = inner.diagonal()
    return (own[:, None] + own[None, :] - 2.0 * inner).clamp_min(0.0)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
