"""Batch nuclear-norm maximisation: the target is predicted with certainty, and as many classes."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hda.alignments.base import Alignment, Seen
from hda.batch import Losses
from hda.losses import batch_nuclear_norm
from hda.settings import at_least, setting


class BatchNuclearNorm(Alignment):
    """Minus the nuclear norm of the target's predictions (Cui et al., CVPR 2020).

    >>> align = BatchNuclearNorm()
    >>> loss = align(torch.rand(12, 65))
    """

    name = "bnm"
    summary = "the nuclear norm of the target's predictions is maximised: BNM's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the nuclear norm")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=self(seen.target(seen.logits)))

    def forward(self, target: Tensor) -> Tensor:
        """The loss of the target's logits, (rows, classes)."""
        return batch_nuclear_norm(target)
