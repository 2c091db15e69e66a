import numpy as np
import pytest
import torch

from hda.losses import feature_norm_step


def test_its_gradient_lets_every_norm_grow_by_the_same():
    values = np.random.default_rng(0).normal(size=(5, 3))
    x = torch.from_numpy(values).requires_grad_()
    loss = feature_norm_step(x, 0.5)
    loss.backward()
    assert loss.item() == pytest.approx(0.25)
    norms = np.sqrt((values**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(x.grad.numpy(), -2 * 0.5 / 5 * values / norms, rtol=1e-10)


def test_the_gradient_is_that_of_the_distance_from_a_goal_held(numeric_gradient):
    values = np.random.default_rng(1).normal(size=(4, 3))
    goal = np.linalg.norm(values, axis=1) + 1.0
    x = torch.from_numpy(values).requires_grad_()
    feature_norm_step(x).backward()
    numeric = numeric_gradient(lambda v: float(((np.linalg.norm(v, axis=1) - goal) ** 2).mean()), values)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-9)


def test_a_row_of_zeros_has_a_finite_gradient():
    x = torch.zeros(2, 3, requires_grad=True)
    feature_norm_step(x).backward()
    assert torch.isfinite(x.grad).all()
