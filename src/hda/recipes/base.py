"""What a recipe is: an optimiser over the backbone and the heads, and a schedule that is a function of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hda.batch import Progress


@dataclass(frozen=True)
class Budget:
    """How much a recipe trains by default in one setting."""

    steps: int
    batch: int  # pictures a source (and of the labelled target) in one step; the target has as many
    lr: float


class Recipe:
    """An optimiser and its schedule. One file, one subclass: settings, budgets, `optimiser`, `rate`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    revision: ClassVar[int] = 1  # raised when its numbers change
    budgets: ClassVar[dict[str, Budget]]  # by setting: uda, msda, ssda

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        lr: float | None = None

    def __init__(self, setting: str, settings: Any = None) -> None:
        self.settings: Any = self.Settings() if settings is None else settings
        self.budget = self.budgets[setting]
        self.lr: float = self.budget.lr if self.settings.lr is None else self.settings.lr

    def optimiser(self, backbone: list[nn.Parameter], heads: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser, every learning rate a tensor on the parameters' device and every buffer already there."""
        raise NotImplementedError

    def rate(self, progress: Progress) -> Tensor:
        """What the learning rates of a group are multiplied with at this point of the run: a 0-dimensional tensor."""
        raise NotImplementedError

    def set_rates(self, optimiser: torch.optim.Optimizer, progress: Progress) -> Tensor:
        """Write the learning rates of this step into the optimiser, without the host; returns the backbone's."""
        rate = self.rate(progress)
        for group in optimiser.param_groups:
            group["lr"].copy_(rate * group["base"])
        lr: Tensor = rate * self.lr
        return lr


def groups(
    lr: float, head_factor: float, backbone: list[nn.Parameter], heads: list[nn.Parameter]
) -> list[dict[str, Any]]:
    """Parameter groups for the backbone and for the (faster) heads, each with a tensor for its rate."""
    parts = ((backbone, lr), (heads, lr * head_factor))
    return [
        {"params": params, "lr": torch.tensor(base, device=params[0].device), "base": base}
        for params, base in parts
        if params
    ]
