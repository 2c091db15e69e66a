import math

import numpy as np
import pytest
import torch
from torch import nn

from hda.nn import BottleneckHead, Heuristic, HeuristicHead, MLPHead, PlainHead

WIDTH, CLASSES = 1024, 65  # 66,560 values a layer: their deviation is known to 0.3 %


def deviation(slope: float, inputs: int) -> float:
    return math.sqrt(2 / ((1 + slope**2) * inputs))


def double(layer: nn.Linear) -> tuple[np.ndarray, np.ndarray]:
    return layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()


def features(rows: int, width: int) -> torch.Tensor:
    return torch.rand(rows, width, generator=torch.Generator().manual_seed(9))  # pooled features are not negative


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


# The heuristic head


@pytest.mark.parametrize("count", [1, 3, 5])
def test_heuristic_k_starts_gaussian_with_the_deviation_of_slope_k(count):
    head = HeuristicHead(WIDTH, CLASSES, heuristics=count)
    blocks = head.heuristics.weight.split(CLASSES)
    assert len(blocks) == count
    for k, block in enumerate(blocks):
        assert block.std().item() == pytest.approx(deviation(k, WIDTH), rel=0.012)
        assert abs(block.mean().item()) < 0.02 * deviation(k, WIDTH)
        within = (block.abs() < deviation(k, WIDTH)).float().mean().item()
        assert within == pytest.approx(0.6827, abs=0.01)
    assert head.heuristics.bias.abs().max() == 0


@pytest.mark.parametrize("slope", [100.0, 10.0, 0.0])
def test_the_fundament_starts_with_the_deviation_of_its_slope(slope):
    fundament = HeuristicHead(WIDTH, CLASSES, fundament_slope=slope).fundament
    assert fundament.weight.std().item() == pytest.approx(deviation(slope, WIDTH), rel=0.012)
    assert fundament.bias.abs().max() == 0


def test_three_heuristics_and_a_fundament_near_zero_are_the_default():
    head = HeuristicHead(WIDTH, CLASSES)
    assert head.count == 3
    assert head.fundament.weight.std().item() == pytest.approx(deviation(100, WIDTH), rel=0.012)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_at_the_start_g_is_minus_h_with_a_signed_cosine_of_minus_one(count):
    g, f, h = HeuristicHead(WIDTH, CLASSES, heuristics=count)(features(20, WIDTH))
    cosine = (g * h).sum(1) / (g.norm(dim=1) * h.norm(dim=1))
    np.testing.assert_allclose(cosine.detach().numpy(), -1.0, atol=1e-3)
    assert f.abs().max() < 0.05 * h.abs().max()


def test_without_the_initialisation_g_is_not_minus_h():
    g, f, h = HeuristicHead(WIDTH, CLASSES, heuristics=1, fundament_slope=0.0)(features(20, WIDTH))
    cosine = (g * h).sum(1) / (g.norm(dim=1) * h.norm(dim=1))
    # F and H are then equally wide and independent: cos(F - H, H) is -1 / sqrt(2) but for the chance of 65 classes
    assert cosine.mean().item() == pytest.approx(-math.sqrt(0.5), abs=0.15)
    assert f.std().item() == pytest.approx(h.std().item(), rel=0.25)


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_it_computes_f_minus_the_sum_of_the_heuristics(count):
    head = HeuristicHead(6, 4, heuristics=count)
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    x = features(7, 6)
    answers = head(x)
    assert isinstance(answers, Heuristic)

    rows = x.double().numpy()
    weight, bias = double(head.fundament)
    f = rows @ weight.T + bias
    parts = np.zeros((7, count, 4))
    for k in range(count):
        weight, bias = (part[4 * k : 4 * k + 4] for part in double(head.heuristics))
        parts[:, k] = rows @ weight.T + bias
    h = parts.sum(axis=1)
    for got, expected in ((answers.g, f - h), (answers.f, f), (answers.h, h), (head.parts(x), parts)):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_no_heuristics_leave_the_fundament_alone():
    head = HeuristicHead(6, 4, heuristics=0)
    assert {name for name, _ in head.named_parameters()} == {"fundament.weight", "fundament.bias"}
    g, f, h = head(features(5, 6))
    assert torch.equal(g, f)
    assert h.shape == (5, 4)
    assert h.abs().max() == 0


