import numpy as np
import pytest

from hda.selection import ratio
from hda.selection.dev import DEV, risk


def test_the_risk_is_the_paper_s():
    random = np.random.default_rng(0)
    weights, losses = random.random(30) * 2, random.random(30)
    both = np.cov(weights * losses, weights)  # the factor of both moments cancels
    eta = -both[0, 1] / both[1, 1]
    expected = np.mean(weights * losses) + eta * np.mean(weights) - eta
    assert risk(weights, losses) == pytest.approx(expected)


def test_the_score_is_minus_the_risk_of_weights_and_losses(make_seen):
    seen = make_seen()
    weights = ratio.weights(seen, seen.held_out, seen.source)
    assert DEV().score(seen) == pytest.approx(-risk(weights, ratio.losses(seen.held_out)))


def test_weights_that_are_all_one_leave_the_mean_loss():
    assert risk(np.ones(4), np.array([1.0, 2, 3, 6])) == 3.0


def test_the_control_variate_lowers_the_variance():
    random = np.random.default_rng(0)

    def risks(n: int = 40) -> tuple[float, float]:
        x = random.normal(size=n)
        weights, losses = np.exp(x - 0.5), 1 + 0.1 * random.normal(size=n)
        return risk(weights, losses), float(np.mean(weights * losses))

    found = np.array([risks() for _ in range(300)])
    assert found[:, 0].std() < 0.5 * found[:, 1].std()
    assert found[:, 0].mean() == pytest.approx(1.0, abs=0.05)
