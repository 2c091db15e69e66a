"""Maximum classifier discrepancy: two classifiers seek where they disagree, the features leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hda.batch import Batch, Progress
from hda.losses import classifier_discrepancy, cross_entropy
from hda.methods.base import Losses, Method, Phase, Reference
from hda.nn import MLPHead
from hda.settings import at_least, between, setting


class MCD(Method):
    """Maximum Classifier Discrepancy (Saito et al., CVPR 2018), in three phases a step.

    First everything learns from the labelled rows; then the two classifiers learn to disagree on the target while
    keeping to the labels; then, `generator_steps` times, the backbone learns to let them agree.
    """

    name = "mcd"
    reference = Reference(
        title="Maximum Classifier Discrepancy for Unsupervised Domain Adaptation",
        authors="Kuniaki Saito, Kohei Watanabe, Yoshitaka Ushiku, Tatsuya Harada",
        venue="CVPR 2018",
        url="https://arxiv.org/abs/1712.02560",
        deviations="one optimiser with the recipe's rates instead of two; classifiers without batch norm",
    )

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        generator_steps: int = setting(4, "updates of the backbone towards agreement in each step")
        hidden: int = setting(1000, "hidden units of each classifier")
        head_dropout: float = setting(0.5, "dropout in the classifiers")

        def __post_init__(self) -> None:
            at_least(1, generator_steps=self.generator_steps, hidden=self.hidden)
            between(0, 1, head_dropout=self.head_dropout)

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.first = MLPHead(width, classes, s.hidden, s.head_dropout)
        self.second = MLPHead(width, classes, s.hidden, s.head_dropout)

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("source", self._learn),
            Phase("disagree", self._disagree, updates=("first.", "second.")),
            Phase("agree", self._agree, updates=("backbone.",), repeat=self.settings.generator_steps),
        )

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = (self.first(features) + self.second(features)) / 2
        return logits

    def _learn(self, batch: Batch, progress: Progress) -> Losses:
        return Losses(classification=self._classification(self.embed(batch, batch.labelled), batch))

    def _disagree(self, batch: Batch, progress: Progress) -> Losses:
        with torch.no_grad():
            features = self.embed(batch)
        return Losses(
            classification=self._classification(features[batch.labelled], batch),
            discrepancy=-self._discrepancy(features[batch.target]),
        )

    def _agree(self, batch: Batch, progress: Progress) -> Losses:
        return Losses(discrepancy=self._discrepancy(self.embed(batch, batch.target)))

    def _classification(self, features: Tensor, batch: Batch) -> Tensor:
        return cross_entropy(self.first(features), batch.labels) + cross_entropy(self.second(features), batch.labels)

    def _discrepancy(self, features: Tensor) -> Tensor:
        return classifier_discrepancy(self.first(features), self.second(features))
