import numpy as np
import pytest

from hda.analysis.domains import domain_accuracy, proxy_distance


def rows(count, shift=0.0, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)) + shift


def test_domains_far_apart_are_told_and_equal_ones_are_not():
    assert domain_accuracy(rows(60), rows(60, 9.0, 1)) == 100.0
    assert abs(domain_accuracy(rows(600), rows(600, 0.0, 1)) - 50.0) < 6.0


def test_a_small_domain_is_not_told_by_its_size():
    """Guessing the larger domain would be right for 10 rows out of 11."""
    assert abs(domain_accuracy(rows(1000), rows(100, 0.0, 1)) - 50.0) < 15.0


def test_it_is_measured_on_rows_that_were_not_trained_on():
    """Forty columns of noise tell forty rows apart perfectly where they are known, and not where they are not."""
    random = np.random.default_rng(0)
    assert domain_accuracy(random.normal(size=(40, 400)), random.normal(size=(40, 400))) < 75.0


def test_a_column_without_spread_does_no_harm():
    source, target = rows(20), rows(20, 9.0, 1)
    source[:, 0] = target[:, 0] = 5.0
    assert domain_accuracy(source, target) == 100.0


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="at least 8 rows of each, got 7"):
        domain_accuracy(rows(7), rows(100))


@pytest.mark.parametrize(("accuracy", "distance"), [(100.0, 2.0), (50.0, 0.0), (75.0, 1.0), (45.0, -0.2)])
def test_the_proxy_distance_by_hand(accuracy, distance):
    assert proxy_distance(accuracy) == pytest.approx(distance)
