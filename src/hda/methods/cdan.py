"""Conditional domain-adversarial training: features and class probabilities from which the domain cannot be told."""

from __future__ import annotations

from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference

DEVIATIONS = (
    "the multilinear map is random beyond 32,768 products, the paper says beyond 4,096, its code never; the domain loss is "
    "the mean of both sides', as in the code; layers start Xavier-normal, as in the code as it stands, where an earlier state "
    "of it has small Gaussians; optimiser and schedule are the recipe's; several sources count as one"
)


class CDAN(Aligned):
    """Conditional Domain Adversarial Network (Long et al., NeurIPS 2018), over a bottleneck of 256 features."""

    name = "cdan"
    reference = Reference(
        title="Conditional Adversarial Domain Adaptation",
        authors="Mingsheng Long, Zhangjie Cao, Jianmin Wang, Michael I. Jordan",
        venue="NeurIPS 2018",
        url="https://arxiv.org/abs/1705.10667",
        deviations=DEVIATIONS,
        reported={
            "DomainNet-126, mean of 7, 1-shot (table 4)": 62.5,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 66.5,
            "Office-Home, mean of 12 (its paper)": 63.8,
        },
    )
    head_kind, alignment_kind = Bottleneck, ConditionalAdversary
    defaults = {"bottleneck_start": "xavier"}  # noqa: RUF012 - declared ClassVar by the base class
