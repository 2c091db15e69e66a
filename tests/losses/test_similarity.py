import numpy as np
import pytest
import torch

from hda.losses import similarity


def expected(g: np.ndarray, h: np.ndarray) -> float:
    return np.mean([abs(a @ b) / np.sqrt((a @ a) * (b @ b)) for a, b in zip(g, h, strict=True)])


def test_it_is_the_mean_absolute_cosine_of_the_rows(numeric_gradient):
    g, h = np.random.default_rng(0).normal(size=(2, 6, 5))
    assert {np.sign(a @ b) for a, b in zip(g, h, strict=True)} == {-1.0, 1.0}
    x, y = torch.from_numpy(g).requires_grad_(), torch.from_numpy(h).requires_grad_()
    loss = similarity(x, y)
    loss.backward()
    assert loss.item() == pytest.approx(expected(g, h), rel=1e-10)
    by_g = numeric_gradient(lambda values: expected(values, h), g)
    by_h = numeric_gradient(lambda values: expected(g, values), h)
    np.testing.assert_allclose(x.grad.numpy(), by_g, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), by_h, rtol=1e-5, atol=1e-9)


def test_it_is_one_where_one_is_the_other_negated_and_zero_where_they_are_at_right_angles():
    h = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    assert similarity(-3 * h, h).item() == pytest.approx(1.0)
    assert similarity(torch.eye(4), torch.eye(4).roll(1, 0)).item() == 0.0


def test_without_any_heuristic_it_is_zero_and_its_gradient_finite():
    g, h = torch.randn(3, 4, requires_grad=True), torch.zeros(3, 4, requires_grad=True)
    value = similarity(g, h)
    value.backward()
    assert value.item() == 0.0
    assert torch.isfinite(g.grad).all()
    assert torch.isfinite(h.grad).all()
