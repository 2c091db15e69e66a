"""Minimax entropy: prototypes move towards the unlabelled target, and its features gather around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hda.alignments.base import Alignment, Place
from hda.batch import Batch, Losses, Progress
from hda.losses import cross_entropy, entropy
from hda.settings import at_least, setting

if TYPE_CHECKING:
    from hda.methods.aligned import Aligned
    from hda.methods.base import Phase


class MinimaxEntropy(Alignment):
    """Minimax Entropy (Saito et al., ICCV 2019), in two phases a step, over heads of any kind.

    First everything learns from the labelled rows, and keeps to the head's own constraints; then the classifier learns to
    be unsure of the target, and what comes before it, through a gradient reversal, to be sure.
    """

    name = "minimax-entropy"
    summary = "the classifier raises the target's entropy, the features lower it: MME's two phases"
    optimisations = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(0.1, "weight of the entropy")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)

    def __init__(self, weight: float = 0.1) -> None:
        super().__init__()
        self.weight = weight

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.transfer_weight)

    def phases(self, method: Aligned) -> Sequence[Phase]:
        from hda.methods.base import Phase

        of = _Phases(method, self.weight)
        return (Phase("labelled", of.learn), Phase("target", of.play))


class _Phases:
    """The two losses, over a method's backbone and head."""

    def __init__(self, method: Aligned, weight: float) -> None:
        self.method, self.weight = method, weight

    def learn(self, batch: Batch, progress: Progress) -> Losses:
        method, features = self.method, self.method.embed(batch, batch.labelled)
        out = method.head(features)
        losses = Losses(classification=cross_entropy(method.logits(out, features), batch.labels))
        return losses.including(method.kind.terms(out, batch))

    def play(self, batch: Batch, progress: Progress) -> Losses:
        method = self.method
        logits = method.kind.opposed(method.head, method.embed(batch, batch.target))
        return Losses(entropy=-self.weight * entropy(logits).mean())
