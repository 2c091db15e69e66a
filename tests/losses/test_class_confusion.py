import numpy as np
import pytest
import torch

from hda.losses import class_confusion


def probabilities(logits: np.ndarray, temperature: float) -> np.ndarray:
    p = np.exp(logits / temperature)
    return p / p.sum(axis=1, keepdims=True)


def row_weights(p: np.ndarray) -> np.ndarray:
    weights = 1 + np.exp((p * np.log(p + 1e-5)).sum(axis=1))
    return len(p) * weights / weights.sum()


def expected(logits: np.ndarray, temperature: float, weights: np.ndarray | None = None) -> float:
    p = probabilities(logits, temperature)
    weights = row_weights(p) if weights is None else weights
    classes = range(p.shape[1])
    c = np.array(
        [[sum(w * row[i] * row[j] for w, row in zip(weights, p, strict=True)) for j in classes] for i in classes]
    )
    c = c / c.sum(axis=1, keepdims=True)
    return sum(c[i, j] for i in classes for j in classes if i != j) / p.shape[1]


@pytest.mark.parametrize("temperature", [2.5, 1.0])
def test_it_is_the_share_of_correlation_with_other_classes(temperature, numeric_gradient):
    logits = 2 * np.random.default_rng(0).normal(size=(6, 4))
    x = torch.from_numpy(logits).requires_grad_()
    loss = class_confusion(x, temperature)
    assert loss.item() == pytest.approx(expected(logits, temperature), rel=1e-10)
    loss.backward()
    held = row_weights(probabilities(logits, temperature))
    numeric = numeric_gradient(lambda v: expected(v, temperature, held), logits)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-10)


def test_certainty_is_no_confusion_and_indifference_all_there_can_be():
    assert class_confusion(100 * torch.eye(4)).item() == pytest.approx(0.0, abs=1e-6)
    assert class_confusion(torch.zeros(6, 4)).item() == pytest.approx(3 / 4)
    between_two = torch.tensor([[50.0, 50.0, 0.0, 0.0], [0.0, 0.0, 50.0, 50.0]])
    assert class_confusion(between_two).item() == pytest.approx(1 / 2, abs=1e-5)


def test_a_class_that_nothing_speaks_for_gives_no_nan():
    x = torch.zeros(3, 4)
    x[:, 0] = 1000.0
    loss = class_confusion(x.requires_grad_())
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()
