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
            "of the paper's symmetric divergence each half teaches one side, and classes are averaged over, as in the "
            "published digits code, but without that code's second softmax (the paper's formula as it stands has no upper "
            "bound for the classifier, and training with it diverges); classifiers without batch norm; the sensitive "
            "phase draws its dropout a third time for the labels, where that code shares the first draw; one optimiser with "
            "the recipe's rates; what made table 4's figures is not published"
        ),
        reported={
            "DomainNet-126, mean of 7, 1-shot (table 4)": 57.6,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 60.4,
        },
    )
    head_kind, alignment_kind = MLP, AdversarialDropout
