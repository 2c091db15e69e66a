"""The adversary of the gradually vanishing bridge: sure rows align first, over a bridge of the discriminator's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hda.alignments.base import Alignment, Place, Seen
from hda.alignments.entropy_adversarial import EntropyConditionedAdversary
from hda.batch import Losses
from hda.losses import domain_classification
from hda.nn import BridgedDiscriminator
from hda.settings import at_least, setting


class BridgedAdversary(EntropyConditionedAdversary):
    """HDAN's adversary, whose discriminator may have a bridge: its output is D - bridge, and |bridge| is a loss.

    The adversary of the Gradually Vanishing Bridge (Cui et al., CVPR 2020): without the discriminator's bridge it is GVB-G's,
    and the same as "entropy-adversarial"; with it GVB-GD's.

    Args:
        bridge_weight: of the mean size of the discriminator's bridge; None leaves the bridge out.
        options: of the entropy-conditioned adversary.
    """

    name = "bridge-adversarial"
    summary = "adversary on class probabilities, its discriminator with a vanishing bridge: GVB-GD's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(EntropyConditionedAdversary.Settings):
        discriminator_bridge: bool = setting(True, "give the discriminator a bridge, too (GVB-GD; without: GVB-G)")
        discriminator_bridge_weight: float = setting(1.0, "weight of the size of the discriminator's bridge")

        def __post_init__(self) -> None:
            super().__post_init__()
            at_least(0, discriminator_bridge_weight=self.discriminator_bridge_weight)

    def __init__(self, classes: int, domains: int, *, bridge_weight: float | None = 1.0, **options: Any) -> None:
        super().__init__(classes, domains, **options)
        self.bridge_weight = bridge_weight
        if bridge_weight is not None:
            width, dropout = options.get("width", 1024), options.get("dropout", 0.5)
            self.discriminator = BridgedDiscriminator(classes, domains, width, dropout)

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        s = settings
        return cls(
            place.classes,
            place.domains,
            bridge_weight=s.discriminator_bridge_weight if s.discriminator_bridge else None,
            width=s.discriminator_width,
            dropout=s.discriminator_dropout,
            horizon=s.reversal_horizon,
            scale=s.transfer_scale,
        )

    def terms(self, seen: Seen) -> Losses:
        if self.bridge_weight is None:
            return super().terms(seen)
        batch, iteration = seen.batch, seen.progress.iteration
        out = self.discriminator(self.shown(seen.logits, iteration))
        weights = self.weights(seen.logits, batch.groups, iteration)
        return Losses(
            transfer=self.factor(batch.groups) * domain_classification(out.logits, batch.domains, weights),
            discriminator_bridge=self.bridge_weight * out.bridge.abs().mean(),
        )
