import numpy as np
import pytest
import torch
from torch import nn

from hda.alignments import conditional_adversarial as conditional
from hda.alignments.adversarial import DomainAdversary
from hda.alignments.conditional_adversarial import ConditionalAdversary
from hda.batch import Progress
from hda.nn import MultilinearMap
from hda.settings import build

SIDES = (slice(0, 3), slice(3, 8))
WIDTH, CLASSES, HIDDEN = 5, 4, 6


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def each_row(x: np.ndarray, discriminator: nn.Module) -> np.ndarray:
    """The cross-entropy of each row: source is 1, target 0."""
    *hidden, last = [
        tuple(p.detach().double().numpy() for p in layer.parameters())
        for layer in discriminator.modules()
        if isinstance(layer, nn.Linear)
    ]
    for weight, bias in hidden:
        x = np.maximum(x @ weight.T + bias, 0)
    z = (x @ last[0].T + last[1])[:, 0]
    signs = np.array([1] * 3 + [-1] * 5)
    return np.log(1 + np.exp(-signs * z))


def plain(x: np.ndarray, discriminator: nn.Module) -> float:
    each = each_row(x, discriminator)
    return (each[:3].mean() + each[3:].mean()) / 2


def joint(features: np.ndarray, logits: np.ndarray) -> np.ndarray:
    return np.stack([np.outer(p, x).ravel() for x, p in zip(features, softmax(logits), strict=True)])


def weighted(features, logits, sure, fixed, discriminator) -> float:
    """CDAN+E, the logits given for the map, for the weights and for the weights' normaliser."""

    def certainty(x: np.ndarray) -> np.ndarray:
        p = softmax(x)
        return 1 + np.exp((p * np.log(p + 1e-5)).sum(axis=1))

    each, weights, by = each_row(joint(features, logits), discriminator), certainty(sure), certainty(fixed)
    return sum((weights[side] * each[side]).sum() / (2 * by[side].sum()) for side in SIDES)


def problem(make):
    random = torch.Generator().manual_seed(0)
    align = make().double().eval()
    for parameter in align.parameters():
        nn.init.normal_(parameter, std=0.7, generator=random)
    features, logits = (torch.randn(8, n, dtype=torch.float64, generator=random) for n in (WIDTH, CLASSES))
    return align, features.requires_grad_(), logits.requires_grad_()


def test_it_is_the_mean_of_both_sides_and_reverses_the_features_gradient_alone(numeric_gradient):
    align, features, _ = problem(lambda: DomainAdversary(WIDTH, HIDDEN))
    loss = align(features, SIDES, 0.3)
    x = features.detach().numpy()
    assert loss.item() == pytest.approx(plain(x, align.discriminator), rel=1e-10)
    loss.backward()
    expected = -0.3 * numeric_gradient(lambda values: plain(values, align.discriminator), x)
    np.testing.assert_allclose(features.grad.numpy(), expected, rtol=1e-5, atol=1e-9)
    first = align.discriminator.layers[0].weight
    before, given = first.detach().clone(), first.grad

    def of_weight(values: np.ndarray) -> float:
        with torch.no_grad():
            first.copy_(torch.from_numpy(values))
        return plain(x, align.discriminator)

    np.testing.assert_allclose(given.numpy(), numeric_gradient(of_weight, before.numpy()), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("horizon", "expected"), [(10_000.0, 2500 / 10_000), ("auto", 2500 / 5000)])
def test_the_reversal_opens_over_10000_updates_or_over_the_run(horizon, expected):
    settings = build(DomainAdversary.Settings, {"reversal_horizon": horizon})
    align = DomainAdversary(WIDTH, horizon=settings.reversal_horizon)
    strength = align.strength(Progress(torch.tensor(2500.0), 5000))
    assert strength.item() == pytest.approx(2 / (1 + np.exp(-10 * expected)) - 1, rel=1e-6)


@pytest.mark.parametrize(
    "make", [lambda: DomainAdversary(300), lambda: ConditionalAdversary(MultilinearMap(75, CLASSES))]
)
def test_the_discriminator_starts_as_in_cdans_published_code(make):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        discriminator = make().discriminator
    for layer in (layer for layer in discriminator.modules() if isinstance(layer, nn.Linear)):
        inputs, outputs = layer.in_features, layer.out_features
        known = 4 / np.sqrt(2 * inputs * outputs)  # of n values the deviation is known to 1 / sqrt(2 n)
        assert layer.weight.std().item() == pytest.approx(np.sqrt(2 / (inputs + outputs)), rel=known)
        assert not layer.bias.any()


