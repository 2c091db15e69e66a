import numpy as np
import pytest

from hda.analysis.curves import Curve, band, mean_deviation, of_runs, read, smooth


def curve(values, steps=None) -> Curve:
    values = np.asarray(values, dtype=np.float64)
    return Curve(np.arange(len(values)) if steps is None else np.asarray(steps), values)


def test_reading_passes_over_records_without_the_quantity():
    records = [
        {"step": 1, "loss": 2.0},
        {"step": 2},
        {"step": 3, "loss": None},
        {"step": 20, "loss": 0.0, "accuracy": 50.0},
    ]
    loss = read(records, "loss")
    assert loss.steps.tolist() == [1, 20]
    assert loss.values.tolist() == [2.0, 0.0]
    assert (loss.steps.dtype, loss.values.dtype) == (np.int64, np.float64)
    assert len(read(records, "accuracy")) == 1
    assert len(read(records, "unheard of")) == 0


@pytest.mark.parametrize("window", [1, 3, 5, 9, 101])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 30])
def test_smoothing_is_the_mean_of_as_many_points_on_either_side(window, count):
    values = np.random.default_rng(0).normal(size=count)
    expected = []
    for i in range(count):
        reach = min(window // 2, i, count - 1 - i)
        expected.append(np.mean(values[i - reach : i + reach + 1]))
    smoothed = smooth(curve(values), window)
    np.testing.assert_allclose(smoothed.values, expected, atol=1e-12)
    np.testing.assert_array_equal(smoothed.steps, np.arange(count))


def test_smoothing_leaves_a_straight_line_and_the_ends_where_they_are():
    line = curve(3.0 * np.arange(20) - 7.0)
    np.testing.assert_allclose(smooth(line, 7).values, line.values)
    wild = curve(np.random.default_rng(0).normal(size=20))
    np.testing.assert_allclose(smooth(wild, 7).values[[0, -1]], wild.values[[0, -1]])


@pytest.mark.parametrize("window", [0, 2, -1])
def test_a_window_that_is_not_odd_is_refused(window):
    with pytest.raises(ValueError, match="window is an odd number of points"):
        smooth(curve([1.0, 2.0]), window)


def test_a_band_is_mean_and_sample_deviation_at_the_steps_in_common():
    runs = [
        curve([1.0, 2.0, 3.0, 4.0], steps=[10, 20, 30, 40]),
        curve([4.0, 9.0, 8.0], steps=[20, 30, 50]),
        curve([0.0, 3.0, 6.0, 5.0], steps=[5, 20, 30, 40]),
    ]
    of_three = band(runs)
    assert of_three.steps.tolist() == [20, 30]
    np.testing.assert_allclose(of_three.mean, [3.0, 6.0])
    np.testing.assert_allclose(of_three.deviation, [1.0, 3.0])


def test_a_band_of_one_run_has_no_deviation():
    of_one = band([curve([1.0, 5.0])])
    assert of_one.mean.tolist() == [1.0, 5.0]
    assert of_one.deviation.tolist() == [0.0, 0.0]


def test_a_band_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one curve"):
        band([])


def test_mean_and_deviation_over_seeds():
    assert mean_deviation([2.0, 4.0, 9.0]) == (5.0, pytest.approx(13**0.5))
    assert mean_deviation([7.5]) == (7.5, 0.0)
    assert mean_deviation(np.array([1, 3])) == (2.0, pytest.approx(2**0.5))


def test_a_band_of_runs_is_of_those_that_have_the_quantity():
    with_it = [
        [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 4.0}],
        [{"step": 1, "loss": 4.0}, {"step": 2, "loss": 6.0}],
    ]
    without = [{"step": 1, "lr": 0.1}]
    found = of_runs([*with_it, without], "loss")
    assert (found.steps.tolist(), found.mean.tolist()) == ([1, 2], [3.0, 5.0])
    assert len(of_runs([without], "loss").steps) == 0
