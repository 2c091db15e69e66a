import numpy as np
import pytest
import torch

from hda.losses import entropy_of_halves, half_surprise

LOGITS = 2 * np.random.default_rng(0).normal(size=(5, 6))  # of two classifiers of three classes


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=1, keepdims=True)


def surprise(logits: np.ndarray, half: str) -> float:
    p = softmax(logits)
    return float(-np.log((p[:, :3] if half == "first" else p[:, 3:]).sum(axis=1)).mean())


def entropy(logits: np.ndarray) -> float:
    p = softmax(logits)
    p = p[:, :3] + p[:, 3:]
    return float(-(p * np.log(p)).sum(axis=1).mean())


@pytest.mark.parametrize("half", ["first", "second"])
def test_surprise_is_what_the_halfs_classes_lack_together(half, numeric_gradient):
    x = torch.from_numpy(LOGITS).requires_grad_()
    value = half_surprise(x, half)
    value.backward()
    assert value.item() == pytest.approx(surprise(LOGITS, half), rel=1e-12)
    numeric = numeric_gradient(lambda logits: surprise(logits, half), LOGITS)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-9)


def test_the_entropy_is_of_the_class_whoever_says_it(numeric_gradient):
    x = torch.from_numpy(LOGITS).requires_grad_()
    value = entropy_of_halves(x)
    value.backward()
    assert value.item() == pytest.approx(entropy(LOGITS), rel=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(entropy, LOGITS), rtol=1e-6, atol=1e-9)
    undecided = torch.tensor([[9.0, -50.0, -50.0, 9.0, -50.0, -50.0]])  # of the half, not of the class
    assert entropy_of_halves(undecided).item() == pytest.approx(0.0, abs=1e-6)


def test_they_are_finite_where_a_probability_is_zero():
    x = torch.tensor([[2000.0, -2000.0, 0.0, -2000.0]], requires_grad=True)
    total = half_surprise(x, "second") + entropy_of_halves(x)
    total.backward()
    assert total.item() == pytest.approx(2000.0)
    assert torch.isfinite(x.grad).all()
