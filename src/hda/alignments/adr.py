"""Adversarial dropout: a classifier seeks where its own dropout makes it disagree, the features leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hda.alignments.base import Alignment, Place
from hda.batch import Batch, Losses, Progress
from hda.losses import cross_entropy, sensitivity
from hda.settings import at_least, between, setting

if TYPE_CHECKING:
    from hda.methods.aligned import Aligned
    from hda.methods.base import Phase


class AdversarialDropout(Alignment):
    """Adversarial Dropout Regularization (Saito et al., ICLR 2018), in three phases a step, over heads of any kind.

    First everything learns from the labelled rows; then the classifier learns to be sensitive to its dropout on the
    target while keeping to the labels; then, `generator_steps` times, the backbone learns to leave it insensitive. A
    head without dropout of its own sees features of which some are dropped.
    """

    name = "adr"
    summary = "a classifier is sensitive to its own dropout, the features are not: ADR's three phases"
    optimisations = 3

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the sensitivity")
        generator_steps: int = setting(4, "updates of the backbone towards insensitivity in each step")
        feature_dropout: float = setting(0.5, "dropout of the features, where the head has none of its own")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, generator_steps=self.generator_steps)
            between(0, 1, feature_dropout=self.feature_dropout)

    def __init__(self, weight: float = 1.0, generator_steps: int = 4, dropout: float = 0.5) -> None:
        super().__init__()
        self.weight, self.generator_steps, self.drop = weight, generator_steps, nn.Dropout(dropout)

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.transfer_weight, settings.generator_steps, settings.feature_dropout)

    def phases(self, method: Aligned) -> Sequence[Phase]:
        from hda.methods.base import Phase

        of = _Phases(method, self)
        return (
            Phase("source", of.learn),
            Phase("sensitive", of.excite, updates=("head.",)),
            Phase("insensitive", of.calm, updates=("backbone.",), repeat=self.generator_steps),
        )


class _Phases:
    """The three losses, over a method's backbone and head."""

    def __init__(self, method: Aligned, align: AdversarialDropout) -> None:
        self.method, self.weight = method, align.weight
        own = any(isinstance(layer, nn.Dropout) for layer in method.head.modules())
        self.drop: nn.Module = nn.Identity() if own else align.drop

    def learn(self, batch: Batch, progress: Progress) -> Losses:
        return self._classification(self.method.embed(batch, batch.labelled), batch)

    def excite(self, batch: Batch, progress: Progress) -> Losses:
        with torch.no_grad():
            features = self.method.embed(batch)
        losses = self._classification(features[batch.labelled], batch)
        return losses.including(Losses(sensitivity=-self._sensitivity(features[batch.target])))

    def calm(self, batch: Batch, progress: Progress) -> Losses:
        return Losses(sensitivity=self._sensitivity(self.method.embed(batch, batch.target)))

    def _classification(self, features: Tensor, batch: Batch) -> Losses:
        out = self.method.head(self.drop(features))
        losses = Losses(classification=cross_entropy(self.method.logits(out, features), batch.labels))
        return losses.including(self.method.kind.terms(out, batch))

    def _sensitivity(self, features: Tensor) -> Tensor:
        """How far apart two draws of the dropout let the head's predictions lie."""
        first, second = (self.method.logits(self.method.head(self.drop(features)), features) for _ in range(2))
        return self.weight * sensitivity(first, second)
