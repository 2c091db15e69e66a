import copy

import pytest
import torch
from torch import nn

from hda.batch import Progress
from hda.recipes.base import Budget
from hda.recipes.sgd import SGD


def progress(step: int, steps: int = 60_000) -> Progress:
    return Progress(torch.tensor(float(step)), steps)


def parts(seed: int = 0) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)), nn.Linear(5, 3)


# Learning rates of the heads that the published code arrives at (its base rate 0.001 times 10), by step
PUBLISHED = {
    0: 0.01,
    1: 0.009992506556490012,
    10: 0.009925650290240805,
    100: 0.009310124446222227,
    1000: 0.005946035575013605,
    2500: 0.003907949713906802,
    5000: 0.0026084743001221454,
    6001: 0.0023234318677417985,
    10000: 0.0016556002607617019,
    20003: 0.0010192694340002179,
    50003: 0.0005239661227986261,
}


@pytest.mark.parametrize(("step", "heads"), PUBLISHED.items())
def test_rates_are_those_of_the_published_code(step, heads):
    backbone, head = parts()
    recipe = SGD("uda")
    optimiser = recipe.optimiser([*backbone.parameters()], [*head.parameters()])
    shown = recipe.set_rates(optimiser, progress(step))
    slow, fast = (group["lr"] for group in optimiser.param_groups)
    assert fast.item() == pytest.approx(heads, rel=1e-6)
    assert slow.item() == pytest.approx(heads / 10, rel=1e-6)
    assert shown.item() == slow.item()


def test_the_rate_does_not_depend_on_the_length_of_the_run():
    assert SGD("uda").rate(progress(700, 1000)).item() == SGD("uda").rate(progress(700, 50_000)).item()


def test_rates_are_written_into_the_same_tensors_at_every_step():
    backbone, head = parts()
    recipe = SGD("uda")
    optimiser = recipe.optimiser([*backbone.parameters()], [*head.parameters()])
    rates = [group["lr"] for group in optimiser.param_groups]
    for step in (0, 5000):
        recipe.set_rates(optimiser, progress(step))
    assert all(group["lr"] is rate for group, rate in zip(optimiser.param_groups, rates, strict=True))
    assert rates[1].item() == pytest.approx(PUBLISHED[5000], rel=1e-6)


def test_decay_and_its_power_are_settings():
    recipe = SGD("uda", SGD.Settings(decay=0.1, decay_power=2.0))
    assert recipe.rate(progress(10)).item() == pytest.approx(0.25)


def test_every_parameter_decays_by_the_published_weight_decay():
    backbone, head = parts()
    optimiser = SGD("uda").optimiser([*backbone.parameters()], [*head.parameters()])
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.001, 0.001]
    assert [len(group["params"]) for group in optimiser.param_groups] == [4, 2]
    assert all(group["nesterov"] and group["momentum"] == 0.9 for group in optimiser.param_groups)


def test_heads_alone_make_a_group_alone():
    _, head = parts()
    optimiser = SGD("uda").optimiser([], [*head.parameters()])
    assert [group["lr"].item() for group in optimiser.param_groups] == [pytest.approx(0.01)]


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_steps_are_those_of_torch_s_plain_sgd_bit_for_bit(momentum):
    ours, theirs = parts(), copy.deepcopy(parts())
    recipe = SGD("uda", SGD.Settings(momentum=momentum, lr=0.05, decay=0.1))
    optimiser = recipe.optimiser([*ours[0].parameters()], [*ours[1].parameters()])
    plain = torch.optim.SGD(
        [{"params": theirs[0].parameters()}, {"params": theirs[1].parameters()}],
        lr=0.05,
        momentum=momentum,
        nesterov=momentum > 0,
        weight_decay=0.001,
        fused=True,
    )
    start = copy.deepcopy([*ours[1].parameters()])
    for step in range(6):
        recipe.set_rates(optimiser, progress(step))
        for group, other in zip(plain.param_groups, optimiser.param_groups, strict=True):
            group["lr"] = other["lr"].item()
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
        for (backbone, head), one in ((ours, optimiser), (theirs, plain)):
            one.zero_grad()
            head(backbone(x)).square().mean().backward()
            one.step()
        for mine, other in zip(nn.ModuleList(ours).parameters(), nn.ModuleList(theirs).parameters(), strict=True):
            assert torch.equal(mine, other)
    assert (start[0] - ours[1].weight).abs().max() > 1e-3


def test_the_first_steps_are_nesterov_s_by_hand():
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    recipe = SGD("uda", SGD.Settings(lr=0.1, momentum=0.5, weight_decay=0.25, decay=0.0))
    optimiser = recipe.optimiser([weight], [])
    expected, speed = 2.0, 0.0
    for step in range(4):
        recipe.set_rates(optimiser, progress(step))
        weight.grad = 3 * weight.detach() ** 2
        gradient = 3 * expected**2 + 0.25 * expected
        speed = 0.5 * speed + gradient
        expected -= 0.1 * (gradient + 0.5 * speed)
        optimiser.step()
        assert weight.item() == pytest.approx(expected, rel=1e-6)  # the rate is a float32


@pytest.mark.parametrize(
    ("setting", "budget"),
    [
        ("uda", Budget(steps=6002, batch=36, lr=0.001)),
        ("msda", Budget(steps=50004, batch=16, lr=0.0003)),
        ("ssda", Budget(steps=20004, batch=24, lr=0.001)),
    ],
)
def test_budgets_are_the_published_runs(setting, budget):
    assert SGD(setting).budget == budget
    assert SGD(setting).lr == budget.lr
    assert SGD(setting, SGD.Settings(lr=0.5)).lr == 0.5
