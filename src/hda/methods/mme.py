"""Minimax entropy over prototypes: for a target of which a few labels are known."""

from __future__ import annotations

from hda.alignments.minimax_entropy import MinimaxEntropy
from hda.heads.cosine import Cosine
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class MME(Aligned):
    """Minimax Entropy (Saito et al., ICCV 2019), in two phases a step over a head of prototypes.

    Without a labelled target (UDA, MSDA) the labelled rows are the sources' alone.
    """

    name = "mme"
    reference = Reference(
        title="Semi-supervised Domain Adaptation via Minimax Entropy",
        authors="Kuniaki Saito, Donghyun Kim, Stan Sclaroff, Trevor Darrell, Kate Saenko",
        venue="ICCV 2019",
        url="https://arxiv.org/abs/1904.06487",
        deviations=(
            "as in the published code the two terms are two updates, the reversal lies behind the narrow layer and "
            "prototypes are not normalised; optimiser and schedule are the recipe's, and no labelled target is held back "
            "to stop early by"
        ),
        reported={
            "DomainNet-126, mean of 7, 1-shot (table 4)": 66.4,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 68.9,
        },
    )
    head_kind, alignment_kind = Cosine, MinimaxEntropy
