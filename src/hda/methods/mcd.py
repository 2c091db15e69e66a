"""Maximum classifier discrepancy: two classifiers seek where they disagree, the features leave it."""

from __future__ import annotations

from hda.alignments.classifier_discrepancy import ClassifierDiscrepancy
from hda.heads.mlp import MLP
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class MCD(Aligned):
    """Maximum Classifier Discrepancy (Saito et al., CVPR 2018), in three phases a step."""

    name = "mcd"
    reference = Reference(
        title="Maximum Classifier Discrepancy for Unsupervised Domain Adaptation",
        authors="Kuniaki Saito, Kohei Watanabe, Yoshitaka Ushiku, Tatsuya Harada",
        venue="CVPR 2018",
        url="https://arxiv.org/abs/1712.02560",
        deviations="one optimiser with the recipe's rates instead of two; classifiers without batch norm",
        reported={"Office-Home, mean of 12 (table 1)": 64.1},
    )
    head_kind, alignment_kind = MLP, ClassifierDiscrepancy
