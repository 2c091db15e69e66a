"""Maximum mean discrepancy: source and target have the same mean in the space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import mmd
from hda.settings import at_least, setting

Layers = Literal["features", "both"]


class MeanDiscrepancy(Alignment):
    """The maximum mean discrepancy of multiple kernels (Long et al., ICML 2015) between labelled and target rows.

    >>> align = MeanDiscrepancy()
    >>> loss = align(torch.rand(8, 256), torch.rand(12, 256))  # eight rows of the source, twelve of the target

    Args:
        kernels: how many Gaussians are summed.
        factor: how much wider each is than the one before.
    """

    name = "mmd"
    summary = "maximum mean discrepancy of several Gaussian kernels: DAN's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(1.0, "weight of the maximum mean discrepancy")
        kernels: int = setting(5, "Gaussian kernels that are summed, the middle one as wide as the mean distance")
        kernel_factor: float = setting(2.0, "how much wider each kernel is than the one before")
        mmd_layers: Literal["features", "both"] = setting(
            "features",
            "what is matched: features, as the published ResNet code, or both them and the logits, as the text",
        )

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, kernels=self.kernels, kernel_factor=self.kernel_factor)

    def __init__(self, kernels: int = 5, factor: float = 2.0, layers: Layers = "features") -> None:
        super().__init__()
        self.kernels, self.factor, self.layers = kernels, factor, layers

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(settings.kernels, settings.kernel_factor, settings.mmd_layers)

    def terms(self, seen: Seen) -> Losses:
        layers = (seen.features,) if self.layers == "features" else (seen.features, seen.logits)
        found = [self(seen.labelled(layer), seen.target(layer)) for layer in layers]
        return Losses(transfer=sum(found[1:], start=found[0]))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The discrepancy of (source rows, width) and (target rows, width)."""
        return mmd(source, target, self.kernels, self.factor)
