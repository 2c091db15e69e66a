import numpy as np
import pytest

from hda.selection.reverse import Reverse


def test_it_is_the_source_accuracy_of_a_ridge_regression_on_the_target_s_predictions(make_seen):
    scores = []
    for skill in (0.0, 0.5, 1.0):
        seen = make_seen(skill=skill)
        target, source = (part.features.astype(np.float64) for part in (seen.target, seen.source))
        mean, spread = target.mean(axis=0), target.std(axis=0)
        x, y = (target - mean) / spread, np.eye(4)[seen.target.logits.argmax(axis=1)]
        # A ridge is a least-squares problem with rows added that ask for small weights.
        rows = np.r_[np.c_[x, np.ones(len(x))], np.c_[np.sqrt(0.01 * len(x)) * np.eye(6), np.zeros(6)]]
        weights = np.linalg.lstsq(rows, np.r_[y, np.zeros((6, 4))], rcond=None)[0]
        told = (np.c_[(source - mean) / spread, np.ones(len(source))] @ weights).argmax(axis=1)
        scores.append(Reverse().score(seen))
        assert scores[-1] == pytest.approx(np.mean(told == seen.source.labels))
    assert scores[0] < 0.6 < scores[2]
