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
        deviations="one optimiser with the recipe's rates instead of two, so that the backbone has momentum too, and one for "
        "all phases; classifiers of two layers, not three, Kaiming-normal at the start, without batch norm; each phase "
        "passes on the domains that its "
        "losses are of, each with its own batch statistics, where the code passes on both together; without the term for "
        "balanced classes, which the code has for VisDA alone; predictions are the mean of both classifiers' scores",
        reported={
            "Office-Home, mean of 12 (table 1)": 64.1,
            "Art->Clipart (table 1)": 48.9,
            "DomainNet, mean of 6, multi-source (table 3)": 38.5,
        },
    )
    head_kind, alignment_kind = MLP, ClassifierDiscrepancy
