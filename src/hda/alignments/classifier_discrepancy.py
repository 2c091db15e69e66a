"""Maximum classifier discrepancy: two classifiers seek where they disagree, the features leave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hda.alignments.base import Alignment, Place
from hda.batch import Batch, Losses, Progress
from hda.losses import classifier_discrepancy, cross_entropy
from hda.settings import at_least, setting

if TYPE_CHECKING:
    from hda.methods.aligned import Aligned
    from hda.methods.base import Phase


class ClassifierDiscrepancy(Alignment):
    """Maximum Classifier Discrepancy (Saito et al., CVPR 2018), in three phases a step, over heads of any kind.

    First everything learns from the labelled rows; then the two classifiers learn to disagree on the target while
    keeping to the labels; then, `generator_steps` times, the backbone learns to let them agree. Where the head has
    constraints of its own, both classifiers keep to them in the first two phases.
    """

    name = "mcd"
    summary = "two classifiers disagree on the target, the features leave it: MCD's three phases"
    optimisations = 3

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the disagreement")
        generator_steps: int = setting(4, "updates of the backbone towards agreement in each step")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, generator_steps=self.generator_steps)

    def __init__(self, second: nn.Module, weight: float = 1.0, generator_steps: int = 4) -> None:
        super().__init__()
        self.second, self.weight, self.generator_steps = second, weight, generator_steps

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(place.head(), settings.transfer_weight, settings.generator_steps)

    def phases(self, method: Aligned) -> Sequence[Phase]:
        from hda.methods.base import Phase

        of = _Phases(method, self)
        return (
            Phase("source", of.learn),
            Phase("disagree", of.disagree, updates=("head.", "align.")),
            Phase("agree", of.agree, updates=("backbone.",), repeat=self.generator_steps),
        )

    def classify(self, logits: Tensor, inputs: Tensor, read: Callable[[Any], Tensor]) -> Tensor:
        return (logits + read(self.second(inputs))) / 2


class _Phases:
    """The three losses, over a method's backbone and its two heads."""

    def __init__(self, method: Aligned, align: ClassifierDiscrepancy) -> None:
        self.method, self.align = method, align

    def learn(self, batch: Batch, progress: Progress) -> Losses:
        return self._classification(self.method.embed(batch, batch.labelled), batch)

    def disagree(self, batch: Batch, progress: Progress) -> Losses:
        with torch.no_grad():
            features = self.method.embed(batch)
        losses = self._classification(features[batch.labelled], batch)
        return losses.including(Losses(discrepancy=-self.align.weight * self._discrepancy(features[batch.target])))

    def agree(self, batch: Batch, progress: Progress) -> Losses:
        features = self.method.embed(batch, batch.target)
        return Losses(discrepancy=self.align.weight * self._discrepancy(features))

    def _classification(self, features: Tensor, batch: Batch) -> Losses:
        method, both = self.method, [head(features) for head in (self.method.head, self.align.second)]
        first, second = (cross_entropy(method.logits(out, features), batch.labels) for out in both)
        own, others = (method.kind.terms(out, batch) for out in both)
        losses = Losses(classification=first + second).watching(**own.watched)
        return losses.including(Losses(**{name: own[name] + others[name] for name in own}))

    def _discrepancy(self, features: Tensor) -> Tensor:
        heads = (self.method.head, self.align.second)
        first, second = (self.method.logits(head(features), features) for head in heads)
        return classifier_discrepancy(first, second)
