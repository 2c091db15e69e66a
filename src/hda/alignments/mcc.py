"""Minimum class confusion: the target is not taken for two classes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.errors import SettingError
from hda.losses import class_confusion
from hda.settings import at_least, setting


class ClassConfusion(Alignment):
    """The confusion between classes on the target (Jin et al., ECCV 2020).

    >>> align = ClassConfusion()
    >>> loss = align(torch.rand(12, 65))

    Args:
        temperature: what the logits are divided by.
    """

    name = "mcc"
    summary = "confusion between the classes of the target's predictions: MCC's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the class confusion")
        confusion_temperature: float = setting(2.5, "what the logits are divided by before the confusion is taken")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            if not self.confusion_temperature > 0:
                raise SettingError("confusion_temperature", f"must be above 0: got {self.confusion_temperature}")

    def __init__(self, temperature: float = 2.5) -> None:
        super().__init__()
        self.temperature = temperature

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.confusion_temperature)

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=self(seen.target(seen.logits)))

    def forward(self, target: Tensor) -> Tensor:
        """The confusion in the target's logits, (rows, classes)."""
        return class_confusion(target, self.temperature)
