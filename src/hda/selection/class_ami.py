"""Whether clusters of the target's features are the predicted classes."""

from __future__ import annotations

import warnings

import numpy as np

from hda.selection.base import Seen, Validator, shuffled


class ClassAMI(Validator):
    """Adjusted mutual information of predicted classes and k-means clusters of the target's features.

    Musgrave et al. (2022) propose it. There are as many clusters as classes, of features scaled to length one. Clusters
    are sought three times from random centres, which depend on the features alone; the tightest are taken.
    """

    name = "class-ami"
    summary = "k-means clusters of the target's features agree with the predicted classes"
    paper = "Musgrave et al., 2022, https://arxiv.org/abs/2208.07360"

    def score(self, seen: Seen) -> float:
        from sklearn.cluster import KMeans
        from sklearn.metrics import adjusted_mutual_info_score

        features = seen.target.features.astype(np.float64)
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        order = shuffled(features)
        count = min(seen.target.logits.shape[1], len(features))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that fewer rows differ than clusters are sought: then there are fewer
            clusters = KMeans(count, n_init=3, random_state=0).fit_predict(features[order])
            return float(adjusted_mutual_info_score(seen.target.predicted[order], clusters))
