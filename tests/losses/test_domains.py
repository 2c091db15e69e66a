import numpy as np
import pytest
import torch

from hda.losses import cross_entropy_by_domain, domain_means, domain_rows

DOMAINS = [2, 0, 2, 2, 0, 3]  # number 1 has no row
RANDOM = np.random.default_rng(0)


def test_rows_are_told_by_domain():
    expected = [[0, 1, 0, 0, 1, 0], [0] * 6, [1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]]
    assert domain_rows(torch.tensor(DOMAINS), 4).tolist() == expected


def test_means_are_of_each_domains_rows_and_zero_without_one():
    x = RANDOM.normal(size=(6, 3))
    found = domain_means(torch.from_numpy(x), domain_rows(torch.tensor(DOMAINS), 4))
    expected = [x[[1, 4]].mean(axis=0), np.zeros(3), x[[0, 2, 3]].mean(axis=0), x[5]]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-12)
    assert domain_means(torch.ones(6), domain_rows(torch.tensor(DOMAINS), 4)).tolist() == [1.0, 0.0, 1.0, 1.0]


def expected_cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    total = 0.0
    for domain in set(DOMAINS):
        rows = [row for row, owner in enumerate(DOMAINS) if owner == domain]
        p = np.exp(logits[rows, domain])
        p /= p.sum(axis=1, keepdims=True)
        total += -np.log(p[np.arange(len(rows)), labels[rows]]).mean()
    return float(total)


def test_each_domain_learns_by_its_own_classifier_and_counts_as_much_as_any_other(numeric_gradient):
    logits, labels = RANDOM.normal(size=(6, 4, 3)), np.array([0, 2, 1, 1, 0, 2])
    x = torch.from_numpy(logits).requires_grad_()
    value = cross_entropy_by_domain(x, torch.from_numpy(labels), torch.tensor(DOMAINS))
    value.backward()
    assert value.item() == pytest.approx(expected_cross_entropy(logits, labels), rel=1e-6)
    numeric = numeric_gradient(lambda at: expected_cross_entropy(at, labels), logits)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-5, atol=1e-7)
    assert not x.grad[:, 1].any()
