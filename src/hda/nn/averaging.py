"""A slowly moving average of a network."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Averaged(nn.Module):
    """A copy of `module` whose parameters follow it as an exponential moving average, and are never trained.

    Buffers are its own: batch norms of the copy keep the statistics of what the copy has seen.

    >>> student = nn.Linear(4, 2)
    >>> teacher = Averaged(student)
    >>> teacher.follow(student, momentum=0.99)
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).requires_grad_(False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return self.module(*args, **kwargs)

    def follow(self, module: nn.Module, momentum: float) -> None:
        """Move every parameter a step of 1 - momentum towards the module's."""
        average = get_ema_multi_avg_fn(momentum)  # type: ignore[no-untyped-call]
        average(list(self.module.parameters()), list(module.parameters()), None)
