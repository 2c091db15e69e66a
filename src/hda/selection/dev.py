"""Deep embedded validation: the importance-weighted loss with its variance taken down."""

from __future__ import annotations

import numpy as np

from hda.selection import ratio
from hda.selection.base import Floats, Seen, Validator


class DEV(Validator):
    """Minus the deep embedded validation risk (You et al., ICML 2019).

    The risk is the mean of weight times cross-entropy over held-out source pictures, with the weights, whose mean is one,
    as a control variate. The paper's classifier of domains is a small network; a logistic regression takes its place, its
    strength chosen on a fifth of the rows.
    """

    name = "dev"
    summary = "importance-weighted loss on held-out source pictures, its variance reduced"
    paper = "You et al., ICML 2019, https://proceedings.mlr.press/v97/you19a.html"
    needs = frozenset({"source", "held_out"})

    def score(self, seen: Seen) -> float:
        held = self.held_out(seen)
        return -risk(ratio.weights(seen, held, self.source(seen)), ratio.losses(held))


def risk(weights: Floats, losses: Floats) -> float:
    """mean(wl) + eta (mean(w) - 1), with eta = -cov(wl, w) / var(w)."""
    weighted = weights * losses
    centred = weights - weights.mean()
    variance = float(np.mean(centred**2))
    eta = -float(np.mean((weighted - weighted.mean()) * centred)) / variance if variance > 0 else 0.0
    return float(weighted.mean()) + eta * (float(weights.mean()) - 1.0)
