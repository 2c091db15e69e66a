"""Pseudo-labels: what the network is sure of in a weakly varied picture is the label of the strongly varied one."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hda.batch import Batch, Progress
from hda.losses import cross_entropy, pseudo_label
from hda.methods.base import Losses, Method, Reference
from hda.nn import PlainHead
from hda.settings import at_least, between, setting


class FixMatch(Method):
    """FixMatch (Sohn et al., NeurIPS 2020) with the target as its unlabelled pictures.

    The labelled rows are learnt as varied by `--augment`; so varied, a target picture gets its best class for a label
    where that is sure, and learns it as varied strongly.
    """

    name = "fixmatch"
    reference = Reference(
        title="FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence",
        authors=(
            "Kihyuk Sohn, David Berthelot, Chun-Liang Li, Zizhao Zhang, Nicholas Carlini, Ekin D. Cubuk, Alex Kurakin, "
            "Han Zhang, Colin Raffel"
        ),
        venue="NeurIPS 2020",
        url="https://arxiv.org/abs/2001.07685",
        deviations=(
            "made for labelled and unlabelled pictures of one domain; here the labelled ones are the sources'. As many "
            "target rows as `--target-batch` says, where the paper takes seven times the labelled; RandAugment without "
            "equalising; predictions are the trained network's, not its moving average's; views and domains keep batch "
            "statistics of their own; optimiser and schedule are the recipe's"
        ),
    )
    views = 2
    strong_views = 1

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        confidence: float = setting(0.95, "how sure the network must be of a row for its label to be learnt")
        pseudo_weight: float = setting(1.0, "weight of the target's pseudo-labels")

        def __post_init__(self) -> None:
            at_least(0, pseudo_weight=self.pseudo_weight)
            between(0, 1, confidence=self.confidence)

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = PlainHead(width, classes)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s = self.settings
        logits = self.head(self.embed(batch))
        weak, strong = logits[batch.target].detach(), self.head(self.embed(batch, batch.target, view=1))
        sure = weak.softmax(dim=1).amax(dim=1) >= s.confidence
        return Losses(
            classification=cross_entropy(logits[batch.labelled], batch.labels),
            pseudo_label=s.pseudo_weight * pseudo_label(strong, weak, s.confidence),
        ).watching(pseudo_labelled=sure.float().mean())

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits
