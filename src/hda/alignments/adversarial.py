"""Domain-adversarial alignment: a discriminator tells the domains apart, the features make it fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Batch, Losses, Progress
from hda.losses import domain_classification, shares
from hda.nn import DomainDiscriminator, reversal_coefficient, reverse_gradient, xavier_linear
from hda.settings import at_least, between, setting


class DomainAdversary(Alignment):
    """A discriminator of labelled rows against the target's, on features through a gradient reversal.

    Domain-adversarial training (Ganin et al., JMLR 2016). All sources together, with the labelled target if there is one,
    are one side; both sides count the same, however many rows they have. The discriminator starts as in CDAN's published
    code, Xavier-normal; there it counts its calls from one, so that its reversal is an iteration ahead: so it is here.

    >>> align = DomainAdversary(width=256)
    >>> loss = align(torch.rand(12, 256), (slice(0, 8), slice(8, 12)), strength=0.5)

    Args:
        width: features a row has.
        hidden: units of the discriminator's hidden layers.
        dropout: of the discriminator.
        horizon: iterations in which the reversal comes to full strength; None is the whole run.
    """

    name = "adversarial"
    summary = "adversary on features: DANN's"
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the adversarial alignment")
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminator")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminator")
        reversal_horizon: float | None = setting(
            10_000.0, "updates in which the gradient reversal comes to full strength (auto: the whole run)"
        )

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, discriminator_width=self.discriminator_width, reversal_horizon=self.reversal_horizon)
            between(0, 1, discriminator_dropout=self.discriminator_dropout)

    def __init__(self, width: int, hidden: int = 1024, dropout: float = 0.5, horizon: float | None = 10_000.0) -> None:
        super().__init__()
        self.discriminator = DomainDiscriminator(width, 2, hidden, dropout, xavier_linear)
        self.horizon = horizon

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        s = settings
        return cls(place.width, s.discriminator_width, s.discriminator_dropout, s.reversal_horizon)

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=self(seen.features, sides(seen.batch), self.strength(seen.progress, ahead=1)))

    def forward(self, features: Tensor, sides: tuple[slice, slice], strength: Tensor | float) -> Tensor:
        """The mean over both sides of the discriminator's mean cross-entropy.

        Args:
            features: (rows, width).
            sides: the labelled rows, then the target's.
            strength: of the reversal, from 0 to 1.
        """
        logits = self.discriminator(reverse_gradient(features, strength))
        rows = features.new_ones(len(features))
        return domain_classification(logits, side_of_rows(rows, sides), shares(rows, sides))

    def strength(self, progress: Progress, ahead: int = 0) -> Tensor:
        """The reversal's coefficient; `ahead` counts updates that are not yet done."""
        horizon = progress.steps if self.horizon is None else self.horizon
        return reversal_coefficient(progress.iteration + ahead, horizon)


def sides(batch: Batch) -> tuple[slice, slice]:
    """The two sides of an adversary made for one source: every labelled row, and the unlabelled target."""
    return batch.labelled, batch.target


def side_of_rows(like: Tensor, sides: tuple[slice, slice]) -> Tensor:
    """1 for the rows of the first side, 0 for those of the second: (rows,)."""
    numbers = like.new_zeros(len(like))
    numbers[sides[0]].fill_(1.0)  # assigned, older PyTorch would make a tensor from the number
    return numbers
