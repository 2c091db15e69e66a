"""Domain-adversarial training: features from which the domain cannot be told."""

from __future__ import annotations

from hda.alignments.adversarial import DomainAdversary
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class DANN(Aligned):
    """Domain-Adversarial Neural Network (Ganin et al., JMLR 2016), over a bottleneck of 256 features.

    The loss is the classification of the labelled rows and the domain classification through a gradient reversal, whose
    strength goes from 0 to 1 with 2 / (1 + exp(-10 p)) - 1. In the paper p goes from 0 to 1 over the run (the setting
    `reversal_horizon` "auto"); in the code behind the figures for ResNets it is a 10,000th of the iteration.
    """

    name = "dann"
    reference = Reference(
        title="Domain-Adversarial Training of Neural Networks",
        authors="Yaroslav Ganin, Evgeniya Ustinova, Hana Ajakan, Pascal Germain, Hugo Larochelle, François Laviolette, "
        "Mario Marchand, Victor Lempitsky",
        venue="JMLR 2016",
        url="https://arxiv.org/abs/1505.07818",
        deviations="as in the code behind the figures for ResNets (CDAN's) the domain loss is the mean of both sides', half "
        "the paper's sum, the reversal opens over 10,000 iterations, not over the run, and layers start Xavier-normal; "
        "optimiser and rates are the recipe's; several sources count as one",
        reported={
            "Office-Home, mean of 12 (table 1)": 57.6,
            "Art->Clipart (table 1)": 45.6,
            "DomainNet, mean of 6, multi-source (table 3)": 32.6,
            "DomainNet-126, mean of 7, 1-shot (table 4)": 58.4,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 60.7,
        },
    )
    head_kind, alignment_kind = Bottleneck, DomainAdversary
    defaults = {"bottleneck_start": "xavier"}  # noqa: RUF012 - declared ClassVar by the base class
