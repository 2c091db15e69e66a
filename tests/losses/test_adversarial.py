import numpy as np
import pytest
import torch

from hda.losses import domain_classification

ROWS = 7


def weighted(logits: np.ndarray, domains: np.ndarray, weights: np.ndarray) -> float:
    """Weighted sum of minus the logarithm of the probability given to each row's own domain."""
    total = 0.0
    for row, domain, weight in zip(logits, domains, weights, strict=True):
        if len(row) == 1:
            first = 1 / (1 + np.exp(-row[0]))
            p = first if domain == 1 else 1 - first
        else:
            p = np.exp(row[domain]) / np.exp(row).sum()
        total -= weight * np.log(p)
    return total


def problem(outputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(outputs)
    domains = np.arange(ROWS) % max(2, outputs)
    return 2 * random.normal(size=(ROWS, outputs)), domains, random.uniform(0.1, 1.0, size=ROWS)


@pytest.mark.parametrize("outputs", [1, 3, 4])
def test_it_is_the_weighted_sum_of_each_rows_cross_entropy(outputs):
    logits, domains, weights = problem(outputs)
    got = domain_classification(*(torch.from_numpy(x) for x in (logits, domains, weights)))
    assert got.shape == ()
    assert got.item() == pytest.approx(weighted(logits, domains, weights), rel=1e-12)


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradients_flow_into_logits_and_weights(outputs, numeric_gradient):
    logits, domains, weights = problem(outputs)
    x, w = torch.from_numpy(logits).requires_grad_(), torch.from_numpy(weights).requires_grad_()
    domain_classification(x, torch.from_numpy(domains), w).backward()
    by_logits = numeric_gradient(lambda values: weighted(values, domains, weights), logits)
    by_weights = numeric_gradient(lambda values: weighted(logits, domains, values), weights)
    np.testing.assert_allclose(x.grad.numpy(), by_logits, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(w.grad.numpy(), by_weights, rtol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_extreme_logits_stay_finite_and_keep_their_gradient(sign):
    logits = torch.full((2, 1), 200.0 * sign, requires_grad=True)  # a sigmoid in float32 is 0 or 1 here
    loss = domain_classification(logits, torch.tensor([0, 1]), torch.ones(2))
    loss.backward()
    assert loss.item() == pytest.approx(200.0)
    assert logits.grad[:, 0].tolist() == pytest.approx([1.0, 0.0] if sign > 0 else [0.0, -1.0])
