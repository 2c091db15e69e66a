import numpy as np
import pytest
import torch
from torch import nn

from hda.alignments import EntropyConditionedAdversary, entropy_adversarial
from hda.registry import registered

CLASSES, HIDDEN = 4, 6
SOURCE_AND_TARGET = (slice(0, 3), slice(3, 8))
THREE_GROUPS = (slice(0, 4), slice(4, 6), slice(6, 9))
PROBLEMS = {  # domains, their numbers row by row, groups, the published code's factor
    "two": (2, [1, 1, 1, 0, 0, 0, 0, 0], SOURCE_AND_TARGET, 1 / 2),
    "sources": (4, [2, 1, 3, 0, 0, 0, 0, 0], SOURCE_AND_TARGET, 1),
    "labelled": (3, [2, 2, 2, 2, 1, 1, 0, 0, 0], THREE_GROUPS, 2 / 3),
}
every_problem = pytest.mark.parametrize(("domains", "numbers", "groups", "factor"), PROBLEMS.values(), ids=PROBLEMS)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def certainty(logits: np.ndarray) -> np.ndarray:
    """exp(-entropy), with 1e-5 inside the logarithm."""
    p = softmax(logits)
    return np.exp((p * np.log(p + 1e-5)).sum(axis=1))


def transfer(for_entropy, for_discriminator, at, parameters, numbers, groups) -> float:
    """Sum over the rows of weight times cross-entropy, the logits given for each way they enter it.

    `at` is where the weights' normaliser is held.
    """
    x = softmax(for_discriminator)
    for weight, bias in (parameters[:2], parameters[2:4]):
        x = np.maximum(x @ weight.T + bias, 0)
    out = x @ parameters[4].T + parameters[5]
    if out.shape[1] == 1:  # domain 1 is the positive
        out = np.concatenate([np.zeros_like(out), out], axis=1)
    each = -np.log(softmax(out)[np.arange(len(out)), numbers])
    found, fixed = certainty(for_entropy), certainty(at)
    return sum(float((found[group] * each[group]).sum() / fixed[group].sum()) for group in groups)


def problem(domains: int, numbers: list[int], **options):
    """The alignment in float64 with every parameter drawn anew, dropout off, and logits that want a gradient."""
    random = torch.Generator().manual_seed(domains)
    align = EntropyConditionedAdversary(CLASSES, domains, width=HIDDEN, **options).double().eval()
    for parameter in align.parameters():
        nn.init.normal_(parameter, std=0.7, generator=random)
    logits = 1.5 * torch.randn(len(numbers), CLASSES, dtype=torch.float64, generator=random)
    return align, logits.requires_grad_(), torch.tensor(numbers)


def at(iteration: float) -> torch.Tensor:
    return torch.tensor(iteration, dtype=torch.float64)


@every_problem
@pytest.mark.parametrize("scale", ["code", "text"])
def test_it_is_the_weighted_cross_entropy_of_the_domains(domains, numbers, groups, factor, scale):
    align, logits, whose = problem(domains, numbers, scale=scale)
    x = logits.detach().numpy()
    parameters = [parameter.detach().numpy() for parameter in align.parameters()]
    expected = (factor if scale == "code" else 1) * transfer(x, x, x, parameters, numbers, groups)
    got = align(logits, whose, groups, at(300.0))
    assert got.shape == ()
    assert got.item() == pytest.approx(expected, rel=1e-10)


@every_problem
def test_gradients_pass_two_reversals_one_an_iteration_ahead(domains, numbers, groups, factor, numeric_gradient):
    align, logits, whose = problem(domains, numbers)
    align(logits, whose, groups, at(300.0)).backward()
    x = logits.detach().numpy()
    parameters = [parameter.detach().numpy().copy() for parameter in align.parameters()]
    entropys = numeric_gradient(lambda v: transfer(v, x, x, parameters, numbers, groups), x)
    discriminators = numeric_gradient(lambda v: transfer(x, v, x, parameters, numbers, groups), x)
    coefficient = {i: 2 / (1 + np.exp(-10 * i / 10_000)) - 1 for i in (300, 301)}
    expected = -factor * (coefficient[300] * entropys + coefficient[301] * discriminators)
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-5, atol=1e-10)
    assert np.abs(entropys).max() > 1e-3
    for index, parameter in enumerate(align.parameters()):

        def loss(value, index=index):
            return transfer(x, x, x, [*parameters[:index], value, *parameters[index + 1 :]], numbers, groups)

        np.testing.assert_allclose(
            parameter.grad.numpy(), factor * numeric_gradient(loss, parameters[index]), rtol=1e-5, atol=1e-8
        )


@every_problem
def test_the_schedule_asks_for_this_iteration_and_the_next(domains, numbers, groups, factor, monkeypatch):
    align, logits, whose = problem(domains, numbers, horizon=600.0)
    asked = []
    monkeypatch.setattr(
        entropy_adversarial,
        "reversal_coefficient",
        lambda i, horizon: asked.append((i.item(), horizon)) or torch.tensor(1.0, dtype=torch.float64),
    )
    align.train()
    for iteration in (0.0, 7.0):
        align(logits, whose, groups, at(iteration))
    assert asked == [(0, 600), (1, 600), (7, 600), (8, 600)]  # it counts no calls of its own


def test_with_the_reversal_closed_the_logits_receive_nothing_and_the_discriminator_everything(monkeypatch):
    domains, numbers, groups, _ = PROBLEMS["two"]
    align, logits, whose = problem(domains, numbers)
    monkeypatch.setattr(entropy_adversarial, "reversal_coefficient", lambda i, horizon: 0.0 * i)
    align(logits, whose, groups, at(300.0)).backward()
    assert logits.grad.abs().max() == 0
    assert all(parameter.grad.abs().max() > 0 for parameter in align.parameters())


def test_groups_weigh_alike_whatever_their_sizes():
    align, _, _ = problem(2, [1] * 10)
    logits = torch.zeros(10, CLASSES, dtype=torch.float64)  # every row is as sure as any other
    source, target = (slice(0, 2), slice(2, 10))
    whose = torch.tensor([1] * 2 + [0] * 8)
    out = align.discriminator(logits.softmax(dim=1))[0, 0]
    expected = (nn.functional.softplus(-out) + nn.functional.softplus(out)) / 2
    assert align(logits, whose, (source, target), at(1.0)).item() == pytest.approx(expected.item(), rel=1e-10)


def test_the_discriminator_drops_units_while_training():
    domains, numbers, groups, _ = PROBLEMS["sources"]
    align, logits, whose = problem(domains, numbers, dropout=0.5)
    quiet = {align(logits, whose, groups, at(1.0)).item() for _ in range(4)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noisy = {align.train()(logits, whose, groups, at(1.0)).item() for _ in range(4)}
    assert len(quiet) == 1
    assert len(noisy) > 1


def test_extreme_logits_give_a_finite_loss_and_gradient():
    domains, numbers, groups, _ = PROBLEMS["two"]
    align = EntropyConditionedAdversary(CLASSES, domains, width=HIDDEN).eval()
    logits = torch.zeros(len(numbers), CLASSES)
    logits[:, 0] = 300.0
    loss = align(logits.requires_grad_(), torch.tensor(numbers), groups, torch.tensor(1e6))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


def test_it_is_registered_under_its_name():
    assert registered("alignments")["entropy-adversarial"] is EntropyConditionedAdversary
