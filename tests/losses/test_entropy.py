import numpy as np
import pytest
import torch

from hda.losses import entropy, entropy_weights

GROUPS = {
    "uda": (slice(0, 3), slice(3, 8)),
    "ssda": (slice(0, 4), slice(4, 6), slice(6, 8)),
    "one": (slice(0, 8),),
}


def of_rows(logits: np.ndarray, inside: float = 1e-5) -> np.ndarray:
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    return -(p * np.log(p + inside)).sum(axis=1)


def test_it_is_the_entropy_of_each_row(numeric_gradient):
    logits = 2 * np.random.default_rng(0).normal(size=(8, 5))
    x = torch.from_numpy(logits).requires_grad_()
    got = entropy(x)
    np.testing.assert_allclose(got.detach().numpy(), of_rows(logits), rtol=1e-12)
    got.sum().backward()
    numeric = numeric_gradient(lambda values: of_rows(values).sum(), logits)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-8)


def test_what_is_added_inside_the_logarithm():
    logits = np.random.default_rng(1).normal(size=(4, 3))
    np.testing.assert_allclose(entropy(torch.from_numpy(logits), 0.2).numpy(), of_rows(logits, 0.2), rtol=1e-12)
    published = -np.log(1 / 65 + 1e-5)
    assert entropy(torch.zeros(1, 65, dtype=torch.float64)).item() == pytest.approx(published, rel=1e-12)


def test_a_sure_row_has_an_entropy_of_about_zero_and_a_finite_gradient():
    x = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    value = entropy(x)
    value.sum().backward()
    assert value.item() == pytest.approx(0.0, abs=2e-5)
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_the_weights_of_each_group_sum_to_one(groups):
    entropies = np.random.default_rng(2).uniform(0, 3, size=8)
    got = entropy_weights(torch.from_numpy(entropies), groups).numpy()
    expected = np.exp(-entropies)
    for group in groups:
        assert got[group].sum() == pytest.approx(1.0, rel=1e-12)
        np.testing.assert_allclose(got[group], expected[group] / expected[group].sum(), rtol=1e-12)


def test_the_normaliser_carries_no_gradient():
    entropies = np.random.default_rng(3).uniform(0, 3, size=8)
    slope = np.random.default_rng(4).normal(size=8)
    x = torch.from_numpy(entropies).requires_grad_()
    (entropy_weights(x, GROUPS["uda"]) * torch.from_numpy(slope)).sum().backward()
    weights = np.exp(-entropies)
    normaliser = np.array([weights[:3].sum()] * 3 + [weights[3:].sum()] * 5)
    np.testing.assert_allclose(x.grad.numpy(), -slope * weights / normaliser, rtol=1e-12)


def test_sure_rows_weigh_more_and_it_is_not_the_weighting_of_cdan():
    logits = torch.stack([torch.tensor([8.0, 0.0]), torch.zeros(2)])
    sure, unsure = entropy_weights(entropy(logits), (slice(0, 2),)).tolist()
    assert sure / unsure == pytest.approx(2.0, rel=0.01)  # exp(0) : exp(-log 2); CDAN+E would have 2 : 1.5
