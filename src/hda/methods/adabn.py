"""Adaptive batch normalisation: the source's weights, the target's batch statistics."""

from __future__ import annotations

from torch import Tensor

from hda.batch import Batch, Losses, Progress
from hda.losses import cross_entropy
from hda.methods.base import Method, Reference
from hda.nn import Averaged, PlainHead


class AdaBN(Method):
    """Adaptive Batch Normalization (Li et al., 2016): only the statistics of batch norm adapt.

    The network learns from the labelled rows with their statistics. A copy, which has the same weights after every step,
    sees the target's rows: its batch norms know the target alone, and it predicts. On a backbone without batch norm this is
    training on the labelled rows alone.
    """

    name = "adabn"
    reference = Reference(
        title="Revisiting Batch Normalization For Practical Domain Adaptation",
        authors="Yanghao Li, Naiyan Wang, Jianping Shi, Jiaying Liu, Xiaodi Hou",
        venue="ICLR workshop 2017",
        url="https://arxiv.org/abs/1603.04779",
        deviations="the target's statistics are the running averages over its training batches, not the moments of the whole "
        "target under the final weights",
    )

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = PlainHead(width, classes)
        self.adapted = Averaged(self.backbone)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        self.embed(batch, batch.target, network=self.adapted)  # for the statistics alone
        logits = self.head(self.embed(batch, batch.labelled))
        return Losses(classification=cross_entropy(logits, batch.labels))

    def after_step(self, progress: Progress) -> None:
        self.adapted.follow(self.backbone, momentum=0.0)

    def features(self, images: Tensor) -> Tensor:
        features: Tensor = self.adapted(images)
        return features

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits
