"""Accuracy on pictures of the source that training has not seen."""

from __future__ import annotations

import numpy as np

from hda.selection.base import Seen, Validator


class SourceAccuracy(Validator):
    """The share of held-out source pictures that are classified right; it knows nothing of the target."""

    name = "source-accuracy"
    summary = "accuracy on source pictures held out of training"
    paper = "Ganin and Lempitsky, ICML 2015"
    needs = frozenset({"held_out"})

    def score(self, seen: Seen) -> float:
        held = self.held_out(seen)
        return float(np.mean(held.predicted == held.labels))
