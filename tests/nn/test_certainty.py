import numpy as np
import pytest
import torch
from torch.nn import functional as F

from hda.nn import BayesianDiscriminator, Doubt, certainty_attention


def make(dropout: float = 0.5) -> BayesianDiscriminator:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return BayesianDiscriminator(6, width=16, dropout=dropout).double()


@pytest.fixture
def features():
    return torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def entropy_or_variance(net: BayesianDiscriminator, x: torch.Tensor, masks, kind: str) -> torch.Tensor:
    """The uncertainty through autograd, layer by layer, with those dropout masks."""
    probabilities, variances = [], []
    for first, second in masks:
        hidden = net.second(net.first(x).relu() * first).relu() * second
        probabilities.append(net.logits(hidden).softmax(dim=1))
        variances.append(F.softplus(net.scale(hidden))[:, 0])
    mean = torch.stack(probabilities).mean(dim=0)
    return torch.stack(variances).mean(dim=0) if kind == "aleatoric" else -(mean * mean.log()).sum(dim=1)


@pytest.mark.parametrize("kind", ["predictive", "aleatoric"])
@pytest.mark.parametrize("samples", [1, 3])
def test_the_gradient_by_hand_is_autograds(kind, samples, features, monkeypatch):
    net, drawn = make().train(), []
    real = F.dropout

    def dropout(x, p, training):
        drawn.append(real(torch.ones_like(x), p, training))
        return x * drawn[-1]

    monkeypatch.setattr(F, "dropout", dropout)
    with torch.inference_mode():
        doubt = net.doubt(features, samples, kind)
    first, second = (mask.clone() for mask in drawn)
    assert (first == 0).any()
    x = features.clone().requires_grad_()
    expected = entropy_or_variance(net, x, list(zip(first, second, strict=True)), kind)
    expected.sum().backward()
    np.testing.assert_allclose(doubt.uncertainty.numpy(), expected.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(doubt.gradient.numpy(), x.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_without_dropout_every_sample_is_the_same_and_with_it_none(features):
    net = make()
    one, many = net.eval().doubt(features), net.doubt(features, samples=7)
    torch.testing.assert_close(one, many)
    net.train()
    assert not torch.equal(net.doubt(features).uncertainty, net.doubt(features).uncertainty)


def test_a_sure_discriminator_leaves_the_gradient_finite(features):
    net = make().eval()
    with torch.no_grad():
        net.logits.bias.copy_(torch.tensor([2000.0, 0.0]))
    doubt = net.doubt(features)
    assert torch.isfinite(doubt.gradient).all()
    assert doubt.uncertainty.abs().max() == 0


def test_the_attention_is_of_the_features_that_lower_the_uncertainty():
    features = torch.tensor([[1.0, 2.0, -1.0, 1.0], [1.0, 1.0, 1.0, 1.0]], requires_grad=True)
    gradient = torch.tensor([[-1.0, 1.0, 2.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    got = certainty_attention(features, Doubt(torch.tensor([0.25, 0.5]), gradient))
    part = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()  # of scores 1, -2, 2, 0 the positive ones
    expected = [[1 + 0.75 * part[0], 1.0, 1 + 0.75 * part[1], 1.0], [1.125] * 4]
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)
    assert not got.requires_grad
    unsure = certainty_attention(features, Doubt(torch.tensor([1.5, 1.0]), gradient))
    assert unsure.tolist() == [[1.0] * 4] * 2
