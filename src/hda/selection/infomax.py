"""Predictions on the target that are sure, and of all classes: the information they carry."""

from __future__ import annotations

import numpy as np

from hda.selection.base import Seen, Validator


class InfoMax(Validator):
    """Mutual information of pictures and predicted classes: entropy of the mean prediction less the mean entropy, in nats.

    Shi and Sha (ICML 2012) adapt with it; Musgrave et al. (2022) measure it as a validator.
    """

    name = "infomax"
    summary = "predictions on the target are sure and of many classes"
    paper = "Shi and Sha, ICML 2012, https://arxiv.org/abs/1206.6438"

    def score(self, seen: Seen) -> float:
        probabilities = seen.target.probabilities
        mean = probabilities.mean(axis=0)
        diversity = -float(np.sum(mean * np.log(np.maximum(mean, np.finfo(np.float64).tiny))))
        sureness = float((probabilities * seen.target.log_probabilities).sum(axis=1).mean())
        return diversity + sureness
