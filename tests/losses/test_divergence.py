import math

import numpy as np
import pytest
import torch

from hda.losses import jensen_shannon, sensitivity

FIRST, SECOND = 2 * np.random.default_rng(0).normal(size=(2, 5, 4))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=1, keepdims=True)


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float((p * np.log(p / q)).sum(axis=1).mean())


def sensitive(first: np.ndarray, second: np.ndarray, fixed: tuple[np.ndarray, np.ndarray]) -> float:
    """Of four classes; each side is compared with the other as `fixed` has it."""
    p, q = softmax(fixed[0]), softmax(fixed[1])
    return (kl(p, softmax(second)) + kl(q, softmax(first))) / (2 * 4)


def shannon(first: np.ndarray, second: np.ndarray) -> float:
    p, q = softmax(first), softmax(second)
    m = (p + q) / 2
    return (kl(p, m) + kl(q, m)) / 2


def test_sensitivity_is_a_symmetric_divergence_that_teaches_one_side_a_time(numeric_gradient):
    x, y = torch.from_numpy(FIRST).requires_grad_(), torch.from_numpy(SECOND).requires_grad_()
    value = sensitivity(x, y)
    value.backward()
    fixed = (FIRST, SECOND)
    assert value.item() == pytest.approx(sensitive(FIRST, SECOND, fixed), rel=1e-12)
    by_first = numeric_gradient(lambda first: sensitive(first, SECOND, fixed), FIRST)
    by_second = numeric_gradient(lambda second: sensitive(FIRST, second, fixed), SECOND)
    np.testing.assert_allclose(x.grad.numpy(), by_first, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), by_second, rtol=1e-6, atol=1e-9)


def test_jensen_shannon_is_the_mean_over_rows_and_teaches_both_sides(numeric_gradient):
    x, y = torch.from_numpy(FIRST).requires_grad_(), torch.from_numpy(SECOND).requires_grad_()
    value = jensen_shannon(x, y)
    value.backward()
    assert value.item() == pytest.approx(shannon(FIRST, SECOND), rel=1e-12)
    by_first = numeric_gradient(lambda first: shannon(first, SECOND), FIRST)
    by_second = numeric_gradient(lambda second: shannon(FIRST, second), SECOND)
    np.testing.assert_allclose(x.grad.numpy(), by_first, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(y.grad.numpy(), by_second, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("loss", "largest"), [(sensitivity, 200.0 / 4), (jensen_shannon, math.log(2))])
def test_their_ends(loss, largest):
    x = torch.from_numpy(FIRST)
    assert loss(x, x + 3.0).item() == pytest.approx(0.0, abs=1e-12)
    sure = 200 * torch.eye(4)
    opposite = sure.roll(1, 0).requires_grad_()
    value = loss(sure, opposite)
    value.backward()
    assert value.item() == pytest.approx(largest, rel=1e-6)
    assert opposite.grad.abs().max() <= 0.5  # of a row's logits, however far apart they are
