import itertools

import numpy as np
import pytest
import torch

from hda.losses import moment_distance

FEATURES = np.random.default_rng(0).normal(size=(9, 4))


def expected(features: np.ndarray, domains: list[int], orders: int) -> float:
    parts = {one: features[[row for row, owner in enumerate(domains) if owner == one]] for one in sorted(set(domains))}
    sources = [one for one in parts if one]
    total = 0.0
    for k in range(1, orders + 1):
        means = {one: (rows**k).mean(axis=0) for one, rows in parts.items()}
        total += np.mean([np.linalg.norm(means[one] - means[0]) for one in sources])
        pairs = list(itertools.combinations(sources, 2))
        if pairs:
            total += np.mean([np.linalg.norm(means[one] - means[other]) for one, other in pairs])
    return float(total)


@pytest.mark.parametrize("orders", [1, 2, 3])
@pytest.mark.parametrize(
    "domains", [[1, 1, 1, 1, 0, 0, 0, 0, 0], [1, 3, 2, 2, 3, 1, 0, 0, 0], [4, 1, 1, 4, 4, 0, 0, 0, 0]]
)
def test_it_is_the_mean_distance_of_moments_to_the_target_and_between_sources(domains, orders, numeric_gradient):
    x = torch.from_numpy(FEATURES).requires_grad_()
    value = moment_distance(x, torch.tensor(domains), 5, orders)  # some of the five have no row
    value.backward()
    assert value.item() == pytest.approx(expected(FEATURES, domains, orders), rel=1e-6)
    numeric = numeric_gradient(lambda at: expected(at, domains, orders), FEATURES)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-5, atol=1e-7)


def test_domains_that_agree_have_no_distance_and_a_finite_gradient():
    x = torch.ones(4, 3, requires_grad=True)
    value = moment_distance(x, torch.tensor([1, 2, 0, 0]), 3)
    value.backward()
    assert value.item() == 0.0
    assert torch.isfinite(x.grad).all()
