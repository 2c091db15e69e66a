"""Stepwise adaptive feature norm: features of both domains grow, and so become as large as each other."""

from __future__ import annotations

from hda.alignments.feature_norm import FeatureNorm
from hda.heads.hidden import Hidden
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class SAFN(Aligned):
    """Stepwise Adaptive Feature Norm (Xu et al., ICCV 2019): classification, and the growth of every row's norm."""

    name = "safn"
    reference = Reference(
        title="Larger Norm More Transferable: An Adaptive Feature Norm Approach for Unsupervised Domain Adaptation",
        authors="Ruijia Xu, Guanbin Li, Jihan Yang, Liang Lin",
        venue="ICCV 2019",
        url="https://arxiv.org/abs/1811.07456",
        deviations=(
            "one optimiser with the recipe's rates and momentum, where the published code has two of one rate, the "
            "backbone's without momentum"
        ),
        reported={"Office-Home, mean of 12 (table 1)": 67.3, "Art->Clipart (table 1)": 52.0},
    )
    head_kind, alignment_kind = Hidden, FeatureNorm
