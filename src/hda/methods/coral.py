"""Deep CORAL: class scores of both domains have the same covariance."""

from __future__ import annotations

from hda.alignments.coral import Correlation
from hda.heads.plain import Plain
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class CORAL(Aligned):
    """Deep CORAL (Sun and Saenko, 2016): classification, and the distance of the last layer's covariances."""

    name = "coral"
    reference = Reference(
        title="Deep CORAL: Correlation Alignment for Deep Domain Adaptation",
        authors="Baochen Sun, Kate Saenko",
        venue="ECCV Workshops 2016",
        url="https://arxiv.org/abs/1607.01719",
        deviations=(
            "the paper weighs the term so that both losses end alike, which takes a run to know: here the weight is 1; "
            "the last layer starts as HDAN's, not as a small Gaussian; optimiser and schedule are the recipe's"
        ),
    )
    head_kind, alignment_kind = Plain, Correlation
    improves = ("transfer",)
