"""A head that scores classes by direction: what an entropy can be played for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from hda.errors import SettingError
from hda.heads.base import Head, Scores
from hda.nn import CosineHead
from hda.settings import at_least, setting


class Cosine(Head):
    """A narrow linear layer, and prototypes of the classes that see its direction alone (Saito et al., ICCV 2019)."""

    name = "cosine"
    summary = "a narrow linear layer, normalised, over prototypes with a temperature: MME's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        cosine_width: int = setting(512, "features of the narrow layer before the prototypes")
        cosine_temperature: float = setting(0.05, "what the prototypes' scores are divided by")

        def __post_init__(self) -> None:
            at_least(1, cosine_width=self.cosine_width)
            if not self.cosine_temperature > 0:
                raise SettingError("cosine_temperature", f"must be above 0: got {self.cosine_temperature}")

    def build(self, width: int, classes: int) -> nn.Module:
        return CosineHead(width, classes, self.settings.cosine_width, self.settings.cosine_temperature)

    def width(self, width: int, classes: int) -> int:
        narrow: int = self.settings.cosine_width
        return narrow

    def read(self, out: Any, features: Tensor) -> Scores:
        return Scores(out.logits, out.features)

    def opposed(self, head: nn.Module, features: Tensor, coefficient: Tensor | float = 1.0) -> Tensor:
        assert isinstance(head, CosineHead)
        return head.opposed(features, coefficient)
