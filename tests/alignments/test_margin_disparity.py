import numpy as np
import pytest
import torch
from torch import nn

from hda.alignments.base import Seen
from hda.alignments.margin_disparity import MarginDisparity
from hda.batch import Progress
from hda.losses import margin_disparity


@pytest.fixture
def seen(make_batch):
    batch = make_batch("uda", batch=4, target=5)
    random = torch.Generator().manual_seed(0)
    logits, inputs = (torch.randn(9, n, generator=random, requires_grad=True) for n in (4, 6))
    return Seen(logits, inputs, inputs, batch, Progress(torch.tensor(999.0), 6000))


@pytest.fixture
def align():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MarginDisparity(nn.Linear(6, 4), margin=3.0)


def test_the_auxiliary_descends_and_the_features_ascend_a_tenth_as_far(align, seen):
    loss = align.terms(seen)["disparity"]
    again = seen.inputs.detach().clone().requires_grad_()
    batch = seen.batch
    plain = margin_disparity(seen.logits, align.auxiliary(again), batch.labelled, batch.target, 3.0)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-6)
    (by_inputs, by_weight) = torch.autograd.grad(loss, [seen.inputs, align.auxiliary.weight])
    (plain_inputs, plain_weight) = torch.autograd.grad(plain, [again, align.auxiliary.weight])
    coefficient = 0.2 / (1 + np.exp(-1000 / 1000)) - 0.1  # the published warm start, counted from one
    torch.testing.assert_close(by_weight, plain_weight)
    torch.testing.assert_close(by_inputs, -coefficient * plain_inputs)


def test_the_head_itself_takes_no_gradient(align, seen):
    align.terms(seen).total.backward()
    assert seen.logits.grad is None


def test_another_kind_of_head_is_read_as_its_kind_reads(seen):
    class Doubled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(6, 4)

        def forward(self, x):
            return {"scores": 2 * self.linear(x)}

    align = MarginDisparity(Doubled(), read=lambda out, features: out["scores"])
    expected = margin_disparity(
        seen.logits, 2 * align.auxiliary.linear(seen.inputs), seen.batch.labelled, seen.batch.target, 2.0
    )
    assert align.terms(seen)["disparity"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_features_close_a_shift_that_lets_the_auxiliary_disagree(make_batch):
    """Two classes a side, the target's features shifted by three; at best the auxiliary knows no side from the other."""
    batch, random = make_batch("uda", batch=32, target=32), torch.Generator().manual_seed(0)
    classes = torch.arange(64) % 2
    inputs = torch.stack([1.0 - 2.0 * classes, torch.zeros(64)], dim=1) + 0.3 * torch.randn(64, 2, generator=random)
    logits = torch.stack([inputs[:, 0], -inputs[:, 0]], dim=1)
    shift = nn.Parameter(torch.tensor([0.0, 3.0]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        align = MarginDisparity(nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)), strength=1.0, horizon=1.0)
    optimiser = torch.optim.SGD([{"params": align.parameters(), "lr": 0.1}, {"params": [shift], "lr": 0.3}])
    for _ in range(250):
        moved = torch.cat([inputs[:32], inputs[32:] + shift])
        loss = align.terms(Seen(logits, moved, moved, batch, Progress(torch.tensor(1.0), 1)))["disparity"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert shift.norm() < 0.6
    # Sides that coincide: the margin m = 2 leaves the auxiliary a probability of m / (1 + m) of the decision
    assert loss.item() == pytest.approx(2 * np.log(3 / 2) + np.log(3), abs=0.2)
