import numpy as np
import pytest
import torch

from hda.losses import joint_mmd, mean_discrepancy, mmd, tensor_mmd


def kernel(x: np.ndarray, times=(0.25, 0.5, 1, 2, 4), bandwidth: float | None = None, around=None) -> np.ndarray:
    """Sum of Gaussians; `around` are the rows from whose distances the bandwidth comes, if not these."""
    d = np.array([[((a - b) ** 2).sum() for b in x] for a in x])
    if bandwidth is None:
        rows = x if around is None else around
        far = [((rows[i] - rows[j]) ** 2).sum() for i in range(len(rows)) for j in range(len(rows)) if i != j]
        bandwidth = np.mean(far)
    return sum(np.exp(-d / (bandwidth * t)) for t in times)


def discrepancy(k: np.ndarray, source: int) -> float:
    rows = range(len(k))
    of = {
        "ss": [k[i, j] for i in rows for j in rows if i < source and j < source and i != j],
        "tt": [k[i, j] for i in rows for j in rows if i >= source and j >= source and i != j],
        "st": [k[i, j] for i in rows for j in rows if i < source <= j],
    }
    return np.mean(of["ss"]) + np.mean(of["tt"]) - 2 * np.mean(of["st"])


def parts(seed: int, *widths: int) -> list[np.ndarray]:
    """Three rows of a source and five of a target, shifted, a layer each width."""
    random = np.random.default_rng(seed)
    return [random.normal(size=(8, width)) + np.repeat([0.0, 0.8], [3, 5])[:, None] for width in widths]


def split(x: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(x[:3]), torch.from_numpy(x[3:])


def test_of_two_rows_each_by_hand():
    k = torch.tensor([[9.0, 1.0, 0.5, 0.3], [1.0, 9.0, 0.2, 0.4], [0.5, 0.2, 9.0, 2.0], [0.3, 0.4, 2.0, 9.0]])
    assert mean_discrepancy(k, 2).item() == pytest.approx(1.0 + 2.0 - 2 * 0.35)


def test_mmd_is_the_unbiased_estimate_over_all_pairs(numeric_gradient):
    (x,) = parts(0, 4)
    source, target = (part.requires_grad_() for part in split(x))
    loss = mmd(source, target)
    assert loss.item() == pytest.approx(discrepancy(kernel(x), 3), rel=1e-10)
    loss.backward()
    numeric = numeric_gradient(lambda v: discrepancy(kernel(v, around=x), 3), x)  # the bandwidth held
    np.testing.assert_allclose(np.concatenate([source.grad, target.grad]), numeric, rtol=1e-5, atol=1e-9)


def test_joint_mmd_multiplies_the_kernels_of_the_layers(numeric_gradient):
    x, logits = parts(1, 4, 3)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)

    def expected(labels: np.ndarray) -> float:
        return discrepancy(kernel(x) * kernel(labels, times=(1,), bandwidth=1.68), 3)

    source, target = zip(split(x), split(p), strict=True)
    source[1].requires_grad_(), target[1].requires_grad_()
    loss = joint_mmd(source, target)
    assert loss.item() == pytest.approx(expected(p), rel=1e-10)
    loss.backward()
    got = np.concatenate([source[1].grad, target[1].grad])
    np.testing.assert_allclose(got, numeric_gradient(expected, p), rtol=1e-5, atol=1e-9)


def test_tensor_mmd_is_that_of_the_outer_products():
    x, y = parts(2, 4, 3)
    outer = np.stack([np.outer(a, b).ravel() for a, b in zip(x, y, strict=True)])
    source, target = zip(split(x), split(y), strict=True)
    assert tensor_mmd(source, target).item() == pytest.approx(discrepancy(kernel(outer), 3), rel=1e-9)


def test_it_tells_domains_apart_and_is_zero_on_average_where_there_is_one():
    draw = torch.Generator().manual_seed(0)
    same = [mmd(torch.randn(9, 3, generator=draw), torch.randn(7, 3, generator=draw)).item() for _ in range(200)]
    apart = mmd(torch.randn(9, 3, generator=draw), 2 + torch.randn(7, 3, generator=draw)).item()
    deviation = np.std(same) / np.sqrt(len(same))
    assert abs(np.mean(same)) < 4 * deviation < 0.1
    assert apart > 1


@pytest.mark.parametrize(("source", "target"), [(1, 1), (1, 4), (3, 1)])
def test_a_domain_of_one_row_has_nothing_within(source, target):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(source, 3, generator=draw, requires_grad=True)
    y = torch.randn(target, 3, generator=draw, requires_grad=True)
    px, py = x.softmax(dim=1), y.softmax(dim=1)
    for loss in (mmd(x, y), joint_mmd((x, px), (y, py)), tensor_mmd((x, px), (y, py))):
        gradients = torch.autograd.grad(loss, (x, y), retain_graph=True)
        assert torch.isfinite(loss)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
    if source == target == 1:
        times = torch.tensor([0.25, 0.5, 1, 2, 4])  # the mean distance is the one between the two
        assert mmd(x, y).item() == pytest.approx(-2 * torch.exp(-1 / times).sum().item(), rel=1e-5)
