import numpy as np
import pytest

from hda.selection.entropy import Entropy


def test_it_is_minus_the_mean_entropy(make_seen, softmax):
    seen = make_seen()
    expected = np.mean([sum(p * np.log(p) for p in row) for row in softmax(seen.target.logits)])
    assert Entropy().score(seen) == pytest.approx(expected, rel=1e-6)
