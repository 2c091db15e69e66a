import numpy as np
import pytest
import torch

from hda.losses import batch_nuclear_norm, nuclear_norm

SHAPES = [(36, 65), (36, 31), (4, 345), (5, 5), (1, 7), (7, 1)]


def probabilities(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_value_and_gradient_are_those_of_the_singular_value_decomposition(shape, scale):
    values = probabilities(scale * np.random.default_rng(0).normal(size=shape)) if shape[1] > 1 else np.ones(shape)
    u, s, v = np.linalg.svd(values, full_matrices=False)
    x = torch.from_numpy(values).requires_grad_()
    norm = nuclear_norm(x)
    norm.backward()
    assert norm.item() == pytest.approx(s.sum(), rel=1e-7)
    strong = s > 1e-4 * s[0]  # far below, the direction itself is no longer told from rounding
    np.testing.assert_allclose(u.T[strong] @ x.grad.numpy() @ v.T, np.eye(len(s))[strong], atol=1e-6)


def test_the_gradient_is_that_of_differences(numeric_gradient):
    values = np.random.default_rng(1).normal(size=(4, 6))
    x = torch.from_numpy(values).requires_grad_()
    nuclear_norm(x).backward()
    numeric = numeric_gradient(lambda v: np.linalg.svd(v, compute_uv=False).sum(), values)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-8)


def test_of_deficient_rank_the_gradient_is_zero_where_nothing_is():
    a, b = np.array([3.0, 4.0, 0.0]) / 5, np.array([1.0, 2.0, 2.0, 4.0]) / 5
    x = torch.from_numpy(2 * np.outer(a, b)).requires_grad_()
    norm = nuclear_norm(x)
    norm.backward()
    assert norm.item() == pytest.approx(2.0, rel=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), np.outer(a, b), atol=1e-6)
    nothing = torch.zeros(3, 4, requires_grad=True)
    nuclear_norm(nothing).backward()
    assert torch.equal(nothing.grad, torch.zeros(3, 4))


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_the_loss_is_minus_the_mean_singular_value(shape, numeric_gradient):
    logits = np.random.default_rng(2).normal(size=shape)

    def expected(values: np.ndarray) -> float:
        return -np.linalg.svd(probabilities(values), compute_uv=False).mean()

    x = torch.from_numpy(logits).requires_grad_()
    loss = batch_nuclear_norm(x)
    assert loss.item() == pytest.approx(expected(logits), rel=1e-9)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(expected, logits), rtol=1e-5, atol=1e-9)


def test_sure_and_diverse_beats_sure_and_beats_unsure():
    diverse, sure, unsure = 30 * torch.eye(4), 30 * torch.eye(4)[[0, 0, 0, 0]], torch.zeros(4, 4)
    values = [batch_nuclear_norm(logits).item() for logits in (diverse, sure, unsure)]
    assert values == pytest.approx([-1.0, -0.5, -0.25], rel=1e-6)  # 4, sqrt(4) and sqrt(4) / 2, over 4
