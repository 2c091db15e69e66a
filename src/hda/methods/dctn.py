"""Deep cocktail network: each source mixes into a prediction as much as the target row looks like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hda.batch import Batch, Progress
from hda.losses import cross_entropy_by_domain, domain_confusion, domain_means, domain_rows
from hda.methods.base import Losses, Method, Phase, Reference
from hda.nn import DomainDiscriminator, DomainHeads, mixed
from hda.settings import at_least, between, setting


class DCTN(Method):
    """Deep Cocktail Network (Xu et al., CVPR 2018), in three phases a step.

    A classifier and a discriminator a source; the discriminator D tells its source from the target. First the backbone
    learns the sources' labels, and to confuse the discriminator of the hardest source, whose loss is the largest; then
    the discriminators learn; then backbone and classifiers learn the sources' labels and the target's pseudo-labels,
    where the mixture is sure. The mixture of the classifiers' probabilities weighs a source by its perplexity,
    -log(1 - D(x)) + alpha, where alpha is the mean of -log(1 - D) over the source, averaged over the steps.
    """

    name = "dctn"
    reference = Reference(
        title="Deep Cocktail Network: Multi-source Unsupervised Domain Adaptation with Category Shift",
        authors="Ruijia Xu, Ziliang Chen, Wangmeng Zuo, Junjie Yan, Liang Lin",
        venue="CVPR 2018",
        url="https://arxiv.org/abs/1803.00830",
        deviations=(
            "the two stages alternate within every step instead of every few epochs, pseudo-labels are the step's own, and "
            "no network is trained on the sources beforehand; discriminators are log-likelihood ones and weigh row by row "
            "as in the paper, where code passed on for Office has least-squares ones and one weight a source, its mean loss; "
            "the paper's alpha, the discriminator's mean loss over its source, is read as that of -log(1 - D), in which the "
            "row's own score is, and follows the steps; discriminators have two hidden layers, without batch norm; a "
            "discriminator learns from features of the backbone after its update"
        ),
        reported={"DomainNet, mean of 6 (table 3)": 38.2, "DomainNet, Clipart (table 3)": 48.6},
    )
    supports = frozenset({"msda"})
    optimisations = 3
    concentration: Tensor
    latest: Tensor

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        confidence: float = setting(0.9, "how sure the mixture must be of a target row for its label to be learnt")
        confusion_weight: float = setting(1.0, "weight of confusing the hardest source's discriminator")
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminators")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminators")
        concentration_momentum: float = setting(0.99, "how much of itself a source's alpha keeps at each step")

        def __post_init__(self) -> None:
            at_least(0, confusion_weight=self.confusion_weight)
            at_least(1, discriminator_width=self.discriminator_width)
            between(0, 1, confidence=self.confidence, discriminator_dropout=self.discriminator_dropout)
            between(0, 1, concentration_momentum=self.concentration_momentum)

    def build(self, width: int, classes: int, domains: int) -> None:
        s, self.sources = self.settings, domains - 1
        self.heads = DomainHeads(width, classes, self.sources)
        self.discriminators = nn.ModuleList(
            DomainDiscriminator(width, 2, s.discriminator_width, s.discriminator_dropout) for _ in range(self.sources)
        )
        self.register_buffer("concentration", torch.zeros(self.sources))
        self.register_buffer("latest", torch.zeros(self.sources))  # of this step's sources, for `after_step`

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("confuse", self.confuse, updates=("backbone.",)),
            Phase("discriminate", self.discriminate, updates=("discriminators.",)),
            Phase("classify", self.losses, updates=("backbone.", "heads.")),
        )

    def confuse(self, batch: Batch, progress: Progress) -> Losses:
        """What the backbone learns: labels, and features whose domain the most mistaken discriminator cannot tell."""
        features, rows = self.embed(batch), self._rows(batch)
        told = self._discriminate(features)
        with torch.no_grad():
            mistaken = self._mistakes(told, batch).masked_fill(rows.amax(dim=1) == 0, -torch.inf)
            hardest = (torch.arange(self.sources, device=rows.device) == mistaken.argmax()).float()
        confused = domain_confusion(told)
        each = domain_means(confused[batch.source], rows).diagonal() + confused[batch.target].mean(dim=0)
        logits, domains = self.heads(features[batch.source]), batch.domains[batch.source] - 1
        return Losses(
            classification=cross_entropy_by_domain(logits, batch.labels, domains),
            confusion=self.settings.confusion_weight * hardest @ each,
        )

    def discriminate(self, batch: Batch, progress: Progress) -> Losses:
        """What the discriminators learn: their source from the target."""
        with torch.no_grad():
            features = self.embed(batch)
        told, rows = self._discriminate(features), self._rows(batch)
        with torch.no_grad():
            of_source = domain_means(F.softplus(told[batch.source]), rows).diagonal()
            self.latest.copy_(torch.where(rows.amax(dim=1) > 0, of_source, self.concentration))
        return Losses(discrimination=self._mistakes(told, batch).sum())

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        """What backbone and classifiers learn: labels, and the target's pseudo-labels, each row alike."""
        features, rows = self.embed(batch), self._rows(batch)
        logits = self.heads(features)
        with torch.no_grad():
            mixture = self._mixture(features[batch.target], logits[batch.target]).softmax(dim=1)
            sure, labels = mixture.max(dim=1)
            counted = (sure >= self.settings.confidence).float()
        of_source = (rows * _cross_entropies(logits[batch.source], batch.labels)).sum(dim=1)
        of_target = (counted * _cross_entropies(logits[batch.target], labels)).sum(dim=1)
        known = (rows.sum(dim=1) + counted.sum()).clamp_min(1.0)
        losses = Losses(classification=((of_source + of_target) / known).sum())
        return losses.watching(pseudo_labelled=counted.mean())

    def after_step(self, progress: Progress) -> None:
        self.concentration.lerp_(self.latest, 1.0 - self.settings.concentration_momentum)

    def classify(self, features: Tensor) -> Tensor:
        return self._mixture(features, self.heads(features))

    def _rows(self, batch: Batch) -> Tensor:
        """Which source row is whose: (sources, source rows)."""
        return domain_rows(batch.domains[batch.source] - 1, self.sources)

    def _discriminate(self, features: Tensor) -> Tensor:
        """What every discriminator makes of every row, positive for its source: (rows, width) -> (rows, sources)."""
        return torch.cat([discriminator(features) for discriminator in self.discriminators], dim=1)

    def _mistakes(self, told: Tensor, batch: Batch) -> Tensor:
        """The loss of each discriminator: (rows, sources) -> (sources,)."""
        of_source = domain_means(F.softplus(-told[batch.source]), self._rows(batch)).diagonal()
        return of_source + F.softplus(told[batch.target]).mean(dim=0)

    def _mixture(self, features: Tensor, logits: Tensor) -> Tensor:
        perplexity = F.softplus(self._discriminate(features)) + self.concentration
        return mixed(logits, perplexity / perplexity.sum(dim=1, keepdim=True).clamp_min(1e-12))


def _cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """Of every row under every classifier: (rows, classifiers, classes), (rows,) -> (classifiers, rows)."""
    each = F.cross_entropy(logits.transpose(1, 2), labels[:, None].expand(-1, logits.shape[1]), reduction="none")
    return each.T
