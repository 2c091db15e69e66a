"""Entropy minimisation: the target is predicted with certainty."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import entropy
from hda.settings import at_least, setting


class Entropy(Alignment):
    """The mean entropy of the target's predictions (Grandvalet and Bengio, NeurIPS 2004).

    >>> align = Entropy()
    >>> loss = align(torch.rand(12, 65))

    Args:
        normalise: divide it by the largest there can be, the logarithm of the number of classes.
    """

    name = "entropy"
    summary = "entropy of the target's predictions: EntMin's, ENT's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the entropy")
        normalise_entropy: bool = setting(True, "divide the entropy by the logarithm of the number of classes")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)

    def __init__(self, normalise: bool = True) -> None:
        super().__init__()
        self.normalise = normalise

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.normalise_entropy)

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=self(seen.target(seen.logits)))

    def forward(self, target: Tensor) -> Tensor:
        """The mean entropy of the target's logits, (rows, classes)."""
        largest = math.log(target.shape[1]) if self.normalise and target.shape[1] > 1 else 1.0
        return entropy(target).mean() / largest
