import numpy as np
import pytest
import torch

from hda.errors import UserError
from hda.losses import independence, kurtosis

OVER = ["classes", "data"]


def of_values(values: np.ndarray) -> float:
    """E[n^4] - 3 E[n^2]^2 of values standardised with the unbiased deviation."""
    n = (values - values.mean()) / values.std(ddof=1)
    return (n**4).mean() - 3 * (n**2).mean() ** 2


def of_all(x: np.ndarray, over: str) -> np.ndarray:
    return np.array([of_values(values) for values in (x if over == "classes" else x.T)])


def gap(g: np.ndarray, other: np.ndarray, over: str) -> float:
    return abs(np.abs(of_all(g, over)).mean() - np.abs(of_all(other, over)).mean())


@pytest.mark.parametrize("over", OVER)
def test_kurtosis_over_classes_is_a_value_a_row_and_over_data_a_value_a_class(over):
    x = np.random.default_rng(0).exponential(size=(7, 5))
    got = kurtosis(torch.from_numpy(x), over).numpy()
    assert got.shape == ((7,) if over == "classes" else (5,))
    np.testing.assert_allclose(got, of_all(x, over), rtol=1e-10)


def test_kurtosis_is_over_classes_unless_said():
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    assert torch.equal(kurtosis(x), kurtosis(x, "classes"))


def test_kurtosis_tells_gaussian_values_from_others():
    random = np.random.default_rng(0)
    values = np.stack([random.normal(size=200_000), random.uniform(size=200_000), random.laplace(size=200_000)])
    gaussian, flat, heavy = kurtosis(torch.from_numpy(values)).tolist()
    assert gaussian == pytest.approx(0.0, abs=0.05)
    assert flat == pytest.approx(-1.2, abs=0.05)
    assert heavy == pytest.approx(3.0, abs=0.3)


@pytest.mark.parametrize("over", OVER)
def test_kurtosis_knows_no_scale_and_no_shift(over):
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(kurtosis(30 * x - 7, over), kurtosis(x, over))


@pytest.mark.parametrize("over", OVER)
def test_a_constant_row_has_a_kurtosis_of_zero_and_a_finite_gradient(over):
    x = torch.full((4, 4), 2.5, requires_grad=True)
    value = kurtosis(x, over)
    value.sum().backward()
    assert value.tolist() == [0.0] * 4
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("over", OVER)
def test_independence_is_the_gap_of_mean_absolute_kurtosis(over, numeric_gradient):
    random = np.random.default_rng(1)
    g, other = random.normal(size=(6, 5)), random.exponential(size=(6, 5))
    x, y = torch.from_numpy(g).requires_grad_(), torch.from_numpy(other).requires_grad_()
    loss = independence(x, y, over)
    loss.backward()
    assert loss.item() == pytest.approx(gap(g, other, over), rel=1e-10)
    by_g = numeric_gradient(lambda values: gap(values, other, over), g)
    by_other = numeric_gradient(lambda values: gap(g, values, over), other)
    np.testing.assert_allclose(x.grad.numpy(), by_g, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(y.grad.numpy(), by_other, rtol=1e-5, atol=1e-8)


def test_independence_is_symmetric_and_zero_for_equals():
    g, other = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(2))
    assert independence(g, other) > 0
    assert torch.equal(independence(g, other), independence(other, g))
    assert independence(g, 2 * g).item() == pytest.approx(0.0, abs=1e-5)


def test_a_misspelt_word_is_refused_and_not_taken_for_another():
    with pytest.raises(UserError, match=r"unknown over 'class': did you mean 'classes'\?"):
        independence(torch.randn(4, 5), torch.randn(4, 5), "class")


@pytest.mark.parametrize("classes", [2, 3])
def test_of_three_classes_or_fewer_the_gap_over_classes_is_always_zero(classes):
    g, other = torch.randn(2, 6, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert gap(g.numpy(), other.numpy(), "classes") == pytest.approx(0, abs=1e-12)
    assert independence(g, other).item() == pytest.approx(0, abs=1e-12)
