import numpy as np
import pytest

from hda.selection import Seen, Unlabelled, snd
from hda.selection.snd import SND


def by_hand(probabilities: np.ndarray) -> float:
    entropies = []
    for i, row in enumerate(probabilities):
        others = [j for j in range(len(probabilities)) if j != i]
        cosines = [row @ probabilities[j] / (np.linalg.norm(row) * np.linalg.norm(probabilities[j])) for j in others]
        weights = np.exp(np.array(cosines) / 0.05)
        weights /= weights.sum()
        entropies.append(-sum(w * np.log(w) for w in weights))
    return float(np.mean(entropies))


def test_it_is_the_mean_entropy_of_similarities_to_all_others(make_seen, softmax):
    seen = make_seen()
    assert SND().score(seen) == pytest.approx(by_hand(softmax(seen.target.logits)), rel=1e-6)


@pytest.mark.parametrize("block", [1, 120, 1000])
def test_blocks_change_nothing(block, make_seen, monkeypatch):
    seen = make_seen()
    whole = SND().score(seen)
    monkeypatch.setattr(snd, "BLOCK", block)
    assert SND().score(seen) == pytest.approx(whole, rel=1e-12)


def test_it_counts_neighbours():
    sure = 1e3 * np.eye(5)[np.arange(20) % 5]  # each of 20 pictures has 3 others of its class
    assert SND().score(Seen(Unlabelled(sure, sure))) == pytest.approx(np.log(3), abs=1e-5)
