"""The paper's recipe: SGD with Nesterov momentum, an inverse decay, heads ten times faster than the backbone."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hda.batch import Progress
from hda.recipes.base import Budget, Recipe, groups
from hda.settings import at_least, between, setting


class SGD(Recipe):
    """lr * (1 + decay * i)^-power, on every parameter including biases and batch norm (Cui et al., 2020).

    The published code doubles the weight decay of 0.0005 that the text names: its 0.001 is the default.
    """

    name = "sgd"
    summary = "SGD, Nesterov momentum, inverse decay: the paper's"
    budgets = {  # noqa: RUF012 - declared ClassVar by the base class
        "uda": Budget(steps=6002, batch=36, lr=0.001),
        "msda": Budget(steps=50004, batch=16, lr=0.0003),
        "ssda": Budget(steps=20004, batch=24, lr=0.001),
    }

    @dataclass(frozen=True, kw_only=True)
    class Settings(Recipe.Settings):
        lr: float | None = setting(
            None, "learning rate of the backbone at the start (auto: 0.001; multi-source 0.0003)"
        )
        momentum: float = setting(0.9, "Nesterov momentum")
        weight_decay: float = setting(0.001, "weight decay (the paper's text: 0.0005, its code: 0.001)")
        head_factor: float = setting(10.0, "how much faster heads and discriminators learn than the backbone")
        decay: float = setting(0.001, "the rate falls with (1 + decay * step)^-decay_power")
        decay_power: float = setting(0.75, "see decay")

        def __post_init__(self) -> None:
            at_least(0, lr=self.lr, weight_decay=self.weight_decay, head_factor=self.head_factor, decay=self.decay)
            between(0, 1, momentum=self.momentum)

    def optimiser(self, backbone: list[nn.Parameter], heads: list[nn.Parameter]) -> torch.optim.Optimizer:
        s = self.settings
        optimiser = torch.optim.SGD(
            groups(self.lr, s.head_factor, backbone, heads),
            momentum=s.momentum,
            weight_decay=s.weight_decay,
            nesterov=s.momentum > 0,
            fused=True,
        )
        if s.momentum > 0:
            # A momentum of zero before the first step gives the first step torch's own special case gives, and leaves
            # no special case: the step can be captured, and stopped and resumed, at any point.
            for parameter in (*backbone, *heads):
                optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimiser

    def rate(self, progress: Progress) -> Tensor:
        rate: Tensor = (1.0 + self.settings.decay * progress.iteration) ** -self.settings.decay_power
        return rate
