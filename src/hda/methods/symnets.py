"""Domain-symmetric networks: a source and a target classifier side by side are a classifier of domains too."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from hda.batch import Batch, Progress
from hda.losses import cross_entropy, entropy_of_halves, half_surprise
from hda.methods.base import Losses, Method, Reference
from hda.nn import PlainHead, reversal_coefficient
from hda.settings import at_least, setting


class SymNets(Method):
    """Domain-Symmetric Networks (Zhang et al., CVPR 2019).

    The classifiers of source and target share a softmax over twice the classes. They learn the labels, each alone, and to
    tell the domains apart, together. The backbone learns the opposite: that a labelled row is as likely its class in
    either half, and a target row as likely of either half, and sure of its class whichever half says it. Both happen in
    one update: the classifiers do not see the backbone's losses, nor the backbone theirs. Predictions are the target
    classifier's.
    """

    name = "symnets"
    reference = Reference(
        title="Domain-Symmetric Networks for Adversarial Domain Adaptation",
        authors="Yabin Zhang, Hui Tang, Kui Jia, Mingkui Tan",
        venue="CVPR 2019",
        url="https://arxiv.org/abs/1904.04663",
        deviations=(
            "the target terms grow with updates instead of epochs; predictions are always the target classifier's, where "
            "the published code logs the better of the two by target accuracy; the classifiers start Kaiming-normal, not with "
            "PyTorch's values; optimiser and schedule are the recipe's"
        ),
        reported={"Office-Home, mean of 12 (table 1)": 67.2, "Art->Clipart (table 1)": 47.7},
    )

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        confusion_weight: float = setting(1.0, "weight of what the backbone learns from the target, at its full height")

        def __post_init__(self) -> None:
            at_least(0, confusion_weight=self.confusion_weight)

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = PlainHead(width, 2 * classes)  # the source's classifier, then the target's

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        features = self.embed(batch)
        of_source, of_target = features[batch.labelled], features[batch.target]
        grown = self.settings.confusion_weight * reversal_coefficient(progress.fraction, 1.0)
        learning = self.head(of_source.detach())
        first, second = learning.chunk(2, dim=1)
        confused, target = self._still(of_source), self._still(of_target)
        return Losses(
            classification=cross_entropy(first, batch.labels) + cross_entropy(second, batch.labels),
            domain=half_surprise(learning, "first") + half_surprise(self.head(of_target.detach()), "second"),
            category_confusion=_mean(
                cross_entropy(confused, batch.labels), cross_entropy(confused, batch.labels + self.classes)
            ),
            domain_confusion=grown * _mean(half_surprise(target, "first"), half_surprise(target, "second")),
            entropy=grown * entropy_of_halves(target),
        )

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits[:, self.classes :]

    def _still(self, features: Tensor) -> Tensor:
        """The scores of both halves, whose gradient reaches the features alone."""
        linear = self.head.linear
        return F.linear(features, linear.weight.detach(), linear.bias.detach())


def _mean(one: Tensor, other: Tensor) -> Tensor:
    return (one + other) / 2
