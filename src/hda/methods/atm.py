"""Adversarial tight match: an adversary, helped by a distance that pulls domains together and classes tight."""

from __future__ import annotations

from hda.alignments.density import TightMatch
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class ATM(Aligned):
    """Adversarial Tight Match (Li et al., TPAMI 2020), over a bottleneck of 256 features.

    To CDAN+E's loss comes the maximum density divergence: rows of source and target near each other, rows of one class
    near each other within each domain, where the target's classes are the predicted ones.
    """

    name = "atm"
    reference = Reference(
        title="Maximum Density Divergence for Domain Adaptation",
        authors="Jingjing Li, Erpeng Chen, Zhengming Ding, Lei Zhu, Ke Lu, Heng Tao Shen",
        venue="TPAMI 2020",
        url="https://arxiv.org/abs/2004.12615",
        deviations="the divergence is the published code's (distances, not their squares, of the softmax of the features); "
        "its weight is 0.01, as the code names for digits, for it names none for Office-Home; the entropy weights count "
        "row by row, where the code's cancel; where domains have unequal batches the shorter one's rows are paired again",
        reported={"Office-Home, mean of 12 (table 1)": 67.9, "Art->Clipart (table 1)": 52.4},
    )
    head_kind, alignment_kind = Bottleneck, TightMatch
    defaults = {"bottleneck_start": "xavier"}  # noqa: RUF012 - declared ClassVar by the base class
