"""Adversarial tight match: an adversary, helped by a distance that pulls domains together and classes tight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hda.alignments.base import Place, Seen
from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.batch import Losses
from hda.losses import density_divergence
from hda.nn import MultilinearMap
from hda.settings import at_least, setting


class TightMatch(ConditionalAdversary):
    """A conditional adversary and the maximum density divergence (Li et al., TPAMI 2020).

    The divergence is taken on the softmax of the features, as in the published code; the target's classes are the head's
    decisions.

    Args:
        weight: of the divergence.
        tight: weight, within it, of the distances in a class.
        options: of the conditional adversary.
    """

    name = "atm"
    summary = "conditional adversary and the maximum density divergence: ATM's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(ConditionalAdversary.Settings):
        entropy_conditioning: bool = setting(True, "let sure rows weigh more: CDAN+E")
        density_weight: float = setting(0.01, "weight of the maximum density divergence")
        tight_weight: float = setting(1.0, "weight, within the divergence, of the distances of rows of one class")

        def __post_init__(self) -> None:
            super().__post_init__()
            at_least(0, density_weight=self.density_weight, tight_weight=self.tight_weight)

    def __init__(self, join: MultilinearMap, weight: float = 0.01, tight: float = 1.0, **options: Any) -> None:
        super().__init__(join, **options)
        self.weight, self.tight = weight, tight

    @classmethod
    def options(cls, place: Place, settings: Any) -> dict[str, Any]:
        return super().options(place, settings) | {"weight": settings.density_weight, "tight": settings.tight_weight}

    def terms(self, seen: Seen) -> Losses:
        scaled = seen.features.softmax(dim=1)
        decisions = seen.target(seen.logits).argmax(dim=1)
        divergence = density_divergence(
            seen.labelled(scaled), seen.target(scaled), seen.batch.labels, decisions, self.tight
        )
        return super().terms(seen).including(Losses(density=self.weight * divergence))
