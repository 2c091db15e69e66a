import numpy as np
import pytest
import torch

from hda.losses import attenuated_cross_entropy


def by_hand(logits, variance, labels, noise) -> float:
    total = 0.0
    for row, label in enumerate(labels):
        p = []
        for sample in noise[:, row]:
            e = np.exp(logits[row] + np.sqrt(variance[row] + 1e-8) * sample)
            p.append(e[label] / e.sum())
        total -= np.log(np.mean(p))
    return total / len(labels)


def test_it_is_minus_the_logarithm_of_the_mean_probability_under_noise(numeric_gradient):
    random = np.random.default_rng(0)
    logits, variance, labels = random.normal(size=(6, 4)), random.uniform(0.1, 2, size=6), random.integers(4, size=6)
    noise = random.normal(size=(9, 6, 4))
    x, v = torch.from_numpy(logits).requires_grad_(), torch.from_numpy(variance).requires_grad_()
    got = attenuated_cross_entropy(x, v, torch.from_numpy(labels), torch.from_numpy(noise))
    assert got.item() == pytest.approx(by_hand(logits, variance, labels, noise), rel=1e-10)
    got.backward()
    by_logits = numeric_gradient(lambda values: by_hand(values, variance, labels, noise), logits)
    by_variance = numeric_gradient(lambda values: by_hand(logits, values, labels, noise), variance)
    np.testing.assert_allclose(x.grad.numpy(), by_logits, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(v.grad.numpy(), by_variance, rtol=1e-5, atol=1e-8)


def test_variance_is_worth_having_where_the_logits_are_wrong_and_only_there():
    logits = torch.tensor([[6.0, 0.0, 0.0]])
    noise = torch.randn(2000, 1, 3, generator=torch.Generator().manual_seed(0))

    def loss(label: int, variance: float) -> float:
        return attenuated_cross_entropy(logits, torch.tensor([variance]), torch.tensor([label]), noise).item()

    assert loss(1, 9.0) < loss(1, 0.0)
    assert loss(0, 9.0) > loss(0, 0.0)


def test_no_variance_is_plain_cross_entropy_with_a_finite_gradient():
    logits, labels = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1])
    variance = torch.zeros(5, requires_grad=True)
    loss = attenuated_cross_entropy(logits, variance, labels, torch.randn(4, 5, 3))
    assert loss.item() == pytest.approx(torch.nn.functional.cross_entropy(logits, labels).item(), abs=1e-3)
    loss.backward()
    assert torch.isfinite(variance.grad).all()
