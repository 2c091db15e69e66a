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
        reported={"Office-Home, mean of 12 (table 1)": 46.1},
    )
    head_kind, alignment_kind = Plain, NoAlignment
