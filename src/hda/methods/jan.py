"""Joint adaptation network: features and predictions of both domains are matched together."""

from __future__ import annotations

from hda.alignments.jmmd import JointMeanDiscrepancy
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class JAN(Aligned):
    """Joint Adaptation Network (Long et al., ICML 2017): classification, and joint maximum mean discrepancy.

    It is the network without the adversarial layers of the paper's JAN-A.
    """

    name = "jan"
    reference = Reference(
        title="Deep Transfer Learning with Joint Adaptation Networks",
        authors="Mingsheng Long, Han Zhu, Jianmin Wang, Michael I. Jordan",
        venue="ICML 2017",
        url="https://arxiv.org/abs/1605.06636",
        deviations=(
            "as in the authors' PyTorch code for ResNets, bottleneck and class probabilities are matched, with all pairs "
            "where the text has a linear-time estimate, and with a constant weight where the text lets it grow "
            "(`jmmd_schedule`); the bottleneck starts as in the authors' code for DAN, and is without ReLU and dropout; "
            "optimiser and schedule are the recipe's"
        ),
        reported={"DomainNet, mean of 6 (table 3)": 29.6},
    )
    head_kind, alignment_kind = Bottleneck, JointMeanDiscrepancy
    improves = ("transfer",)
    lowers = ("gap",)
