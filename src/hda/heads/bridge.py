"""The gradually vanishing bridge's head: what a domain has of its own goes over a bridge that vanishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from hda.batch import Batch, Losses
from hda.heads.base import Head, Scores
from hda.losses import termination
from hda.nn import HeuristicHead
from hda.settings import at_least, setting


class Bridge(Head):
    """Scores = C(x) - bridge(x), with the bridge's size as a loss (Cui et al., CVPR 2020).

    It is a heuristic head of a single heuristic, whose fundament starts like any other layer. An alignment on features sees
    the scores, as an adversary does in the paper: else the bridge would learn nothing of the domains.
    """

    name = "bridge"
    summary = "scores = C - bridge, with the bridge held small: GVB-G's"
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        bridge_weight: float = setting(1.0, "weight of the size of the generator's bridge")

        def __post_init__(self) -> None:
            at_least(0, bridge_weight=self.bridge_weight)

    def build(self, width: int, classes: int) -> nn.Module:
        return HeuristicHead(width, classes, heuristics=1, fundament_slope=0.0)

    def width(self, width: int, classes: int) -> int:
        return classes

    def read(self, out: Any, features: Tensor) -> Scores:
        return Scores(out.g, out.g)

    def terms(self, out: Any, batch: Batch) -> Losses:
        return Losses(bridge=self.settings.bridge_weight * termination(out.h, "l1", "mean"))
