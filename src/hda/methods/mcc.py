"""Minimum class confusion: the target is not taken for two classes at once."""

from __future__ import annotations

from hda.alignments.mcc import ClassConfusion
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class MCC(Aligned):
    """Minimum Class Confusion (Jin et al., ECCV 2020): classification, and the confusion in the target's predictions."""

    name = "mcc"
    reference = Reference(
        title="Minimum Class Confusion for Versatile Domain Adaptation",
        authors="Ying Jin, Ximei Wang, Mingsheng Long, Jianmin Wang",
        venue="ECCV 2020",
        url="https://arxiv.org/abs/1912.03699",
        deviations="the bottleneck of 256 features is without batch norm, whose scale starts near zero in the published code; "
        "optimiser and schedule are the recipe's",
    )
    head_kind, alignment_kind = Bottleneck, ClassConfusion
    defaults = {"bottleneck_start": "xavier"}  # noqa: RUF012 - declared ClassVar by the base class
    revision = 2
    improves = ("transfer",)
