"""An ensemble of validators: the mean of the places that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from hda.selection.base import Floats, Scores, Seen, Validator, ranks
from hda.selection.class_ami import ClassAMI
from hda.selection.infomax import InfoMax
from hda.selection.reverse import Reverse
from hda.selection.snd import SND


class Ranks(Validator):
    """The mean place among all models compared, by InfoMax, SND, class-cluster agreement and reverse validation.

    The four follow different ideas and need no held-out source. A model alone has no place: `score` is not defined,
    `measure` and `values` are.
    """

    name = "ranks"
    summary = "mean rank by infomax, snd, class-ami and reverse"
    paper = "Borda count: the mean of ranks"
    members: ClassVar[tuple[Validator, ...]] = (InfoMax(), SND(), ClassAMI(), Reverse())
    needs = frozenset().union(*(member.needs for member in members))
    relative = True

    def score(self, seen: Seen) -> float:
        raise TypeError("a rank is a place among several models: measure each, then ask for their values")

    def measure(self, seen: Seen) -> dict[str, float]:
        return {member.name: member.score(seen) for member in self.members}

    def values(self, measured: Sequence[Scores]) -> Floats:
        """Mean places, from just above 0, the lowest, to 1."""
        places = [ranks(member.values(measured)) / max(1, len(measured)) for member in self.members]
        found: Floats = np.mean(places, axis=0)
        return found
