"""A head with a narrow layer before its classifier, which alignments on features see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from hda.heads.base import Head, Scores
from hda.nn import BottleneckHead, reverse_gradient
from hda.settings import at_least, setting


class Bottleneck(Head):
    """A linear layer to a few features, and a linear layer from these to class scores (as in Long et al., 2015 to 2018)."""

    name = "bottleneck"
    summary = "a narrow linear layer, whose output is aligned, then the classifier"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        bottleneck: int = setting(256, "features of the narrow layer")
        bottleneck_start: Literal["gaussian", "xavier"] = setting(
            "gaussian",
            "starting values of both layers: small Gaussian, as in DAN's code, or Xavier-normal, as in CDAN's",
        )

        def __post_init__(self) -> None:
            at_least(1, bottleneck=self.bottleneck)

    def build(self, width: int, classes: int) -> nn.Module:
        return BottleneckHead(width, classes, self.settings.bottleneck, self.settings.bottleneck_start)

    def width(self, width: int, classes: int) -> int:
        bottleneck: int = self.settings.bottleneck
        return bottleneck

    def read(self, out: Any, features: Tensor) -> Scores:
        return Scores(out.logits, out.features)

    def opposed(self, head: nn.Module, features: Tensor, coefficient: Tensor | float = 1.0) -> Tensor:
        assert isinstance(head, BottleneckHead)
        logits: Tensor = head.classifier(reverse_gradient(head.narrow(features), coefficient))
        return logits
