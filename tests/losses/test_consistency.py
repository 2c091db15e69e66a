import numpy as np
import pytest
import torch

from hda.losses import consistency


def probabilities(logits: np.ndarray) -> np.ndarray:
    p = np.exp(logits)
    return p / p.sum(axis=1, keepdims=True)


def expected(student: np.ndarray, teacher: np.ndarray, threshold: float) -> float:
    """Rows of which the teacher is not sure count as zero, not as absent."""
    p, q = probabilities(student), probabilities(teacher)
    each = [((p[row] - q[row]) ** 2).mean() if q[row].max() > threshold else 0.0 for row in range(len(p))]
    return sum(each) / len(each)


def logits() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.normal(size=(6, 4)), 3 * random.normal(size=(6, 4))


@pytest.mark.parametrize("threshold", [0.0, 0.9, 0.97, 1.0])
def test_it_is_the_mean_squared_difference_over_sure_rows(threshold):
    student, teacher = logits()
    got = consistency(torch.from_numpy(student), torch.from_numpy(teacher), threshold).item()
    assert got == pytest.approx(expected(student, teacher, threshold), rel=1e-12)


def test_the_thresholds_tried_tell_the_rows_apart():
    surest = np.sort(probabilities(logits()[1]).max(axis=1))
    assert (surest > 0.9).sum() > (surest > 0.97).sum() > 0
    assert (surest < 0.9).any()


def test_the_gradient_goes_to_the_student_alone(numeric_gradient):
    student, teacher = logits()
    x, y = torch.from_numpy(student).requires_grad_(), torch.from_numpy(teacher).requires_grad_()
    consistency(x, y, 0.9).backward()
    assert y.grad is None
    numeric = numeric_gradient(lambda values: expected(values, teacher, 0.9), student)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-10)
    unsure = probabilities(teacher).max(axis=1) <= 0.9
    assert (x.grad.numpy()[unsure] == 0).all()
    assert (x.grad.numpy()[~unsure] != 0).any()
