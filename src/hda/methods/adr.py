"""Adversarial dropout regularisation: features that a classifier reads alike whichever of its units are dropped."""

from __future__ import annotations

from hda.alignments.adr import AdversarialDropout
from hda.heads.mlp import MLP
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class ADR(Aligned):
    """Adversarial Dropout Regularization (Saito et al., ICLR 2018), in three phases a step."""

    name = "adr"
    reference = Reference(
        title="Adversarial Dropout Regularization",
        authors="Kuniaki Saito, Yoshitaka Ushiku, Tatsuya Harada, Kate Saenko",
        venue="ICLR 2018",
        url="https://arxiv.org/abs/1711.01575",
        deviations=(
            "the sensitivity is the paper's symmetric divergence, where the published digits code, which table 4 does not "
            "come from, takes a softmax twice and passes no gradient to one side; classifiers without batch norm; one "
            "optimiser with the recipe's rates"
        ),
        reported={
            "DomainNet-126, mean of 7, 1-shot (table 4)": 57.6,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 60.4,
        },
    )
    head_kind, alignment_kind = MLP, AdversarialDropout
