import numpy as np
import pytest

from hda.analysis.calibration import reliability


def test_bins_by_hand():
    found = reliability([0.0, 0.2, 0.5, 0.45, 0.9, 1.0], [False, False, True, False, True, True], bins=2)
    assert found.counts.tolist() == [4, 2]  # 0.5 belongs to the bin below it
    assert found.confidence.tolist() == pytest.approx([1.15 / 4, 0.95])
    assert found.accuracy.tolist() == [0.25, 1.0]
    assert found.error == pytest.approx(100 * (4 * (0.2875 - 0.25) + 2 * 0.05) / 6)
    assert found.surplus == pytest.approx(100 * (4 * (0.2875 - 0.25) - 2 * 0.05) / 6)


def test_an_empty_bin_counts_for_nothing():
    found = reliability([0.9, 0.95], [True, False], bins=15)
    assert np.isnan(found.accuracy[0])
    assert found.error == pytest.approx(100 * (0.5 * 0.1 + 0.5 * 0.95))


def test_a_model_that_is_as_often_right_as_it_is_sure_has_no_error():
    sure = np.repeat([0.25, 0.75], 400)
    right = np.concatenate([np.arange(400) % 4 == 0, np.arange(400) % 4 != 0])
    assert reliability(sure, right).error == pytest.approx(0.0)


def test_no_prediction_is_refused():
    with pytest.raises(ValueError, match="at least one prediction"):
        reliability([], [])
