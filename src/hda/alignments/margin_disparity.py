"""Margin disparity: an auxiliary classifier leaves the classifier on the target alone, the features hold it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import margin_disparity
from hda.nn import reversal_coefficient, reverse_gradient
from hda.settings import at_least, setting


class MarginDisparity(Alignment):
    """Margin Disparity Discrepancy (Zhang et al., ICML 2019), over heads of any kind.

    An auxiliary head, on features behind a gradient reversal, learns to agree with the head's decisions on the labelled
    rows and to disagree on the target; so the features learn to let it do neither. In the published code the reversal
    opens to a tenth only. Where heads have constraints of their own, the auxiliary one, which is an adversary, has none.

    Args:
        auxiliary: a second head.
        read: takes the class scores from a head's output and its features.
        margin: gamma, how much more agreement on the labelled rows counts.
        strength: of the reversal, when it is fully open.
        horizon: iterations in which it opens.
    """

    name = "mdd"
    summary = "an auxiliary head disagrees on the target alone, the features hold it back: MDD's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the margin disparity")
        margin: float = setting(2.0, "gamma, how much more agreement on the labelled rows counts (Office-31: 4)")
        reversal_strength: float = setting(0.1, "strength of the gradient reversal when it is fully open")
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight, margin=self.margin)
            at_least(0, reversal_strength=self.reversal_strength)
            at_least(1, reversal_horizon=self.reversal_horizon)

    def __init__(
        self,
        auxiliary: nn.Module,
        read: Callable[[Any, Tensor], Tensor] = lambda out, features: out,
        margin: float = 2.0,
        strength: float = 0.1,
        horizon: float = 10_000.0,
    ) -> None:
        super().__init__()
        self.auxiliary, self.read = auxiliary, read
        self.margin, self.strength, self.horizon = margin, strength, horizon

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        s = settings
        return cls(place.head(), place.read, s.margin, s.reversal_strength, s.reversal_horizon)

    def terms(self, seen: Seen) -> Losses:
        coefficient = self.strength * reversal_coefficient(seen.progress.iteration + 1, self.horizon)
        features = reverse_gradient(seen.inputs, coefficient)
        auxiliary = self.read(self.auxiliary(features), features)
        batch = seen.batch
        return Losses(disparity=margin_disparity(seen.logits, auxiliary, batch.labelled, batch.target, self.margin))
