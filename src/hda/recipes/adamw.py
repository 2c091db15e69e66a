"""A modern recipe for backbones that SGD does not suit, such as vision transformers: AdamW, warm-up, cosine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hda.batch import Progress
from hda.recipes.base import Budget, Recipe, groups
from hda.settings import at_least, between, setting


class AdamW(Recipe):
    """AdamW (Loshchilov and Hutter, ICLR 2019) with a linear warm-up and a cosine to zero at the last step."""

    name = "adamw"
    summary = "AdamW, linear warm-up, cosine decay to zero"
    budgets = {  # noqa: RUF012 - declared ClassVar by the base class
        "uda": Budget(steps=6002, batch=36, lr=3e-5),
        "msda": Budget(steps=50004, batch=16, lr=3e-5),
        "ssda": Budget(steps=20004, batch=24, lr=3e-5),
    }

    @dataclass(frozen=True, kw_only=True)
    class Settings(Recipe.Settings):
        lr: float | None = setting(None, "learning rate of the backbone after the warm-up (auto: 0.00003)")
        weight_decay: float = setting(0.05, "decoupled weight decay")
        head_factor: float = setting(10.0, "how much faster heads and discriminators learn than the backbone")
        warmup: float = setting(0.05, "part of the run in which the rate rises from zero")

        def __post_init__(self) -> None:
            at_least(0, lr=self.lr, weight_decay=self.weight_decay, head_factor=self.head_factor)
            between(0, 1, warmup=self.warmup)

    def optimiser(self, backbone: list[nn.Parameter], heads: list[nn.Parameter]) -> torch.optim.Optimizer:
        optimiser = torch.optim.AdamW(
            groups(self.lr, self.settings.head_factor, backbone, heads),
            weight_decay=self.settings.weight_decay,
            fused=True,
            capturable=(*backbone, *heads)[0].is_cuda,  # the step is recorded as a CUDA graph
        )
        for parameter in (*backbone, *heads):
            optimiser.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return optimiser

    def rate(self, progress: Progress) -> Tensor:
        warm = torch.clamp((progress.iteration + 1) / max(1.0, self.settings.warmup * progress.steps), max=1.0)
        return warm * 0.5 * (1.0 + torch.cos(math.pi * progress.fraction))
