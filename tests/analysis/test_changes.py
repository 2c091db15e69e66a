import numpy as np

from hda.analysis.changes import Predicted, changes, mistaken, moved

LABELS = np.array([0, 0, 0, 1, 1, -1, 0])
BEFORE = Predicted(np.array([0, 1, 1, 1, 1, 0, 1]), np.array([0.9, 0.8, 0.6, 0.7, 0.5, 0.9, 0.3]))
AFTER = Predicted(np.array([0, 0, 0, 0, 1, 1, 1]), np.array([0.9, 0.7, 0.8, 0.6, 0.5, 0.9, 0.4]))


def test_gains_by_class_and_pictures_won_and_lost():
    found = changes(BEFORE, AFTER, LABELS, 3)
    np.testing.assert_array_equal(found.before, [25.0, 100.0, np.nan])
    np.testing.assert_array_equal(found.gains, [50.0, -50.0, np.nan])
    assert found.won.tolist() == [2, 1]  # the surest now first
    assert found.lost.tolist() == [3]


def test_moved_pictures_need_no_label_and_come_by_the_lower_confidence():
    assert moved(BEFORE, AFTER).tolist() == [5, 1, 2, 3]


def test_mistakes_come_surest_first_and_leave_out_what_has_no_label():
    assert mistaken(AFTER, LABELS).tolist() == [3, 6]
