"""No adaptation: what a classifier trained on the labelled pictures alone is worth on the target."""

from __future__ import annotations

from torch import Tensor

from hda.batch import Batch, Progress
from hda.losses import cross_entropy
from hda.methods.base import Losses, Method, Reference
from hda.nn import PlainHead


class SourceOnly(Method):
    """A linear head trained on every row whose label is known: the yardstick of all others."""

    name = "source-only"
    reference = Reference("no adaptation: trained on the labelled pictures alone", "", "")
    rows = "labelled"

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = PlainHead(width, classes)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        logits = self.head(self.embed(batch, batch.labelled))
        return Losses(classification=cross_entropy(logits, batch.labels))

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features)
        return logits
