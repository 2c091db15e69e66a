"""The gradually vanishing bridge: what a domain has of its own goes over a bridge that vanishes."""

from __future__ import annotations

from hda.alignments.bridge_adversarial import BridgedAdversary
from hda.heads.bridge import Bridge
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class GVB(Aligned):
    """Gradually Vanishing Bridge on the generator, GVB-G (Cui et al., CVPR 2020): scores = C(x) - bridge(x).

    The adversary sees their softmax; sure rows weigh more. `discriminator_bridge` gives the discriminator a bridge, too,
    which is GVB-GD.
    """

    name = "gvb"
    reference = Reference(
        title="Gradually Vanishing Bridge for Adversarial Domain Adaptation",
        authors="Shuhao Cui, Shuhui Wang, Junbao Zhuo, Chi Su, Qingming Huang, Qi Tian",
        venue="CVPR 2020",
        url="https://arxiv.org/abs/2003.13183",
        deviations="none of network and loss, which are the published code's; GVB-G is the default, as in the tables, GVB-GD "
        "an option; several sources, and a labelled target, are domains of their own, as in HDAN's code; the run is as long as "
        "HDAN's, where the code's is of 8,004 iterations",
        reported={
            "Office-Home, mean of 12 (table 1)": 70.0,
            "Art->Clipart (table 1)": 56.5,
            "DomainNet, mean of 6, multi-source (table 3)": 46.0,
            "DomainNet-126, mean of 7, 1-shot (table 4)": 68.4,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 70.6,
        },
    )
    improves = ("bridge",)
    head_kind, alignment_kind = Bridge, BridgedAdversary
    revision = 1  # its adversary always saw the scores, which the head's second revision is about
    defaults = {"discriminator_bridge": False}  # noqa: RUF012 - declared ClassVar by the base class
