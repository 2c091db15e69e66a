"""Conditional adversarial alignment: the discriminator sees features and class probabilities together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hda.alignments.adversarial import DomainAdversary, side_of_rows, sides
from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import domain_classification, entropy, shares
from hda.nn import DomainDiscriminator, MultilinearMap, reversal_coefficient, reverse_gradient, xavier_linear
from hda.settings import at_least, setting


class ConditionalAdversary(Alignment):
    """A discriminator sees the multilinear map of features and softmax(G), through a gradient reversal.

    Conditional adversarial adaptation (Long et al., NeurIPS 2018). The probabilities in the map carry no gradient, as in
    the published code. With `conditioned` each row weighs 1 + exp(-entropy) among its side's (CDAN+E), a weight whose own
    gradient is reversed. All labelled rows are one side. In the published code the discriminator starts Xavier-normal and
    counts its calls from one, so its reversal is an iteration ahead of the entropy's: so it is here.

    >>> align = ConditionalAdversary(MultilinearMap(256, classes=65))
    >>> sides = (slice(0, 8), slice(8, 12))
    >>> loss = align(torch.rand(12, 256), torch.rand(12, 65), sides, iteration=torch.tensor(100.0))

    Args:
        join: what makes one vector of features and class probabilities.
        hidden: units of the discriminator's hidden layers.
        dropout: of the discriminator.
        horizon: iterations in which the reversal comes to full strength.
        conditioned: whether sure rows weigh more.
    """

    name = "conditional-adversarial"
    summary = "adversary on features times class probabilities: CDAN's"
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings(DomainAdversary.Settings):
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")
        entropy_conditioning: bool = setting(False, "let sure rows weigh more: CDAN+E")
        multilinear_limit: int = setting(
            32_768, "products of features and classes beyond which the map is random (paper: 4096, its code: never)"
        )
        multilinear_width: int = setting(1024, "width of the random map")

        def __post_init__(self) -> None:
            super().__post_init__()
            at_least(0, multilinear_limit=self.multilinear_limit)
            at_least(1, multilinear_width=self.multilinear_width)

    def __init__(
        self,
        join: MultilinearMap,
        hidden: int = 1024,
        dropout: float = 0.5,
        horizon: float = 10_000.0,
        conditioned: bool = False,
    ) -> None:
        super().__init__()
        self.join, self.discriminator = join, DomainDiscriminator(join.width, 2, hidden, dropout, xavier_linear)
        self.horizon, self.conditioned = horizon, conditioned

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(**cls.options(place, settings))

    @classmethod
    def options(cls, place: Place, settings: Any) -> dict[str, Any]:
        """What the alignment is made with in that place; a subclass adds its own."""
        s = settings
        return {
            "join": MultilinearMap(place.width, place.classes, s.multilinear_limit, s.multilinear_width),
            "hidden": s.discriminator_width,
            "dropout": s.discriminator_dropout,
            "horizon": s.reversal_horizon,
            "conditioned": s.entropy_conditioning,
        }

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=self(seen.features, seen.logits, sides(seen.batch), seen.progress.iteration))

    def forward(self, features: Tensor, logits: Tensor, sides: tuple[slice, slice], iteration: Tensor) -> Tensor:
        """The transfer loss.

        Args:
            features: (rows, width).
            logits: (rows, classes).
            sides: the labelled rows, then the target's.
            iteration: a 0-dimensional tensor: updates done so far.
        """
        joint = self.join(features, logits.detach().softmax(dim=1))
        seen = reverse_gradient(joint, reversal_coefficient(iteration + 1, self.horizon))
        weights = shares(self._certainty(logits, iteration), sides)
        return domain_classification(self.discriminator(seen), side_of_rows(weights.detach(), sides), weights)

    def _certainty(self, logits: Tensor, iteration: Tensor) -> Tensor:
        if not self.conditioned:
            return logits.new_ones(len(logits))
        sure = reverse_gradient(entropy(logits), reversal_coefficient(iteration, self.horizon))
        return 1.0 + torch.exp(-sure)
