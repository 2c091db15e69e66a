"""The loss on held-out source pictures, those counting most that look like the target."""

from __future__ import annotations

from hda.selection import ratio
from hda.selection.base import Seen, Validator


class ImportanceWeighted(Validator):
    """Minus the mean of weight times cross-entropy over held-out source pictures (Sugiyama et al., JMLR 2007).

    The weights are ratios of densities in the space of the model's features, as `hda.selection.ratio` estimates them. It
    is the risk on the target where the domains differ in nothing but how often features occur.
    """

    name = "importance-weighted"
    summary = "loss on held-out source pictures, weighted by how much they look like the target"
    paper = "Sugiyama et al., JMLR 2007"
    needs = frozenset({"source", "held_out"})

    def score(self, seen: Seen) -> float:
        held = self.held_out(seen)
        return -float((ratio.weights(seen, held, self.source(seen)) * ratio.losses(held)).mean())
