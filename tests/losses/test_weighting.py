import numpy as np
import pytest
import torch

from hda.losses import shares

GROUPS = {"two": (slice(0, 3), slice(3, 8)), "three": (slice(0, 4), slice(4, 5), slice(5, 8))}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS.keys())
def test_every_group_has_an_equal_share_and_rows_share_it_by_their_values(groups):
    values = np.random.default_rng(0).uniform(0.1, 2.0, size=8)
    got = shares(torch.from_numpy(values), groups).numpy()
    for group in groups:
        np.testing.assert_allclose(got[group], values[group] / values[group].sum() / len(groups), rtol=1e-12)
    assert got.sum() == pytest.approx(1.0)


def test_with_equal_values_the_sum_is_the_mean_of_the_groups_means():
    x = np.random.default_rng(1).normal(size=8)
    weights = shares(torch.ones(8, dtype=torch.float64), GROUPS["two"]).numpy()
    assert (weights * x).sum() == pytest.approx((x[:3].mean() + x[3:].mean()) / 2)


def test_the_normaliser_carries_no_gradient():
    values = torch.rand(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    slope = torch.arange(8.0, dtype=torch.float64)
    (shares(values, GROUPS["two"]) * slope).sum().backward()
    sums = np.repeat([values[:3].sum().item(), values[3:].sum().item()], [3, 5])
    np.testing.assert_allclose(values.grad.numpy(), slope.numpy() / (2 * sums), rtol=1e-12)
