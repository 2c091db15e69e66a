import numpy as np
import pytest
import torch

from hda.losses import spectral_penalty


def by_svd(x: np.ndarray, count: int) -> tuple[float, np.ndarray]:
    """The penalty and its gradient, 2 sum of sigma u v^T."""
    u, s, v = np.linalg.svd(x, full_matrices=False)
    k = min(count, len(s))
    return (s[:k] ** 2).sum(), 2 * (u[:, :k] * s[:k]) @ v[:k]


@pytest.mark.parametrize(("rows", "width"), [(36, 64), (36, 8), (5, 256), (1, 4)])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_it_is_the_sum_of_squares_of_the_largest_singular_values(rows, width, count, mean):
    x = mean + np.random.default_rng(rows).normal(size=(rows, width))
    given = torch.from_numpy(x).float().requires_grad_()
    got = spectral_penalty(given, count)
    got.backward()
    value, gradient = by_svd(x, count)
    assert got.item() == pytest.approx(value, rel=1e-4)
    np.testing.assert_allclose(given.grad.numpy(), gradient, atol=0.02 * np.abs(gradient).max())


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_it_is_as_exact_for_small_and_large_features(scale):
    x = scale * np.random.default_rng(0).uniform(size=(8, 5))
    got = spectral_penalty(torch.from_numpy(x).float())
    assert got.item() == pytest.approx(by_svd(x, 1)[0], rel=1e-5)


def test_equal_singular_values_and_more_than_there_are_leave_it_finite():
    for x, count, value in ((torch.eye(5), 2, 2.0), (torch.zeros(4, 3), 2, 0.0), (torch.ones(3, 4), 3, 12.0)):
        given = x.clone().requires_grad_()
        got = spectral_penalty(given, count)
        got.backward()
        assert got.item() == pytest.approx(value, abs=1e-4)
        assert torch.isfinite(given.grad).all()
    # rank two, three asked for: what is left after two is rounding
    thin = torch.from_numpy(np.random.default_rng(3).normal(size=(8, 2))).float()
    assert spectral_penalty(thin, 5).item() == pytest.approx(thin.square().sum().item(), rel=1e-4)


def test_following_it_lowers_the_largest_singular_value_beside_the_others():
    x = torch.from_numpy(np.random.default_rng(5).normal(size=(12, 6)) + 2.0).requires_grad_()

    def ratio() -> float:
        s = np.linalg.svd(x.detach().numpy(), compute_uv=False)
        return s[0] / s[1]

    before = ratio()
    for _ in range(10):
        (gradient,) = torch.autograd.grad(spectral_penalty(x), x)
        x = (x - 0.02 * gradient).detach().requires_grad_()
    assert ratio() < 0.8 * before
