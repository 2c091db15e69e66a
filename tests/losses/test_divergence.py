import math

import numpy as np
import pytest
import torch

from hda.losses import jensen_shannon, symmetric_divergence

FIRST, SECOND = 2 * np.random.default_rng(0).normal(size=(2, 5, 4))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=1, keepdims=True)


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float((p * np.log(p / q)).sum(axis=1).mean())


def symmetric(first: np.ndarray, second: np.ndarray) -> float:
    p, q = softmax(first), softmax(second)
    return (kl(p, q) + kl(q, p)) / 2


def shannon(first: np.ndarray, second: np.ndarray) -> float:
    p, q = softmax(first), softmax(second)
    m = (p + q) / 2
    return (kl(p, m) + kl(q, m)) / 2


@pytest.mark.parametrize(("loss", "expected"), [(symmetric_divergence, symmetric), (jensen_shannon, shannon)])
def test_they_are_the_mean_divergence_of_the_rows_and_teach_both_sides(loss, expected, numeric_gradient):
    x, y = torch.from_numpy(FIRST).requires_grad_(), torch.from_numpy(SECOND).requires_grad_()
    value = loss(x, y)
    value.backward()
    assert value.item() == pytest.approx(expected(FIRST, SECOND), rel=1e-12)
    by_first = numeric_gradient(lambda first: expected(first, SECOND), FIRST)
    by_second = numeric_gradient(lambda second: expected(FIRST, second), SECOND)
    np.testing.assert_allclose(x.grad.numpy(), by_first, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), by_second, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "largest"), [(symmetric_divergence, 200.0), (jensen_shannon, math.log(2))])
def test_their_ends(loss, largest):
    x = torch.from_numpy(FIRST)
    assert loss(x, x + 3.0).item() == pytest.approx(0.0, abs=1e-12)
    sure = 200 * torch.eye(4)
    opposite = sure.roll(1, 0).requires_grad_()
    value = loss(sure, opposite)
    value.backward()
    assert value.item() == pytest.approx(largest, rel=1e-6)
    assert torch.isfinite(opposite.grad).all()
