"""Gradient reversal (Ganin and Lempitsky, ICML 2015) and its schedule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def reverse_gradient(x: Tensor, coefficient: Tensor | float) -> Tensor:
    """The identity, whose gradient is multiplied by minus the coefficient (a 0-dimensional tensor, or a number)."""
    if isinstance(coefficient, Tensor):
        coefficient = coefficient.to(x)
    else:  # filled on the device: a tensor made from a number waits for the host
        coefficient = torch.full((), coefficient, dtype=x.dtype, device=x.device)
    reversed_: Tensor = _Reverse.apply(x, coefficient)
    return reversed_


def reversal_coefficient(iteration: Tensor, horizon: float = 10_000.0) -> Tensor:
    """2 / (1 + exp(-10 i / horizon)) - 1, from 0 to 1. The paper's horizon is 10,000, however long the run."""
    return torch.tanh(5.0 * iteration / horizon)  # the same function, exact also where it is small


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, coefficient: Tensor) -> Tensor:
        ctx.save_for_backward(coefficient)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (coefficient,) = ctx.saved_tensors
        return -coefficient * gradient, None
