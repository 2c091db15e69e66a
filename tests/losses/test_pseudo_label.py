import numpy as np
import pytest
import torch

from hda.losses import pseudo_label

RANDOM = np.random.default_rng(0)
STRONG, WEAK = RANDOM.normal(size=(6, 4)), 3 * RANDOM.normal(size=(6, 4))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=1, keepdims=True)


def expected(strong: np.ndarray, weak: np.ndarray, threshold: float) -> float:
    teacher = softmax(weak)
    sure, labels = teacher.max(axis=1) >= threshold, teacher.argmax(axis=1)
    return float((sure * -np.log(softmax(strong)[np.arange(len(strong)), labels])).sum() / len(strong))


@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_it_is_the_cross_entropy_with_the_sure_rows_best_class_over_all_rows(threshold, numeric_gradient):
    counted = (softmax(WEAK).max(axis=1) >= threshold).sum()
    assert 0 < counted <= 6
    assert (counted < 6) == (threshold > 0)
    x, y = torch.from_numpy(STRONG).requires_grad_(), torch.from_numpy(WEAK).requires_grad_()
    value = pseudo_label(x, y, threshold)
    value.backward()
    assert value.item() == pytest.approx(expected(STRONG, WEAK, threshold), rel=1e-12)
    numeric = numeric_gradient(lambda at: expected(at, WEAK, threshold), STRONG)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-9)
    assert y.grad is None


def test_nothing_is_learnt_where_no_row_is_sure():
    x = torch.from_numpy(STRONG).requires_grad_()
    value = pseudo_label(x, torch.zeros(6, 4), 0.95)
    value.backward()
    assert value.item() == 0.0
    assert not x.grad.any()
