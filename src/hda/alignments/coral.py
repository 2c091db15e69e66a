"""Correlation alignment: source and target have the same covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import coral
from hda.settings import at_least, setting


class Correlation(Alignment):
    """The distance of covariances between labelled and target rows (Deep CORAL, Sun and Saenko, 2016).

    >>> align = Correlation()
    >>> loss = align(torch.rand(8, 65), torch.rand(12, 65))

    Args:
        layer: whose covariances `terms` compares, "logits" or "features".
    """

    name = "coral"
    summary = "distance of covariances: Deep CORAL's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the distance of covariances")
        coral_layer: Literal["logits", "features"] = setting(
            "logits", "whose covariances are matched: the last layer's, as the paper, or the features'"
        )

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)

    def __init__(self, layer: Literal["logits", "features"] = "logits") -> None:
        super().__init__()
        self.layer = layer

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.coral_layer)

    def terms(self, seen: Seen) -> Losses:
        x = seen.logits if self.layer == "logits" else seen.features
        return Losses(transfer=self(seen.labelled(x), seen.target(x)))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The distance of (source rows, width) and (target rows, width)."""
        return coral(source, target)
