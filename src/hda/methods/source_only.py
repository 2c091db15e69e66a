"""No adaptation: what a classifier trained on the labelled pictures alone is worth on the target."""

from __future__ import annotations

from hda.alignments.base import NoAlignment
from hda.heads.plain import Plain
from hda.methods.aligned import Aligned
from hda.methods.base import Reference


class SourceOnly(Aligned):
    """A linear head trained on every row whose label is known: the yardstick of all others."""

    name = "source-only"
    reference = Reference(
        "no adaptation: trained on the labelled pictures alone",
        "",
        "",
        reported={
            "Office-Home, mean of 12 (table 1)": 46.1,
            "Art->Clipart (table 1)": 34.9,
            "DomainNet, mean of 6, multi-source (table 3)": 32.9,
            "DomainNet-126, mean of 7, 1-shot (table 4)": 56.9,
            "DomainNet-126, mean of 7, 3-shot (table 4)": 60.0,
        },
    )
    head_kind, alignment_kind = Plain, NoAlignment
