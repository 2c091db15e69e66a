import numpy as np
import pytest
import torch

from hda.losses import gaussian_kernels, squared_distances, squared_distances_of_products


def distances(x: np.ndarray) -> np.ndarray:
    return np.array([[((a - b) ** 2).sum() for b in x] for a in x])


def test_distances_are_those_of_all_pairs_of_rows(numeric_gradient):
    values, slope = np.random.default_rng(0).normal(size=(6, 4)), np.random.default_rng(1).normal(size=(6, 6))
    x = torch.from_numpy(values).requires_grad_()
    got = squared_distances(x)
    np.testing.assert_allclose(got.detach().numpy(), distances(values), rtol=1e-12, atol=1e-12)
    (got * torch.from_numpy(slope)).sum().backward()
    numeric = numeric_gradient(lambda v: float((distances(v) * slope).sum()), values)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-7)


def test_small_distances_far_from_the_origin_keep_their_digits():
    values = 1000 + np.random.default_rng(2).normal(size=(5, 8)).astype(np.float32)
    got = squared_distances(torch.from_numpy(values))
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), distances(values.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_distances_of_tensor_products_are_those_of_the_products_themselves(numeric_gradient):
    random = np.random.default_rng(3)
    a, b = random.normal(size=(5, 3)), random.normal(size=(5, 4))
    slope = random.normal(size=(5, 5))

    def expected(first: np.ndarray) -> np.ndarray:
        return distances(np.stack([np.outer(u, v).ravel() for u, v in zip(first, b, strict=True)]))

    x = torch.from_numpy(a).requires_grad_()
    got = squared_distances_of_products(x, torch.from_numpy(b))
    np.testing.assert_allclose(got.detach().numpy(), expected(a), rtol=1e-11, atol=1e-12)
    (got * torch.from_numpy(slope)).sum().backward()
    numeric = numeric_gradient(lambda v: float((expected(v) * slope).sum()), a)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("kernels", "factor", "times"),
    [(5, 2.0, (0.25, 0.5, 1, 2, 4)), (4, 3.0, (1 / 9, 1 / 3, 1, 3)), (1, 2.0, (1,))],
)
def test_kernels_lie_around_the_mean_distance_of_two_different_rows(kernels, factor, times):
    d = distances(np.random.default_rng(4).normal(size=(6, 3)))
    mean = np.mean([d[i, j] for i in range(6) for j in range(6) if i != j])
    expected = sum(np.exp(-d / (mean * factor_)) for factor_ in times)
    got = gaussian_kernels(torch.from_numpy(d), kernels, factor)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12)
    fixed = gaussian_kernels(torch.from_numpy(d), kernels, factor, bandwidth=0.7).numpy()
    np.testing.assert_allclose(fixed, sum(np.exp(-d / (0.7 * factor_)) for factor_ in times), rtol=1e-12)


def test_the_bandwidth_carries_no_gradient():
    d = torch.tensor([[0.0, 2.0], [2.0, 0.0]], dtype=torch.float64, requires_grad=True)
    gaussian_kernels(d, 1)[0, 1].backward()
    assert d.grad[0, 1].item() == pytest.approx(-np.exp(-1) / 2)  # through the bandwidth it would be zero


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_rows_that_are_all_alike_give_finite_kernels_and_gradients(rows):
    x = torch.full((rows, 3), 7.3, requires_grad=True)
    kernel = gaussian_kernels(squared_distances(x))
    kernel.sum().backward()
    torch.testing.assert_close(kernel, torch.full((rows, rows), 5.0))
    assert torch.isfinite(x.grad).all()
