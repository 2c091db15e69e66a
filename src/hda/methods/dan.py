"""Deep adaptation network: features of both domains have the same mean in the space of several kernels."""

from __future__ import annotations

from hda.alignments.mmd import MeanDiscrepancy
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class DAN(Aligned):
    """Deep Adaptation Network (Long et al., ICML 2015): classification, and multi-kernel maximum mean discrepancy."""

    name = "dan"
    reference = Reference(
        title="Learning Transferable Features with Deep Adaptation Networks",
        authors="Mingsheng Long, Yue Cao, Jianmin Wang, Michael I. Jordan",
        venue="ICML 2015",
        url="https://arxiv.org/abs/1502.02791",
        deviations=(
            "as in the authors' PyTorch code for ResNets, the kernels count alike where the text learns their weights, the "
            "bottleneck alone is matched where the text takes every last layer (`mmd_layers`), and the estimate takes all "
            "pairs; the bottleneck starts as there, and is without its ReLU and dropout; batch statistics are each domain's "
            "own, where that code has those of both together; optimiser and schedule are the recipe's"
        ),
        reported={
            "Office-Home, mean of 12 (table 1)": 56.3,
            "Art->Clipart (table 1)": 43.6,
            "DomainNet, mean of 6 (table 3)": 32.1,
        },
    )
    head_kind, alignment_kind = Bottleneck, MeanDiscrepancy
    improves = ("transfer",)
    lowers = ("gap",)
