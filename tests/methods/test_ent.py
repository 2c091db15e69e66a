import dataclasses

import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.methods.ent import ENT

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(x: torch.Tensor) -> np.ndarray:
    e = np.exp(x.detach().double().numpy())
    return e / e.sum(axis=1, keepdims=True)


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log(p + 1e-5)).sum(axis=1).mean())


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_labelled_rows_teach_first_and_then_the_target(setting, make_method, make_batch, outputs):
    method, batch = make_method("ent", setting), make_batch(setting)
    seen = outputs(method.head)
    labelled, target = (phase.losses(batch, PROGRESS) for phase in method.phases())
    first, second = (softmax(out.logits) for out in seen)
    assert (len(first), len(second)) == (batch.layout.labelled, batch.layout.target)
    expected = -np.log(first[np.arange(len(first)), batch.labels.numpy()]).mean()
    assert {name: value.item() for name, value in labelled.items()} == {
        "classification": pytest.approx(expected, rel=1e-4)
    }
    assert {name: value.item() for name, value in target.items()} == {
        "entropy": pytest.approx(0.1 * entropy(second), rel=1e-4)
    }


def test_both_updates_move_everything(make_method, make_batch, make_step):
    method = make_method("ent")
    step = make_step(method, make_batch(), weight_decay=0.0)
    before, moved = {}, []
    update = step.optimiser.step

    def watched():
        before.update({name: p.detach().clone() for name, p in method.named_parameters()})
        update()
        moved.append({name for name, p in method.named_parameters() if not torch.equal(p, before[name])})

    step.optimiser.step = watched
    step.run()
    assert moved == [{name for name, _ in method.named_parameters()}] * 2
    assert ENT.optimisations == 2


def test_the_target_becomes_sure(make_method, make_batch, make_step):
    batch = make_batch("ssda", batch=8, target=12)
    left = []
    for weight in (1.0, 0.0):
        method = make_method("ent", "ssda", transfer_weight=weight)
        step = make_step(method, batch, "ssda", lr=0.003)
        for _ in range(15):
            step.run()
        with torch.no_grad():
            left.append(entropy(softmax(method.head(method.embed(batch, batch.target)).logits)))
    assert left[0] < 0.5 * left[1]


def test_its_weight_is_that_of_the_published_code():
    settings = dataclasses.asdict(ENT.Settings())
    assert settings["transfer_weight"] == 0.1
    assert settings["normalise_entropy"] is False
