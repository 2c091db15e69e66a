"""Entropy minimisation: the target is predicted with certainty."""

from __future__ import annotations

from hda.alignments.entropy import Entropy
from hda.heads.plain import Plain
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class EntMin(Aligned):
    """Entropy minimisation on the target (MinEnt of ADVENT, Vu et al., CVPR 2019): table 1's EntMin."""

    name = "entmin"
    reference = Reference(
        title="ADVENT: Adversarial Entropy Minimization for Domain Adaptation in Semantic Segmentation",
        authors="Tuan-Hung Vu, Himalaya Jain, Maxime Bucher, Matthieu Cord, Patrick Pérez",
        venue="CVPR 2019",
        url="https://arxiv.org/abs/1811.12833",
        deviations=(
            "the paper segments images with a weight of 0.001; table 1's figures are those of BNM's paper, whose code takes a "
            "weight of 1 on the entropy of whole pictures, divided by the logarithm of the number of classes as ADVENT does; "
            "inside the logarithm is 1e-5 added, where that code has 1e-8"
        ),
        reported={"Office-Home, mean of 12 (table 1)": 64.5, "Art->Clipart (table 1)": 43.2},
    )
    head_kind, alignment_kind = Plain, Entropy
    improves = ("transfer",)
    lowers = ("entropy",)
