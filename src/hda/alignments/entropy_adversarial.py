"""The adversary of Heuristic Domain Adaptation: sure rows align first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import domain_classification, entropy, entropy_weights
from hda.nn import DomainDiscriminator, reversal_coefficient, reverse_gradient
from hda.settings import at_least, between, setting


class EntropyConditionedAdversary(Alignment):
    """A discriminator sees softmax(G) through a gradient reversal; each row weighs exp(-entropy).

    The transfer loss of Heuristic Domain Adaptation (Cui et al., NeurIPS 2020). The weights' own gradient passes through
    a reversal too. In the published code the discriminator counts its calls from one, so its reversal is an iteration
    ahead of the entropy's: so it is here.

    >>> align = EntropyConditionedAdversary(classes=65, domains=2)
    >>> groups = (slice(0, 8), slice(8, 12))  # eight source rows, then four of the target
    >>> domains = torch.tensor([1] * 8 + [0] * 4)
    >>> loss = align(torch.rand(12, 65), domains, groups, iteration=torch.tensor(100.0))

    Args:
        classes: number of classes.
        domains: number of domains: the target, its labelled part if any, every source.
        width: of the discriminator's hidden layers.
        dropout: of the discriminator.
        horizon: iterations in which the reversal comes to full strength.
        scale: "code": a half with two domains, 2/3 with a labelled target, 1 with several sources, as in the published
            code; "text": always 1, as in the paper.
    """

    name = "entropy-adversarial"
    summary = "adversary on class probabilities, weighted by certainty: HDAN's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the adversarial alignment")
        transfer_scale: Literal["code", "text"] = setting(
            "code",
            "the published code halves it with one source and takes 2/3 with a labelled target; the text does not",
        )
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminator")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminator")
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, discriminator_width=self.discriminator_width, reversal_horizon=self.reversal_horizon)
            between(0, 1, discriminator_dropout=self.discriminator_dropout)

    def __init__(
        self,
        classes: int,
        domains: int,
        width: int = 1024,
        dropout: float = 0.5,
        horizon: float = 10_000.0,
        scale: Literal["code", "text"] = "code",
    ) -> None:
        super().__init__()
        self.discriminator: nn.Module = DomainDiscriminator(classes, domains, width, dropout)
        self.domains, self.horizon, self.scale = domains, horizon, scale

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        s = settings
        return cls(
            place.classes,
            place.domains,
            s.discriminator_width,
            s.discriminator_dropout,
            s.reversal_horizon,
            s.transfer_scale,
        )

    def terms(self, seen: Seen) -> Losses:
        batch = seen.batch
        return Losses(transfer=self(seen.logits, batch.domains, batch.groups, seen.progress.iteration))

    def forward(self, logits: Tensor, domains: Tensor, groups: Sequence[slice], iteration: Tensor) -> Tensor:
        """The transfer loss.

        Args:
            logits: (rows, classes), the transferable G.
            domains: (rows,) 0 for the target, 1 for its labelled part if there is one, then the sources.
            groups: the rows of all sources, of the labelled target if any, of the target.
            iteration: a 0-dimensional tensor: updates done so far.
        """
        weights = self.weights(logits, groups, iteration)
        told = self.discriminator(self.shown(logits, iteration))
        return self.factor(groups) * domain_classification(told, domains, weights)

    def shown(self, logits: Tensor, iteration: Tensor) -> Tensor:
        """What the discriminator sees: softmax(G) behind its reversal."""
        return reverse_gradient(logits.softmax(dim=1), reversal_coefficient(iteration + 1, self.horizon))

    def weights(self, logits: Tensor, groups: Sequence[slice], iteration: Tensor) -> Tensor:
        """How much each row counts, (rows,); the entropy's gradient is reversed."""
        sure = reverse_gradient(entropy(logits), reversal_coefficient(iteration, self.horizon))
        return entropy_weights(sure, groups)

    def factor(self, groups: Sequence[slice]) -> float:
        """The scale of the loss: see `scale`."""
        if self.scale == "text":
            return 1.0
        if self.domains == 2:
            return 1 / 2
        return 2 / 3 if len(groups) == 3 else 1.0
