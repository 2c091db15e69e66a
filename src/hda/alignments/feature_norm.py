"""Adaptive feature norm: source and target have features as large as each other, because both grow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import feature_norm_step
from hda.settings import at_least, setting


class FeatureNorm(Alignment):
    """Every row's feature norm grows by a step, source's and target's alike (stepwise, Xu et al., ICCV 2019).

    >>> align = FeatureNorm()
    >>> loss = align(torch.rand(8, 1000), torch.rand(12, 1000))

    Args:
        step: how much larger each norm should be than it is.
    """

    name = "feature-norm"
    summary = "norms of features grow step by step: SAFN's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(0.05, "weight of the growth of feature norms")
        norm_step: float = setting(1.0, "how much larger each row's feature norm should become")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight, norm_step=self.norm_step)

    def __init__(self, step: float = 1.0) -> None:
        super().__init__()
        self.step = step

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.norm_step)

    def terms(self, seen: Seen) -> Losses:
        source, target = seen.labelled(seen.features), seen.target(seen.features)
        sizes = {"source_norm": source, "target_norm": target}
        watched = {name: torch.linalg.vector_norm(x, dim=1).mean() for name, x in sizes.items()}
        return Losses(transfer=self(source, target)).watching(**watched)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The loss of (source rows, width) and (target rows, width)."""
        return feature_norm_step(source, self.step) + feature_norm_step(target, self.step)
