"""Soft neighbourhood density: target pictures that are predicted alike have many near neighbours."""

from __future__ import annotations

import numpy as np

from hda.selection.base import Seen, Validator

BLOCK = 2**24  # similarities at once


class SND(Validator):
    """The mean entropy of each target picture's similarities to all others (Saito et al., ICCV 2021).

    A picture is its class probabilities, scaled to length one; similarities are inner products, made a distribution by
    a softmax of temperature 0.05 that leaves the picture itself out. A model that gives every picture the same
    probabilities is best by this measure, as the authors say: it is for models that know the source.
    """

    name = "snd"
    summary = "target pictures predicted alike form dense neighbourhoods"
    paper = "Saito et al., ICCV 2021, https://arxiv.org/abs/2108.10860"
    temperature = 0.05

    def score(self, seen: Seen) -> float:
        rows = seen.target.probabilities
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        count = len(rows)
        if count < 2:
            return 0.0
        step = max(1, BLOCK // count)
        return sum(self._entropies(rows, start, min(count, start + step)) for start in range(0, count, step)) / count

    def _entropies(self, rows: np.ndarray, start: int, stop: int) -> float:
        """The sum of the entropies of the rows from start to stop."""
        scaled = rows[start:stop] @ rows.T / self.temperature
        itself = (np.arange(stop - start), np.arange(start, stop))
        scaled[itself] = -np.inf
        scaled -= scaled.max(axis=1, keepdims=True)
        weights = np.exp(scaled)
        sums = weights.sum(axis=1)
        scaled[itself] = 0.0  # its weight is zero
        # The entropy of weights w = exp(s) / z is log z less the mean of s.
        return float(np.sum(np.log(sums) - (weights * scaled).sum(axis=1) / sums))
