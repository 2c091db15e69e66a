"""Opposite structures: one classifier scatters the source, another clusters the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from hda.batch import Batch, Progress
from hda.errors import SettingError
from hda.losses import cross_entropy, entropy
from hda.methods.base import Losses, Method, Phase, Reference
from hda.nn import CosineHead
from hda.settings import at_least, between, setting


class CANN(Method):
    """Opposite structure learning (Qin et al., SDM 2021), "CANN" in table 4, in four phases a step.

    The scattering classifier learns mainly the source's labels, the clustering one mainly the labelled target's, each
    with the backbone. Then the clustering classifier learns to be unsure of the target and, through a gradient reversal,
    what comes before it to be sure; and the scattering classifier to be sure of the source and what comes before it to be
    unsure. Predictions come from the sum of both classifiers' logits.
    """

    name = "cann"
    reference = Reference(
        title="Contradictory Structure Learning for Semi-supervised Domain Adaptation",
        authors="Can Qin, Lichen Wang, Qianqian Ma, Yu Yin, Huan Wang, Yun Fu",
        venue="SDM 2021",
        url="https://arxiv.org/abs/2002.02545",
        deviations=(
            "the table's CANN is the paper's method, whose first title was 'Opposite Structure Learning for "
            "Semi-supervised Domain Adaptation' and whose own name is UODA; as in its published code, but the last phase "
            "sees the source through the backbone as the third left it; optimiser and schedule are the recipe's"
        ),
        reported={
            "DomainNet-126, mean of 7, 1-shot (table 4)": 68.5,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 71.2,
        },
    )
    supports = frozenset({"ssda"})
    optimisations = 4

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        entropy_weight: float = setting(0.1, "weight of both entropies")
        labelled_share: float = setting(
            0.75, "how much a classifier learns of its own domain's labels; the other domain has the rest"
        )
        cosine_width: int = setting(512, "features of the narrow layer before the prototypes")
        cosine_temperature: float = setting(0.05, "what the prototypes' scores are divided by")

        def __post_init__(self) -> None:
            at_least(0, entropy_weight=self.entropy_weight)
            between(0, 1, labelled_share=self.labelled_share)
            at_least(1, cosine_width=self.cosine_width)
            if not self.cosine_temperature > 0:
                raise SettingError("cosine_temperature", f"must be above 0: got {self.cosine_temperature}")

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.scattering, self.clustering = (
            CosineHead(width, classes, s.cosine_width, s.cosine_temperature) for _ in range(2)
        )

    def phases(self) -> Sequence[Phase]:
        return (
            Phase("source", self.learn_source, updates=("backbone.", "scattering.")),
            Phase("target", self.learn_target, updates=("backbone.", "clustering.")),
            Phase("cluster", self.cluster, updates=("backbone.", "clustering.")),
            Phase("scatter", self.scatter, updates=("backbone.", "scattering.")),
        )

    def learn_source(self, batch: Batch, progress: Progress) -> Losses:
        """The labels, the source's above all."""
        return self._classification(self.scattering, batch, self.settings.labelled_share)

    def learn_target(self, batch: Batch, progress: Progress) -> Losses:
        """The labels, the target's above all."""
        return self._classification(self.clustering, batch, 1.0 - self.settings.labelled_share)

    def cluster(self, batch: Batch, progress: Progress) -> Losses:
        """The clustering classifier raises the target's entropy, what comes before it lowers it."""
        logits = self.clustering.opposed(self.embed(batch, batch.target))
        return Losses(entropy=-self.settings.entropy_weight * entropy(logits).mean())

    def scatter(self, batch: Batch, progress: Progress) -> Losses:
        """The scattering classifier lowers the source's entropy, what comes before it raises it."""
        logits = self.scattering.opposed(self.embed(batch, batch.source))
        return Losses(entropy=self.settings.entropy_weight * entropy(logits).mean())

    def classify(self, features: Tensor) -> Tensor:
        both: Tensor = self.scattering(features).logits + self.clustering(features).logits
        return both

    def _classification(self, head: CosineHead, batch: Batch, of_source: float) -> Losses:
        """Source and labelled target go through the backbone apart, as in the published code."""
        parts = (batch.source, batch.labelled_target)
        source, target = (cross_entropy(head(self.embed(batch, part)).logits, batch.labels[part]) for part in parts)
        return Losses(classification=of_source * source + (1.0 - of_source) * target)