def test_g_sends_opposite_gradients_to_the_fundament_and_to_every_heuristic():
    head = HeuristicHead(6, 4, heuristics=3)
    slope = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    head(features(5, 6)).g.backward(slope)
    for block in head.heuristics.weight.grad.split(4):
        torch.testing.assert_close(block, -head.fundament.weight.grad)
    for block in head.heuristics.bias.grad.split(4):
        torch.testing.assert_close(block, -slope.sum(dim=0))
    torch.testing.assert_close(head.fundament.bias.grad, slope.sum(dim=0))


# The others


def test_a_plain_head_is_one_kaiming_linear_layer():
    head = PlainHead(WIDTH, CLASSES)
    assert {name for name, _ in head.named_parameters()} == {"linear.weight", "linear.bias"}
    assert head.linear.weight.std().item() == pytest.approx(deviation(0, WIDTH), rel=0.012)
    assert head.linear.bias.abs().max() == 0
    x = features(5, WIDTH)
    weight, bias = double(head.linear)
    np.testing.assert_allclose(head(x).detach().numpy(), x.double().numpy() @ weight.T + bias, rtol=1e-4, atol=1e-5)


def test_an_mlp_head_is_two_layers_with_a_relu_between():
    head = MLPHead(6, 4, hidden=8).eval()
    first, second = (layer for layer in head.modules() if isinstance(layer, nn.Linear))
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    x = features(5, 6)
    (w1, b1), (w2, b2) = double(first), double(second)
    expected = np.maximum(x.double().numpy() @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose(head(x).detach().numpy(), expected, rtol=1e-5, atol=1e-5)


def test_an_mlp_head_starts_kaiming_normal_with_zero_biases():
    for layer in (layer for layer in MLPHead(WIDTH, CLASSES).modules() if isinstance(layer, nn.Linear)):
        assert layer.weight.std().item() == pytest.approx(deviation(0, layer.in_features), rel=0.012)
        assert layer.bias.abs().max() == 0
    assert layer.in_features == 1000


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_an_mlp_head_drops_before_each_layer_while_training(share):
    head = MLPHead(400, 4, hidden=300, dropout=share)
    first, second = (layer for layer in head.modules() if isinstance(layer, nn.Linear))
    nn.init.constant_(first.bias, 1e3)  # keeps every ReLU open, so that a zero is dropped
    seen = []
    for layer in (first, second):
        layer.register_forward_pre_hook(lambda layer, given: seen.append(given[0].detach()))
    x = 1 + features(50, 400)
    head(x)
    for given in seen:
        assert (given == 0).float().mean().item() == pytest.approx(share, abs=0.02)
    kept = seen[0] != 0
    torch.testing.assert_close(seen[0][kept], (x / (1 - share))[kept])
    head.eval()
    assert torch.equal(head(x), head(x))
    assert torch.equal(seen[-2], x)


@pytest.mark.parametrize(
    ("start", "deviations", "bias"),
    [("gaussian", (0.005, 0.01), 0.1), ("xavier", (math.sqrt(2 / (WIDTH + 256)), math.sqrt(2 / (256 + CLASSES))), 0.0)],
)
def test_a_bottleneck_starts_as_in_the_published_code_of_dan_or_of_cdan(start, deviations, bias):
    head = BottleneckHead(WIDTH, CLASSES, start=start)
    for layer, expected in zip((head.narrow, head.classifier), deviations, strict=True):
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.025)
        assert abs(layer.weight.mean().item()) < 0.03 * expected
    assert (head.narrow.bias == bias).all()
    assert (head.classifier.bias == 0).all()


def test_small_gaussians_are_the_bottlenecks_default():
    torch.manual_seed(3)
    told = BottleneckHead(6, 4, start="gaussian")
    torch.manual_seed(3)
    assert torch.equal(BottleneckHead(6, 4).narrow.weight, told.narrow.weight)


def test_two_classifiers_of_small_gaussians_begin_by_saying_the_same():
    heads = [MLPHead(WIDTH, CLASSES, hidden=512, start="gaussian").eval() for _ in range(2)]
    for layer in (layer for head in heads for layer in head.modules() if isinstance(layer, nn.Linear)):
        assert layer.weight.std().item() == pytest.approx(0.01, rel=0.03)
        assert not layer.bias.any()
    x = features(20, WIDTH)
    first, second = (head(x).softmax(dim=1) for head in heads)
    assert (first - second).abs().max() < 0.2 / CLASSES
