"""A head with a rectified layer before its classifier, which alignments on features see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from hda.errors import SettingError
from hda.heads.base import Head, Scores
from hda.nn import HiddenHead
from hda.settings import at_least, setting


class Hidden(Head):
    """A hidden layer with batch norm, ReLU and dropout, then the classifier (as in Xu et al., ICCV 2019)."""

    name = "hidden"
    summary = "a hidden layer with batch norm, whose output is aligned, then the classifier"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        hidden: int = setting(1000, "units of the hidden layer")
        head_dropout: float = setting(0.5, "dropout after the hidden layer")

        def __post_init__(self) -> None:
            at_least(1, hidden=self.hidden)
            if not 0 <= self.head_dropout < 1:
                raise SettingError("head_dropout", f"must be at least 0 and below 1: got {self.head_dropout}")

    def build(self, width: int, classes: int) -> nn.Module:
        return HiddenHead(width, classes, self.settings.hidden, self.settings.head_dropout)

    def width(self, width: int, classes: int) -> int:
        hidden: int = self.settings.hidden
        return hidden

    def read(self, out: Any, features: Tensor) -> Scores:
        return Scores(out.logits, out.features)
