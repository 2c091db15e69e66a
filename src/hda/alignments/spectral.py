"""Batch spectral penalisation: no direction of the features may dominate while an adversary aligns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hda.alignments.base import Place, Seen
from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.batch import Losses
from hda.losses import spectral_penalty
from hda.nn import MultilinearMap
from hda.settings import at_least, setting


class SpectralPenalty(ConditionalAdversary):
    """A conditional adversary with the largest singular values of both domains' features penalised.

    Batch spectral penalisation (Chen et al., ICML 2019): an adversary strengthens the directions of the largest singular
    values, which transfer best, until the others, which tell classes apart, are lost; so their squares are a loss.

    Args:
        count: k, how many singular values of each side.
        weight: beta, of their squares.
        options: of the conditional adversary.
    """

    name = "bsp"
    summary = "conditional adversary, the largest singular values of the features penalised: BSP's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(ConditionalAdversary.Settings):
        entropy_conditioning: bool = setting(True, "let sure rows weigh more: CDAN+E")
        singular_values: int = setting(1, "k, how many of the largest singular values of each domain are penalised")
        spectral_weight: float = setting(1e-4, "weight of their squares")

        def __post_init__(self) -> None:
            super().__post_init__()
            at_least(1, singular_values=self.singular_values)
            at_least(0, spectral_weight=self.spectral_weight)

    def __init__(self, join: MultilinearMap, count: int = 1, weight: float = 1e-4, **options: Any) -> None:
        super().__init__(join, **options)
        self.count, self.weight = count, weight

    @classmethod
    def options(cls, place: Place, settings: Any) -> dict[str, Any]:
        return super().options(place, settings) | {
            "count": settings.singular_values,
            "weight": settings.spectral_weight,
        }

    def terms(self, seen: Seen) -> Losses:
        labelled, target = seen.labelled(seen.features), seen.target(seen.features)
        penalty = spectral_penalty(labelled, self.count) + spectral_penalty(target, self.count)
        return super().terms(seen).including(Losses(spectral=self.weight * penalty))
