import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from hda.batch import Progress
from hda.recipes.adamw import AdamW


def rate(recipe: AdamW, step: int, steps: int) -> float:
    return recipe.rate(Progress(torch.tensor(float(step)), steps)).item()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 1 / 100),  # the first of 100 steps of warm-up; the cosine is still 1
        (49, 50 / 100 * (1 + math.cos(math.pi * 49 / 2000)) / 2),
        (99, (1 + math.cos(math.pi * 99 / 2000)) / 2),
        (100, (1 + math.cos(math.pi * 100 / 2000)) / 2),
        (500, (1 + math.sqrt(0.5)) / 2),
        (1000, 0.5),
        (1500, (1 - math.sqrt(0.5)) / 2),
        (1999, math.sin(math.pi / 4000) ** 2),
    ],
)
def test_the_rate_warms_up_over_a_twentieth_of_the_run_and_follows_a_cosine(step, expected):
    assert rate(AdamW("uda"), step, 2000) == pytest.approx(expected, abs=2e-7)


def test_the_rate_rises_in_the_warm_up_and_falls_after_it_to_almost_zero():
    rates = np.array([rate(AdamW("uda"), step, 1000) for step in range(1000)])
    assert (np.diff(rates[:50]) > 0).all()
    assert (np.diff(rates[50:]) < 0).all()
    assert 0 < rates[-1] < 1e-5


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_runs_too_short_for_a_warm_up_start_at_the_full_rate(steps):
    assert rate(AdamW("uda"), 0, steps) == 1.0


def test_the_length_of_the_warm_up_is_a_setting():
    assert rate(AdamW("uda", AdamW.Settings(warmup=0.5)), 249, 1000) == pytest.approx(
        0.5 * 0.5 * (1 + math.cos(math.pi * 0.249))
    )
    assert rate(AdamW("uda", AdamW.Settings(warmup=0.0)), 0, 1000) == 1.0


def test_steps_are_those_of_torch_s_adamw():
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    theirs = copy.deepcopy(ours)
    start = copy.deepcopy(ours)
    recipe = AdamW("uda", AdamW.Settings(lr=0.01))
    optimiser = recipe.optimiser([*ours[:2].parameters()], [*ours[2].parameters()])
    plain = torch.optim.AdamW(
        [{"params": theirs[:2].parameters()}, {"params": theirs[2].parameters()}], lr=0.01, weight_decay=0.05
    )
    for step in range(8):
        shown = recipe.set_rates(optimiser, Progress(torch.tensor(float(step)), 100))
        slow = 0.01 * min(1.0, (step + 1) / 5) * (1 + math.cos(math.pi * step / 100)) / 2
        assert shown.item() == pytest.approx(slow, rel=1e-6)
        for group, lr in zip(plain.param_groups, (slow, 10 * slow), strict=True):
            group["lr"] = lr
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
        for net, one in ((ours, optimiser), (theirs, plain)):
            one.zero_grad()
            net(x).square().mean().backward()
            one.step()
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-4, atol=1e-6)
    assert (start[2].weight - ours[2].weight).abs().max() > 0.1


def test_buffers_are_there_before_the_first_step():
    layer = nn.Linear(4, 3)
    optimiser = AdamW("uda").optimiser([], [*layer.parameters()])
    for parameter in layer.parameters():
        state = optimiser.state[parameter]
        assert set(state) == {"step", "exp_avg", "exp_avg_sq"}
        assert state["exp_avg"].shape == state["exp_avg_sq"].shape == parameter.shape
    buffers = [id(value) for state in optimiser.state.values() for value in state.values()]
    layer(torch.ones(2, 4)).sum().backward()
    optimiser.step()
    assert [id(value) for state in optimiser.state.values() for value in state.values()] == buffers
    assert all(state["step"].item() == 1 for state in optimiser.state.values())


def test_heads_learn_faster_than_the_backbone():
    backbone, head = nn.Linear(3, 3), nn.Linear(3, 2)
    for factor in (10.0, 2.0):
        recipe = AdamW("uda", AdamW.Settings(head_factor=factor))
        optimiser = recipe.optimiser([*backbone.parameters()], [*head.parameters()])
        slow, fast = (group["lr"].item() for group in optimiser.param_groups)
        assert slow == pytest.approx(3e-5)
        assert fast == pytest.approx(factor * 3e-5)


@pytest.mark.parametrize(("setting", "steps", "batch"), [("uda", 6002, 36), ("msda", 50004, 16), ("ssda", 20004, 24)])
def test_budgets_are_as_long_as_the_paper_s_recipe(setting, steps, batch):
    budget = AdamW(setting).budget
    assert (budget.steps, budget.batch, budget.lr) == (steps, batch, 3e-5)
