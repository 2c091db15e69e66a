"""Batch nuclear-norm maximisation: the target is predicted with certainty, and as many classes."""

from __future__ import annotations

from hda.alignments.bnm import BatchNuclearNorm
from hda.heads.plain import Plain
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class BNM(Aligned):
    """Batch Nuclear-norm Maximisation (Cui et al., CVPR 2020): classification, and the target's mean singular value."""

    name = "bnm"
    reference = Reference(
        title="Towards Discriminability and Diversity: Batch Nuclear-norm Maximization under Label Insufficient Situations",
        authors="Shuhao Cui, Shuhui Wang, Junbao Zhuo, Liang Li, Qingming Huang, Qi Tian",
        venue="CVPR 2020",
        url="https://arxiv.org/abs/2003.12237",
        deviations=(
            "the norm comes from matrix products, not from a singular value decomposition; it is divided as in the published "
            "code, by the smaller of rows and classes, where the text divides by the rows (the same at 36 rows of 65 classes)"
        ),
        reported={"Office-Home, mean of 12 (table 1)": 67.9, "Art->Clipart (table 1)": 52.3},
    )
    head_kind, alignment_kind = Plain, BatchNuclearNorm
    improves = ("transfer",)
    lowers = ("entropy",)
