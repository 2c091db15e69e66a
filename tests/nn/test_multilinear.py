import numpy as np
import pytest
import torch

from hda.nn import MultilinearMap


def problem(rows: int = 5, features: int = 6, classes: int = 4):
    random = torch.Generator().manual_seed(0)
    x = torch.randn(rows, features, generator=random, dtype=torch.float64)
    return x, torch.rand(rows, classes, generator=random, dtype=torch.float64)


def test_it_is_every_feature_times_every_probability():
    x, p = problem()
    join = MultilinearMap(6, 4, limit=24)
    expected = np.stack([np.outer(b, a).ravel() for a, b in zip(x.numpy(), p.numpy(), strict=True)])
    assert (join.random, join.width) == (False, 24)
    np.testing.assert_allclose(join(x, p).numpy(), expected)


def test_a_wide_one_is_random_and_keeps_inner_products_in_the_mean():
    x, p = problem(rows=2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        join = MultilinearMap(6, 4, limit=23, width=200_000).double()
    full = MultilinearMap(6, 4)(x, p)
    assert (join.random, join.width) == (True, 200_000)
    one, other = join(x, p)
    expected = full @ full.T
    scale = expected.diagonal().mean().item()
    assert (one @ one).item() == pytest.approx(expected[0, 0].item(), abs=0.05 * scale)
    assert (one @ other).item() == pytest.approx(expected[0, 1].item(), abs=0.05 * scale)
    by_hand = (x.numpy() @ join.of_features.numpy()) * (p.numpy() @ join.of_classes.numpy()) / np.sqrt(200_000)
    np.testing.assert_allclose(join(x, p).numpy(), by_hand)


def test_its_matrices_are_fixed_and_saved():
    join = MultilinearMap(6, 4, limit=1, width=8)
    assert not list(join.parameters())
    assert set(join.state_dict()) == {"of_features", "of_classes"}
