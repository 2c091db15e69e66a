import numpy as np
import torch

from hda.losses import domain_confusion

LOGITS = 3 * np.random.default_rng(0).normal(size=(4, 3))


def expected(logits: np.ndarray) -> np.ndarray:
    d = 1 / (1 + np.exp(-logits))
    return -(np.log(d) + np.log(1 - d)) / 2


def test_it_is_the_cross_entropy_with_a_half(numeric_gradient):
    x = torch.from_numpy(LOGITS).requires_grad_()
    value = domain_confusion(x)
    np.testing.assert_allclose(value.detach().numpy(), expected(LOGITS), rtol=1e-12)
    value.sum().backward()
    numeric = numeric_gradient(lambda at: expected(at).sum(), LOGITS)
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6, atol=1e-8)


def test_it_is_least_where_the_domain_cannot_be_told():
    x = torch.tensor([0.0, -500.0, 500.0], requires_grad=True)
    value = domain_confusion(x)
    value.sum().backward()
    np.testing.assert_allclose(value.detach().numpy(), [np.log(2), 250.0, 250.0], rtol=1e-6)
    assert x.grad.tolist() == [0.0, -0.5, 0.5]
