"""Reverse validation: a classifier learnt from the target's predictions is to know the source."""

from __future__ import annotations

import numpy as np

from hda.selection.base import Seen, Validator, standardised


class Reverse(Validator):
    """Source accuracy of a linear classifier trained on target features and the classes predicted there.

    Zhong et al. (ECML 2010) and Ganin et al. (JMLR 2016) adapt a second model, from the target with predicted labels back
    to the source. Here the features stay as they are, and the second model is a ridge regression on them, solved in
    closed form: no second training for every choice.
    """

    name = "reverse"
    summary = "a classifier learnt from the target's predictions is right on the source"
    paper = "Zhong et al., ECML 2010; Ganin et al., JMLR 2016, https://arxiv.org/abs/1505.07818"
    needs = frozenset({"source"})
    ridge = 0.01

    def score(self, seen: Seen) -> float:
        source, target = self.source(seen), seen.target
        rows = standardised(target.features, target.features)
        classes, predicted = np.unique(target.predicted, return_inverse=True)
        wanted = np.eye(len(classes))[predicted]
        mean = wanted.mean(axis=0)
        gram = rows.T @ rows / len(rows) + self.ridge * np.eye(rows.shape[1])
        weights = np.linalg.solve(gram, rows.T @ (wanted - mean) / len(rows))
        answers = standardised(source.features, target.features) @ weights + mean
        return float(np.mean(classes[answers.argmax(axis=1)] == source.labels))
