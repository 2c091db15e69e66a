import numpy as np
import pytest
import torch

from hda.losses import class_balance


def balance(logits: np.ndarray, inside: float = 1e-6) -> float:
    p = np.exp(logits)
    mean = (p / p.sum(axis=1, keepdims=True)).mean(axis=0)
    share = 1 / logits.shape[1]
    return sum(-share * np.log(m + inside) - (1 - share) * np.log(1 - m + inside) for m in mean)


def test_it_is_the_binary_cross_entropy_of_the_mean_prediction_with_the_uniform_one():
    logits = 2 * np.random.default_rng(0).normal(size=(6, 5))
    assert class_balance(torch.from_numpy(logits)).item() == pytest.approx(balance(logits), rel=1e-12)
    assert class_balance(torch.from_numpy(logits), inside=0.1).item() == pytest.approx(balance(logits, 0.1), rel=1e-12)


def test_gradient(numeric_gradient):
    logits = np.random.default_rng(1).normal(size=(3, 4))
    x = torch.from_numpy(logits).requires_grad_()
    class_balance(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(balance, logits), rtol=1e-6, atol=1e-9)


def test_sure_rows_of_every_class_are_balanced_and_of_one_class_are_not():
    every, one = 30 * torch.eye(4), 30 * torch.eye(4)[[0, 0, 0, 0]]
    uniform = class_balance(torch.zeros(4, 4))
    assert class_balance(every).item() == pytest.approx(uniform.item(), rel=1e-5)
    assert torch.isfinite(class_balance(one))
    assert class_balance(one) > uniform + 5
