"""Adversarial discriminative adaptation: a target encoder learns to pass for the source's, which is fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hda.batch import Batch, Losses, Progress
from hda.losses import cross_entropy, domain_classification, shares
from hda.methods.base import Method, Phase, Reference
from hda.nn import Averaged, DomainDiscriminator, PlainHead
from hda.settings import at_least, between, setting


class ADDA(Method):
    """Adversarial Discriminative Domain Adaptation (Tzeng et al., CVPR 2017), in two phases a step.

    In the first part of the run, `pretraining` of it, encoder and classifier learn from the labelled rows, and a copy
    follows them. Then the copies stand still: they are the source encoder and the classifier. The encoder itself, from where
    it is, becomes the target's: a discriminator learns to tell its target features from the source encoder's source
    features, and it learns to pass for the source's: a loss with the labels inverted, no gradient reversal. Predictions
    are the fixed classifier's on the target encoder's features.

    Both parts are always computed and gated by the progress, so that every step is the same computation.
    """

    name = "adda"
    reference = Reference(
        title="Adversarial Discriminative Domain Adaptation",
        authors="Eric Tzeng, Judy Hoffman, Kate Saenko, Trevor Darrell",
        venue="CVPR 2017",
        url="https://arxiv.org/abs/1702.05464",
        deviations="pre-training and adaptation are halves of one run, as long as each other as in the published code, with "
        "one optimiser: what adapts, mapping and discriminator, weighs 0.2 where the code's rate falls to a fifth; the "
        "discriminator learns during pre-training, too, has two layers of 1024 units with ReLU where the code has two of "
        "500 with leaky ones, and learns at the heads' rate, ten times the encoder's, where the code has one rate; the "
        "target encoder's running batch statistics are also those of the "
        "labelled rows; all sources, with the labelled target, are one domain",
        reported={"DomainNet, mean of 6, multi-source (table 3)": 32.2},
    )
    optimisations = 2
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        pretraining: float = setting(
            0.5, "part of the run in which encoder and classifier learn from the labelled rows"
        )
        adaptation_weight: float = setting(
            0.2,
            "weight of the discriminator's and the target encoder's losses; stands for the published code's rate of 0.0002 "
            "after one of 0.001",
        )
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminator")
        discriminator_dropout: float = setting(0.0, "dropout after each hidden layer of the domain discriminator")

        def __post_init__(self) -> None:
            between(0, 1, pretraining=self.pretraining, discriminator_dropout=self.discriminator_dropout)
            at_least(0, adaptation_weight=self.adaptation_weight)
            at_least(1, discriminator_width=self.discriminator_width)

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.head = PlainHead(width, classes)
        self.source_backbone, self.source_head = Averaged(self.backbone), Averaged(self.head)
        self.discriminator = DomainDiscriminator(width, 2, s.discriminator_width, s.discriminator_dropout)

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("discriminate", self.discriminate, updates=("discriminator.",)),
            Phase("encode", self.encode, updates=("backbone.", "head.")),
        )

    def discriminate(self, batch: Batch, progress: Progress) -> Losses:
        """The discriminator tells the source encoder's source features (1) from the encoder's target features (0)."""
        with torch.no_grad():
            source = self.embed(batch, batch.labelled, network=self.source_backbone)
            target = self.embed(batch, batch.target)
        features = torch.cat([source, target])
        domains = torch.cat([features.new_ones(len(source)), features.new_zeros(len(target))])
        weights = shares(features.new_ones(len(features)), (batch.labelled, batch.target))
        told = domain_classification(self.discriminator(features), domains, weights)
        return Losses(domain=self.settings.adaptation_weight * told)

    def encode(self, batch: Batch, progress: Progress) -> Losses:
        """While pre-training the classification; then the target's features are to be taken for the source's.

        The target's half of the discriminator's loss, labels inverted: the source's moves nothing, its encoder stands still.
        """
        adapting = self.adapting(progress)
        features = self.embed(batch)
        target = features[batch.target]
        each = target.new_full((len(target),), 0.5 / len(target))
        mapping = domain_classification(self.discriminator(target), torch.ones_like(each), each)
        classification = cross_entropy(self.head(features[batch.labelled]), batch.labels)
        return Losses(
            classification=(1.0 - adapting) * classification,
            mapping=self.settings.adaptation_weight * adapting * mapping,
        )

    def adapting(self, progress: Progress) -> Tensor:
        """1 when pre-training is over, before that 0."""
        over: Tensor = progress.fraction >= self.settings.pretraining
        return over.to(progress.iteration.dtype)

    def after_step(self, progress: Progress) -> None:
        adapting = self.adapting(progress)
        for copy, own in ((self.source_backbone, self.backbone), (self.source_head, self.head)):
            for kept, parameter in zip(copy.parameters(), own.parameters(), strict=True):
                kept.lerp_(parameter, 1.0 - adapting)

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.source_head(features)
        return logits
