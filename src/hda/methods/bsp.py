"""Batch spectral penalisation: no direction of the features may dominate while an adversary aligns them."""

from __future__ import annotations

from hda.alignments.spectral import SpectralPenalty
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class BSP(Aligned):
    """Batch Spectral Penalization over CDAN+E (Chen et al., ICML 2019), over a bottleneck of 256 features.

    To the adversary's loss come the squares of the largest singular values of the source's and of the target's batch of
    features.
    """

    name = "bsp"
    reference = Reference(
        title="Transferability vs. Discriminability: Batch Spectral Penalization for Adversarial Domain Adaptation",
        authors="Xinyang Chen, Sinan Wang, Mingsheng Long, Jianmin Wang",
        venue="ICML 2019",
        url="https://proceedings.mlr.press/v97/chen19i.html",
        deviations="singular vectors by repeated squaring of the Gram matrix, not by a decomposition, so that the step can "
        "be one graph; no ReLU and dropout after the bottleneck; batch statistics are each domain's own, where the code has "
        "those of both together; the multilinear map is random beyond 32,768 products; optimiser and schedule are the recipe's",
        reported={"Office-Home, mean of 12, over CDAN (its paper)": 66.3},
    )
    head_kind, alignment_kind = Bottleneck, SpectralPenalty
    defaults = {"bottleneck_start": "xavier"}  # noqa: RUF012 - declared ClassVar by the base class
