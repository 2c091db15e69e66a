"""The largest singular values of a batch of features, and what they cost."""

from __future__ import annotations

import torch
from torch import Tensor

_SQUARINGS = 14  # as 16,384 steps of the power method
_SMALLEST = 1e-30
_ROUNDING = 1e-5  # of the matrix's size


def spectral_penalty(features: Tensor, count: int = 1) -> Tensor:
    """Sum of the squares of the `count` largest singular values (Chen et al., ICML 2019).

    The left singular vectors come from squaring the Gram matrix of the rows again and again, which neither waits for the
    device nor has a gradient of its own: that of |u^T X|^2 with u held fixed is the singular value's, and stays finite
    where singular values coincide.

    Args:
        features: (rows, width).
        count: how many; of more than there are rows, the rest are zero.
    """
    with torch.no_grad():
        vectors = _leading_vectors(features @ features.T, min(count, len(features)))
    return (vectors @ features).square().sum()


def _leading_vectors(gram: Tensor, count: int) -> Tensor:
    """The eigenvectors of the largest eigenvalues of a positive semi-definite matrix: (n, n) -> (count, n)."""
    found: list[Tensor] = []
    rounding = _ROUNDING * torch.linalg.matrix_norm(gram)
    for _ in range(count):
        power = _normalised(gram)
        for _ in range(_SQUARINGS):
            power = _normalised(power @ power)
        # The columns of the power are multiples of the eigenvector; the longest of them knows it best.
        column = power.index_select(1, power.diagonal().argmax()[None])[:, 0]
        for earlier in found:
            column = column - (earlier @ column) * earlier
        vector = column / torch.linalg.vector_norm(column).clamp_min(_SMALLEST)
        # What the earlier ones leave of a matrix of lower rank is rounding, and has no eigenvectors.
        vector = vector * (torch.linalg.matrix_norm(gram) > rounding)
        found.append(vector)
        rest = torch.eye(len(gram), dtype=gram.dtype, device=gram.device) - torch.outer(vector, vector)
        gram = rest @ gram @ rest
    return torch.stack(found)


def _normalised(matrix: Tensor) -> Tensor:
    size: Tensor = torch.linalg.matrix_norm(matrix)
    return matrix / size.clamp_min(_SMALLEST)
