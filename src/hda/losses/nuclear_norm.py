"""The nuclear norm of a batch of predictions: large where they are sure and of many classes."""

from __future__ import annotations

import torch
from torch import Tensor

_ITERATIONS = 24  # singular values down to 1.875^-24, 3e-7, of the largest possible are brought to one


def nuclear_norm(x: Tensor) -> Tensor:
    """The sum of the singular values of a matrix, without a singular value decomposition.

    It is the inner product of the matrix with its orthogonal polar factor, which is its gradient too. The factor comes
    from a fixed number of matrix products (Newton-Schulz of the fifth order, in float64), so that nothing waits for the
    host, and where the rank is deficient the gradient is finite: zero in the directions that are not there.

    Args:
        x: (rows, columns).
    """
    return (x * _polar(x.detach()).to(x.dtype)).sum()


def batch_nuclear_norm(logits: Tensor) -> Tensor:
    """Minus the mean singular value of the predictions (Cui et al., CVPR 2020): minimised, they are sure and diverse.

    The published code takes the mean over min(rows, classes) values, the text divides by the rows: the same where
    there are no more rows than classes.

    Args:
        logits: (rows, classes).
    """
    return -nuclear_norm(logits.softmax(dim=1)) / min(logits.shape)


@torch.no_grad()
def _polar(x: Tensor) -> Tensor:
    """U V^T of x = U S V^T."""
    wide = x.double()
    tall = wide if len(wide) >= wide.shape[1] else wide.T
    u = tall / torch.linalg.matrix_norm(tall).clamp_min(1e-30)  # all singular values in [0, 1]
    one = torch.eye(u.shape[1], dtype=u.dtype, device=u.device)
    for _ in range(_ITERATIONS):
        gram = u.T @ u
        u = u @ (15.0 * one - 10.0 * gram + 3.0 * gram @ gram) / 8.0
    factor: Tensor = u if tall is wide else u.T
    return factor
