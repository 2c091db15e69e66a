import math

import numpy as np
import pytest
import torch

from hda.nn import reversal_coefficient, reverse_gradient


@pytest.mark.parametrize("coefficient", [0.0, 0.3, 1.0, 2.5, torch.tensor(0.3), torch.tensor(0.7, dtype=torch.float64)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_forward_is_the_identity_and_backward_multiplies_by_minus_the_coefficient(coefficient, kind):
    x = torch.randn(4, 3, dtype=kind, generator=torch.Generator().manual_seed(0), requires_grad=True)
    slope = torch.randn(4, 3, dtype=kind, generator=torch.Generator().manual_seed(1))
    y = reverse_gradient(x, coefficient)
    assert torch.equal(y, x)
    assert y.dtype == kind
    y.backward(slope)
    np.testing.assert_allclose(x.grad.numpy(), -float(coefficient) * slope.numpy(), rtol=1e-6, atol=0)


def test_the_coefficient_itself_takes_no_gradient():
    coefficient = torch.tensor(0.5, requires_grad=True)
    x = torch.ones(3, requires_grad=True)
    reverse_gradient(x, coefficient).sum().backward()
    assert coefficient.grad is None
    assert x.grad.tolist() == [-0.5] * 3


def test_two_reversals_multiply():
    x = torch.ones(3, requires_grad=True)
    reverse_gradient(reverse_gradient(x, 0.5), 0.2).sum().backward()
    assert x.grad.tolist() == pytest.approx([0.1] * 3)


def test_what_comes_after_descends_and_what_comes_before_ascends():
    before, after = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    (after * reverse_gradient(before**2, 0.25)).backward()
    assert after.grad.item() == 4.0  # d(after * before^2) / d after
    assert before.grad.item() == -0.25 * 3.0 * 2 * 2.0


@pytest.mark.parametrize("horizon", [10_000.0, 600.0])
def test_the_schedule_is_the_papers_whatever_the_horizon(horizon):
    iterations = np.array([0, 1, 2, 17, 300, 599, 5_000, 6_001, 20_003], dtype=np.float64)
    expected = 2 / (1 + np.exp(-10 * iterations / horizon)) - 1
    got = reversal_coefficient(torch.from_numpy(iterations), horizon)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-16)


def test_the_horizon_is_ten_thousand_unless_said():
    half = reversal_coefficient(torch.tensor(1000.0)).item()
    assert half == pytest.approx(2 / (1 + math.exp(-1)) - 1, rel=1e-6)


def test_small_iterations_are_exact_in_float32_too():
    exact = math.tanh(5 * 3 / 10_000)  # 2 / (1 + exp(-2x)) - 1 = tanh(x); the subtraction would lose four digits
    assert reversal_coefficient(torch.tensor(3.0)).item() == pytest.approx(exact, rel=2e-7)
