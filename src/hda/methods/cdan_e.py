"""Conditional domain-adversarial training in which sure rows weigh more."""

from __future__ import annotations

from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.heads.bottleneck import Bottleneck
from hda.methods.aligned import Aligned
from hda.methods.base import Reference
from hda.methods.cdan import CDAN, DEVIATIONS


class CDANE(Aligned):
    """CDAN+E (Long et al., NeurIPS 2018): CDAN whose rows weigh 1 + exp(-entropy of the prediction)."""

    name = "cdan-e"
    reference = Reference(
        title=CDAN.reference.title,
        authors=CDAN.reference.authors,
        venue=CDAN.reference.venue,
        url=CDAN.reference.url,
        deviations=DEVIATIONS,
        reported={"Office-Home, mean of 12 (table 1, there 'CDAN')": 65.8, "Art->Clipart (table 1)": 50.7},
    )
    head_kind, alignment_kind = Bottleneck, ConditionalAdversary
    defaults = {"bottleneck_start": "xavier", "entropy_conditioning": True}  # noqa: RUF012 - declared ClassVar by the base class
