"""How sure the model is of its predictions on the target."""

from __future__ import annotations

from hda.selection.base import Seen, Validator


class Entropy(Validator):
    """Minus the mean entropy of the target's class probabilities, in nats (Morerio et al., ICLR 2018).

    A model that gives every picture the same class, and is sure of it, is best by this measure.
    """

    name = "entropy"
    summary = "predictions on the target are sure"
    paper = "Morerio et al., ICLR 2018, https://arxiv.org/abs/1711.10288"

    def score(self, seen: Seen) -> float:
        return float((seen.target.probabilities * seen.target.log_probabilities).sum(axis=1).mean())
