import numpy as np
import pytest
import torch

from hda.errors import UserError
from hda.losses import termination


def expected(h: np.ndarray, norm: str = "l1", over_classes: str = "mean") -> float:
    rows = [sum(abs(value) if norm == "l1" else value**2 for value in row) for row in h]
    size = sum(rows) / len(rows)
    return size / h.shape[1] if over_classes == "mean" else size


@pytest.mark.parametrize("over_classes", ["mean", "sum"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_it_is_the_size_of_the_heuristics(norm, over_classes, numeric_gradient):
    h = np.random.default_rng(0).normal(size=(6, 5))
    x = torch.from_numpy(h).requires_grad_()
    loss = termination(x, norm, over_classes)
    loss.backward()
    assert loss.item() == pytest.approx(expected(h, norm, over_classes), rel=1e-12)
    numeric = numeric_gradient(lambda values: expected(values, norm, over_classes), h)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-9)


def test_it_is_the_published_codes_unless_said():
    h = np.random.default_rng(1).normal(size=(6, 5))
    assert termination(torch.from_numpy(h)).item() == pytest.approx(expected(h, "l1", "mean"), rel=1e-12)


def test_the_sum_is_as_many_times_the_mean_as_there_are_classes():
    h = torch.randn(3, 65, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for norm in ("l1", "l2"):
        torch.testing.assert_close(termination(h, norm, "sum"), 65 * termination(h, norm, "mean"))


def test_a_misspelt_word_is_refused_and_not_taken_for_another():
    with pytest.raises(UserError, match=r"unknown norm 'L1': did you mean 'l1'\? \(known: l1, l2\)"):
        termination(torch.ones(2, 3), "L1")
    with pytest.raises(UserError, match="unknown over_classes 'rows'"):
        termination(torch.ones(2, 3), over_classes="rows")
