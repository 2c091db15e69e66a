import numpy as np
import pytest

from hda.selection.hold_out import hold_out

LABELS = np.repeat([0, 1, 2, 3, 4], [40, 20, 5, 2, 1])[np.random.default_rng(0).permutation(68)]


def test_every_class_gives_its_share_and_keeps_a_picture():
    held = hold_out(LABELS, 0.1, seed=0)
    assert [int((LABELS[held] == label).sum()) for label in range(5)] == [4, 2, 1, 1, 0]
    assert held.tolist() == sorted(set(held.tolist()))
    half = hold_out(LABELS, 0.5, seed=0)
    assert [int((LABELS[half] == label).sum()) for label in range(5)] == [20, 10, 2, 1, 0]
    assert set(held.tolist()) <= set(half.tolist())


@pytest.mark.parametrize("other", [{"seed": 1}, {"seed": 0, "source": 1}])
def test_seed_and_source_decide_and_nothing_else(other):
    held = hold_out(LABELS, 0.1, seed=0).tolist()
    assert hold_out(LABELS, 0.1, seed=0).tolist() == held
    assert hold_out(LABELS, 0.1, **other).tolist() != held


def test_a_share_of_nothing_holds_nothing_out():
    assert len(hold_out(LABELS, 0.0, seed=0)) == 0
