import numpy as np
import pytest

from hda.selection import ratio
from hda.selection.importance_weighted import ImportanceWeighted


def test_it_is_minus_the_mean_weighted_loss(make_seen, monkeypatch):
    seen = make_seen()
    weights = np.random.default_rng(0).random(len(seen.held_out))
    monkeypatch.setattr(ratio, "weights", lambda *parts: weights)
    expected = -sum(w * loss for w, loss in zip(weights, ratio.losses(seen.held_out), strict=True)) / len(weights)
    assert ImportanceWeighted().score(seen) == pytest.approx(expected)
