import math

import numpy as np
import pytest
import torch
from torch import nn

from hda.nn import BridgedDiscriminator, DomainDiscriminator, kaiming_linear, xavier_linear


def linears(net: nn.Module) -> list[nn.Linear]:
    return [layer for layer in net.modules() if isinstance(layer, nn.Linear)]


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize(("domains", "outputs"), [(2, 1), (3, 3), (6, 6)])
def test_two_domains_share_one_output_and_more_have_one_each(domains, outputs):
    net = DomainDiscriminator(5, domains, width=8)
    assert net(torch.rand(4, 5)).shape == (4, outputs)


@pytest.mark.parametrize("domains", [2, 4])
def test_it_is_three_layers_with_a_relu_after_each_hidden_one(domains):
    net = DomainDiscriminator(5, domains, width=8).eval()
    for parameter in net.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    out = x.double().numpy()
    layers = linears(net)
    for layer in layers:
        out = out @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        if layer is not layers[-1]:
            out = np.maximum(out, 0)
    np.testing.assert_allclose(net(x).detach().numpy(), out, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "variance"),
    [
        ({}, lambda i, o: 2 / i),
        ({"linear": kaiming_linear}, lambda i, o: 2 / i),
        ({"linear": xavier_linear}, lambda i, o: 2 / (i + o)),
    ],
)
def test_hidden_layers_are_1024_wide_and_all_start_kaiming_normal_or_as_told_with_zero_biases(given, variance):
    layers = linears(DomainDiscriminator(65, 6, **given))
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(65, 1024), (1024, 1024), (1024, 6)]
    for layer in layers:
        # of n values the deviation is known to 1 / sqrt(2 n)
        known = 4 / math.sqrt(2 * layer.weight.numel())
        assert layer.weight.std().item() == pytest.approx(
            math.sqrt(variance(layer.in_features, layer.out_features)), rel=known
        )
        assert layer.bias.abs().max() == 0


@pytest.mark.parametrize("share", [None, 0.2])
def test_it_drops_after_each_hidden_layer_while_training_and_only_then(share):
    options = {} if share is None else {"dropout": share}
    net = DomainDiscriminator(40, 2, width=300, **options)
    first, second, last = linears(net)
    for layer, above in ((first, 1e3), (second, 1e6)):
        nn.init.constant_(layer.bias, above)  # keeps every ReLU open, so that a zero is dropped
    seen = {}
    for layer in (first, second, last):
        layer.register_forward_pre_hook(lambda layer, given: seen.__setitem__(layer, given[0].detach()))
    x = 1 + torch.rand(60, 40)
    net(x)
    assert torch.equal(seen[first], x)
    for layer in (second, last):
        assert (seen[layer] == 0).float().mean().item() == pytest.approx(0.5 if share is None else share, abs=0.02)
    net.eval()
    assert torch.equal(net(x), net(x))
    assert seen[second].min() > 0
    assert seen[last].min() > 0


@pytest.mark.parametrize(("domains", "outputs"), [(2, 1), (3, 3)])
def test_a_bridged_one_takes_its_bridge_away_over_the_same_hidden_layers(domains, outputs):
    net = BridgedDiscriminator(5, domains, width=8).eval()
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    out = net(x)
    hidden = x.numpy()
    for layer in linears(net.trunk):
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        hidden = np.maximum(hidden @ weight.T + bias, 0)
    last, bridge = (hidden @ layer.weight.detach().numpy().T for layer in (net.last, net.bridge))
    assert out.logits.shape == (7, outputs)
    np.testing.assert_allclose(out.bridge.detach().numpy(), bridge, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out.logits.detach().numpy(), last - bridge, rtol=1e-4, atol=1e-5)
