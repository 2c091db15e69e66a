"""Joint maximum mean discrepancy: features and predictions are matched together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses, Progress
from hda.losses import joint_mmd
from hda.nn import reversal_coefficient
from hda.settings import at_least, setting


class JointMeanDiscrepancy(Alignment):
    """The joint maximum mean discrepancy of features and class probabilities (Long et al., ICML 2017).

    >>> align = JointMeanDiscrepancy()
    >>> loss = align((torch.rand(8, 256), torch.rand(8, 65)), (torch.rand(12, 256), torch.rand(12, 65)))

    Args:
        kernels: Gaussians of the features, summed.
        factor: how much wider each is than the one before.
        label_bandwidth: of the one Gaussian of the class probabilities.
        schedule: "constant": always at full strength, as in the published code; "ramp": 2 / (1 + exp(-10 p)) - 1 over the
            run, as in the paper.
    """

    name = "jmmd"
    summary = "joint maximum mean discrepancy of features and class probabilities: JAN's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the joint maximum mean discrepancy")
        kernels: int = setting(5, "Gaussian kernels of the features, the middle one as wide as the mean distance")
        kernel_factor: float = setting(2.0, "how much wider each kernel is than the one before")
        label_bandwidth: float = setting(1.68, "bandwidth of the kernel of class probabilities")
        jmmd_schedule: Literal["constant", "ramp"] = setting(
            "constant", "constant, as the published code, or growing from nothing over the run, as the text"
        )

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, kernels=self.kernels, kernel_factor=self.kernel_factor)
            at_least(1e-6, label_bandwidth=self.label_bandwidth)

    def __init__(
        self,
        kernels: int = 5,
        factor: float = 2.0,
        label_bandwidth: float = 1.68,
        schedule: Literal["constant", "ramp"] = "constant",
    ) -> None:
        super().__init__()
        self.kernels, self.factor, self.label_bandwidth, self.schedule = kernels, factor, label_bandwidth, schedule

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        s = settings
        return cls(s.kernels, s.kernel_factor, s.label_bandwidth, s.jmmd_schedule)

    def terms(self, seen: Seen) -> Losses:
        layers = (seen.features, seen.logits.softmax(dim=1))
        source, target = (tuple(part(layer) for layer in layers) for part in (seen.labelled, seen.target))
        return Losses(transfer=self._strength(seen.progress) * self(source, target))

    def forward(self, source: tuple[Tensor, ...], target: tuple[Tensor, ...]) -> Tensor:
        """The discrepancy of layers of the source and of the target, the class probabilities last."""
        return joint_mmd(source, target, self.kernels, self.factor, self.label_bandwidth)

    def _strength(self, progress: Progress) -> Tensor | float:
        return reversal_coefficient(progress.fraction, 1.0) if self.schedule == "ramp" else 1.0
