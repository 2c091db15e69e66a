import numpy as np
import pytest
import torch

from hda.losses import classifier_discrepancy


def expected(first: np.ndarray, second: np.ndarray) -> float:
    p, q = np.exp(first), np.exp(second)
    return np.abs(p / p.sum(axis=1, keepdims=True) - q / q.sum(axis=1, keepdims=True)).mean()


def test_it_is_the_mean_absolute_difference_of_probabilities(numeric_gradient):
    first, second = 2 * np.random.default_rng(0).normal(size=(2, 5, 4))
    x, y = torch.from_numpy(first).requires_grad_(), torch.from_numpy(second).requires_grad_()
    loss = classifier_discrepancy(x, y)
    loss.backward()
    assert loss.item() == pytest.approx(expected(first, second), rel=1e-12)
    by_first = numeric_gradient(lambda values: expected(values, second), first)
    by_second = numeric_gradient(lambda values: expected(first, values), second)
    np.testing.assert_allclose(x.grad.numpy(), by_first, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(y.grad.numpy(), by_second, rtol=1e-6, atol=1e-10)


def test_its_ends():
    one = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert classifier_discrepancy(one, one + 3.0).item() == pytest.approx(0.0, abs=1e-7)  # softmax knows no shift
    opposite = classifier_discrepancy(100 * torch.eye(4), 100 * torch.eye(4).roll(1, 0))
    assert opposite.item() == pytest.approx(2 / 4)
