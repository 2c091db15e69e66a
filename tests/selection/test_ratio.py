import numpy as np
import pytest

from hda.selection import Labelled, Seen, Unlabelled, ratio
from hda.selection.base import standardised


def gaussian(shift: float, source: int = 600, target: int = 400, held: int = 50) -> Seen:
    """One feature: N(0, 1) in the source, N(shift, 1) in the target."""
    random = np.random.default_rng(0)
    parts = [random.normal(m, 1, (n, 1)) for m, n in ((0, source), (shift, target), (0, held))]
    label = [np.zeros(len(part), dtype=np.int64) for part in parts]
    both = [np.zeros((len(part), 2)) for part in parts]
    return Seen(
        Unlabelled(parts[1], both[1]), Labelled(parts[0], both[0], label[0]), Labelled(parts[2], both[2], label[2])
    )


def test_weights_are_the_ratio_of_two_densities_that_are_known():
    seen = gaussian(1.0)
    x = seen.held_out.features[:, 0]
    found = ratio.weights(seen, seen.held_out, seen.source)
    np.testing.assert_allclose(np.log(found), x - 0.5, atol=0.3)  # log N(x; 1, 1) - log N(x; 0, 1)


def test_domains_alike_have_weights_of_one_whatever_their_sizes():
    seen = gaussian(0.0, source=300, target=900)
    np.testing.assert_allclose(ratio.weights(seen, seen.held_out, seen.source), 1, atol=0.35)


def test_weights_are_those_of_a_logistic_regression_by_newton_s_method(make_seen, monkeypatch):
    monkeypatch.setattr(ratio, "STRENGTHS", (0.1,))
    seen = make_seen()
    both = np.concatenate([seen.source.features, seen.target.features])
    rows = np.c_[standardised(both, both), np.ones(len(both))]
    y = np.repeat([0.0, 1.0], [len(seen.source), len(seen.target)])
    penalty = np.diag([10.0] * 6 + [0.0])  # 1 / C, not on the intercept
    beta = np.zeros(7)
    for _ in range(50):
        p = 1 / (1 + np.exp(-rows @ beta))
        hessian = rows.T @ (rows * (p * (1 - p))[:, None]) + penalty
        beta -= np.linalg.solve(hessian, rows.T @ (p - y) + penalty @ beta)
    odds = np.c_[standardised(seen.held_out.features, both), np.ones(30)] @ beta
    expected = np.exp(odds) * len(seen.source) / len(seen.target)
    np.testing.assert_allclose(ratio.weights(seen, seen.held_out, seen.source), expected, rtol=0.01)


def test_losses_are_cross_entropies(make_seen, softmax):
    held = make_seen().held_out
    expected = [-np.log(row[label]) for row, label in zip(softmax(held.logits), held.labels, strict=True)]
    assert ratio.losses(held) == pytest.approx(expected, rel=1e-5)
