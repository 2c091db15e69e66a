import numpy as np
import pytest

from hda.selection import Seen, Unlabelled
from hda.selection.nuclear_norm import NuclearNorm


def test_it_is_the_sum_of_singular_values_over_the_largest_there_is(make_seen, softmax):
    seen = make_seen()
    probabilities = softmax(seen.target.logits)
    norm = np.sqrt(np.linalg.eigvalsh(probabilities.T @ probabilities)).sum()
    assert NuclearNorm().score(seen) == pytest.approx(norm / np.sqrt(50 * 4), rel=1e-6)


def test_it_is_one_for_sure_predictions_of_all_classes_alike():
    sure = 1e3 * np.eye(5)[np.arange(20) % 5]
    assert NuclearNorm().score(Seen(Unlabelled(sure, sure))) == pytest.approx(1)
    few = sure[:3]  # fewer pictures than classes
    assert NuclearNorm().score(Seen(Unlabelled(few, few))) == pytest.approx(1)
