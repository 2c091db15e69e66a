"""The nuclear norm of the target's predictions: sure and of many classes, in one number."""

from __future__ import annotations

import numpy as np

from hda.selection.base import Seen, Validator


class NuclearNorm(Validator):
    """The sum of the singular values of the target's class probabilities, over the largest that it can be.

    Cui et al. (CVPR 2020) raise it in training (batch nuclear-norm maximisation); Musgrave et al. (2022) measure it as a
    validator. For n pictures of c classes it is at most sqrt(n min(n, c)).
    """

    name = "nuclear-norm"
    summary = "the matrix of the target's predictions has a large nuclear norm (BNM)"
    paper = "Cui et al., CVPR 2020, https://arxiv.org/abs/2003.12237"

    def score(self, seen: Seen) -> float:
        probabilities = seen.target.probabilities
        largest = np.sqrt(len(probabilities) * min(probabilities.shape))
        return float(np.linalg.svd(probabilities, compute_uv=False).sum() / largest)
