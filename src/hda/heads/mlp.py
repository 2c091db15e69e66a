"""A head of two layers, for methods whose classifiers should be able to disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from hda.heads.base import Head
from hda.nn import MLPHead
from hda.settings import at_least, between, setting


class MLP(Head):
    """Two linear layers with dropout before each."""

    name = "mlp"
    summary = "two linear layers with dropout"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        hidden: int = setting(1000, "hidden units of each classifier")
        head_dropout: float = setting(0.5, "dropout in the classifiers")
        mlp_start: Literal["kaiming", "gaussian"] = setting(
            "kaiming", "starting values of the classifiers: Kaiming-normal, or small Gaussian, as in MDD's code"
        )

        def __post_init__(self) -> None:
            at_least(1, hidden=self.hidden)
            between(0, 1, head_dropout=self.head_dropout)

    def build(self, width: int, classes: int) -> nn.Module:
        s = self.settings
        return MLPHead(width, classes, s.hidden, s.head_dropout, s.mlp_start)
