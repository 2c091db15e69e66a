"""The adversary of Heuristic Domain Adaptation: sure rows align first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from hda.losses import domain_classification, entropy, entropy_weights
from hda.nn import DomainDiscriminator, reversal_coefficient, reverse_gradient


class EntropyConditionedAdversary(nn.Module):
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

    name: ClassVar[str] = "entropy-adversarial"
    summary: ClassVar[str] = "adversary on class probabilities, weighted by certainty: HDAN's"

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
        self.discriminator = DomainDiscriminator(classes, domains, width, dropout)
        self.domains, self.horizon, self.scale = domains, horizon, scale

    def forward(self, logits: Tensor, domains: Tensor, groups: Sequence[slice], iteration: Tensor) -> Tensor:
        """The transfer loss.

        Args:
            logits: (rows, classes), the transferable G.
            domains: (rows,) 0 for the target, 1 for its labelled part if there is one, then the sources.
            groups: the rows of all sources, of the labelled target if any, of the target.
            iteration: a 0-dimensional tensor: updates done so far.
        """
        sure = reverse_gradient(entropy(logits), reversal_coefficient(iteration, self.horizon))
        weights = entropy_weights(sure, groups)
        seen = reverse_gradient(logits.softmax(dim=1), reversal_coefficient(iteration + 1, self.horizon))
        return self._factor(len(groups)) * domain_classification(self.discriminator(seen), domains, weights)

    def _factor(self, groups: int) -> float:
        if self.scale == "text":
            return 1.0
        if self.domains == 2:
            return 1 / 2
        return 2 / 3 if groups == 3 else 1.0
