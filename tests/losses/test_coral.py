import numpy as np
import pytest
import torch

from hda.losses import coral


def expected(source: np.ndarray, target: np.ndarray) -> float:
    apart = np.cov(source, rowvar=False) - np.cov(target, rowvar=False)
    return float(np.linalg.norm(apart, "fro") ** 2 / (4 * source.shape[1] ** 2))


def test_it_is_the_distance_of_the_covariances(numeric_gradient):
    random = np.random.default_rng(0)
    source, target = random.normal(size=(6, 4)), 2 * random.normal(size=(9, 4)) + 3
    x, y = torch.from_numpy(source).requires_grad_(), torch.from_numpy(target).requires_grad_()
    loss = coral(x, y)
    assert loss.item() == pytest.approx(expected(source, target), rel=1e-10)
    loss.backward()
    by_source = numeric_gradient(lambda v: expected(v, target), source)
    by_target = numeric_gradient(lambda v: expected(source, v), target)
    np.testing.assert_allclose(x.grad.numpy(), by_source, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), by_target, rtol=1e-6, atol=1e-9)


def test_means_do_not_matter():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert coral(x, x + 5).item() == pytest.approx(0.0, abs=1e-12)


def test_a_single_row_has_no_covariance():
    x, y = torch.randn(1, 4, requires_grad=True), torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).repeat(1, 2)
    loss = coral(x, y)
    loss.backward()
    assert loss.item() == pytest.approx(4 * 2.0**2 / (4 * 4**2))  # four entries of 2 in the target's covariance
    assert torch.equal(x.grad, torch.zeros_like(x))
