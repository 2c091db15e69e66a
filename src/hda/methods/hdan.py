"""Heuristic Domain Adaptation Network: transferable = fundament - heuristic."""

from __future__ import annotations

from hda.alignments import EntropyConditionedAdversary
from hda.heads.heuristic import Heuristic
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class HDAN(Aligned):
    """Heuristic Domain Adaptation Network (Cui et al., NeurIPS 2020): G(x) = F(x) - H(x).

    The loss is the classification of G on the labelled rows, the adversarial alignment of G, conditioned on its entropy,
    and the termination of H: of weight one each.
    """

    name = "hdan"
    reference = Reference(
        title="Heuristic Domain Adaptation",
        authors="Shuhao Cui, Xuan Jin, Shuhui Wang, Yuan He, Qingming Huang",
        venue="NeurIPS 2020",
        url="https://arxiv.org/abs/2011.14540",
        deviations="none: where text and code differ the code is the default and the text a setting",
        reported={
            "Office-Home, mean of 12 (table 1)": 70.9,
            "Art->Clipart (table 1)": 56.8,
            "DomainNet, mean of 6, multi-source (table 3)": 47.6,
            "DomainNet-126, mean of 7, 1-shot (table 4)": 69.5,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 71.3,
        },
    )
    head_kind, alignment_kind = Heuristic, EntropyConditionedAdversary
    revision = 1  # its adversary always saw the scores, which the head's second revision is about