@pytest.mark.parametrize("conditioned", [False, True])
def test_the_conditional_adversary_and_its_gradients(conditioned, numeric_gradient, monkeypatch):
    asked = []

    def coefficient(iteration: torch.Tensor, horizon: float) -> torch.Tensor:
        asked.append((iteration.item(), horizon))
        return 0.3 if iteration == 8 else 0.2  # the discriminator's is an iteration ahead

    monkeypatch.setattr(conditional, "reversal_coefficient", coefficient)
    join = MultilinearMap(WIDTH, CLASSES)
    align, features, logits = problem(lambda: ConditionalAdversary(join, HIDDEN, horizon=70, conditioned=conditioned))
    loss = align(features, logits, SIDES, torch.tensor(7.0))
    x, g = features.detach().numpy(), logits.detach().numpy()
    value = weighted(x, g, g, g, align.discriminator) if conditioned else plain(joint(x, g), align.discriminator)
    assert loss.item() == pytest.approx(value, rel=1e-10)
    assert sorted(asked) == ([(7, 70), (8, 70)] if conditioned else [(8, 70)])
    loss.backward()
    if not conditioned:
        expected = -0.3 * numeric_gradient(lambda values: plain(joint(values, g), align.discriminator), x)
        np.testing.assert_allclose(features.grad.numpy(), expected, rtol=1e-5, atol=1e-9)
        assert logits.grad is None  # the map's probabilities carry none
        return
    by_features = -0.3 * numeric_gradient(lambda values: weighted(values, g, g, g, align.discriminator), x)
    by_weights = -0.2 * numeric_gradient(lambda values: weighted(x, g, values, g, align.discriminator), g)
    np.testing.assert_allclose(features.grad.numpy(), by_features, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(logits.grad.numpy(), by_weights, rtol=1e-5, atol=1e-9)


def shifted(seed: int = 0):
    """Two classes in two domains: the marginals have one mean, the classes' means lie apart by two."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(64) % 2
    signs = 1.0 - 2.0 * labels
    source = torch.stack([signs, torch.zeros(64)], dim=1) + 0.3 * torch.randn(64, 2, generator=random)
    target = torch.stack([signs, 2.0 * signs], dim=1) + 0.3 * torch.randn(64, 2, generator=random)
    return source, target, torch.cat([labels, labels])


def test_it_brings_two_shifted_domains_together():
    random = torch.Generator().manual_seed(0)
    source, target = (
        torch.randn(64, 2, generator=random),
        torch.randn(64, 2, generator=random) + torch.tensor([2.0, 0.0]),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        align = DomainAdversary(2, hidden=16, dropout=0.0)
    shift = nn.Parameter(torch.zeros(2))
    optimiser = torch.optim.SGD([*align.parameters(), shift], lr=0.1, weight_decay=0.01)
    for _ in range(150):
        features = torch.cat([source, target + shift])
        optimiser.zero_grad()
        align(features, (slice(0, 64), slice(64, 128)), 1.0).backward()
        optimiser.step()
    gap = (target + shift - source).mean(dim=0).norm().item()
    assert gap < 0.7


def test_the_conditional_one_brings_classes_together_whose_marginals_have_one_mean():
    source, target, labels = shifted()
    logits = 6.0 * nn.functional.one_hot(labels, 2).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        align = ConditionalAdversary(MultilinearMap(2, 2), hidden=16, dropout=0.0, horizon=1.0)
    by_class = nn.Parameter(torch.zeros(2, 2))
    groups = [{"params": align.parameters(), "weight_decay": 0.1}, {"params": [by_class]}]
    optimiser = torch.optim.SGD(groups, lr=0.1)
    for _ in range(300):
        features = torch.cat([source, target + by_class[labels[64:]]])
        optimiser.zero_grad()
        align(features, logits, (slice(0, 64), slice(64, 128)), torch.tensor(1.0)).backward()
        optimiser.step()
    for number in range(2):
        of_class = labels[:64] == number
        gap = (target + by_class[labels[64:]] - source)[of_class].mean(dim=0).norm().item()
        assert gap < 0.7  # from two
