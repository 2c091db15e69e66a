import numpy as np
import pytest
import torch

from hda.losses import density_divergence


def by_hand(source, target, of_source, of_target, tight=1.0) -> float:
    pairs = max(len(source), len(target))
    apart = sum(np.linalg.norm(source[i % len(source)] - target[i % len(target)]) for i in range(pairs)) / (2 * pairs)

    def within(x, classes) -> float:
        found = [
            np.linalg.norm(x[i] - x[j]) for i in range(len(x)) for j in range(i + 1, len(x)) if classes[i] == classes[j]
        ]
        return sum(found) / len(found) if found else 0.0

    return apart + tight * (within(source, of_source) + within(target, of_target))


def problem(rows: tuple[int, int], classes: int = 3):
    random = np.random.default_rng(sum(rows))
    source, target = (random.normal(size=(count, 4)) for count in rows)
    return source, target, *(random.integers(classes, size=count) for count in rows)


@pytest.mark.parametrize("rows", [(6, 6), (7, 3), (2, 5), (1, 1)])
@pytest.mark.parametrize("tight", [1.0, 0.3])
def test_it_is_the_distance_of_domains_and_that_within_classes(rows, tight, numeric_gradient):
    source, target, *classes = problem(rows)
    x = torch.from_numpy(source).requires_grad_()
    whose = [torch.from_numpy(one) for one in classes]
    got = density_divergence(x, torch.from_numpy(target), *whose, tight)
    assert got.item() == pytest.approx(by_hand(source, target, *classes, tight), rel=1e-12)
    got.backward()
    expected = numeric_gradient(lambda values: by_hand(values, target, *classes, tight), source)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_rows_that_coincide_and_classes_of_one_row_leave_the_gradient_finite():
    x = torch.ones(4, 3, requires_grad=True)
    loss = density_divergence(x, torch.ones(4, 3), torch.tensor([0, 0, 1, 2]), torch.arange(4))
    loss.backward()
    assert loss.item() == 0
    assert torch.isfinite(x.grad).all()


def test_following_it_brings_domains_together_and_classes_tight():
    source, target, of_source, of_target = (torch.from_numpy(one) for one in problem((8, 8)))
    x = (target + 5).requires_grad_()
    before = by_hand(source.numpy(), x.detach().numpy(), of_source.numpy(), of_target.numpy())
    for _ in range(40):
        (gradient,) = torch.autograd.grad(density_divergence(source, x, of_source, of_target), x)
        x = (x - 0.5 * gradient).detach().requires_grad_()
    after = by_hand(source.numpy(), x.detach().numpy(), of_source.numpy(), of_target.numpy())
    assert after < 0.8 * before
