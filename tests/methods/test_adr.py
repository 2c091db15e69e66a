import dataclasses

import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.adr import ADR
from hda.methods.aligned import method_class

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(logits: torch.Tensor) -> np.ndarray:
    x = logits.detach().double().numpy()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def divergence(first: torch.Tensor, second: torch.Tensor) -> float:
    p, q = softmax(first), softmax(second)
    return float(((p - q) * np.log(p / q)).mean() / 2)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_phases_are_the_labels_then_sensitivity_raised_then_lowered(setting, make_method, make_batch, outputs):
    method, batch = make_method("adr", setting, hidden=40, transfer_weight=2.0).train(), make_batch(setting)
    given = outputs(method.head)
    learn, excite, calm = method.phases()
    spoilt = dataclasses.replace(batch, images=(batch.images[0].clone(),))
    spoilt.images[0][batch.target] = torch.nan
    first = learn.losses(spoilt, PROGRESS)
    assert first.keys() == {"classification"}
    assert torch.isfinite(first.total)

    given.clear()
    second = excite.losses(batch, PROGRESS)
    labelled, *draws = given
    log_p = np.log(softmax(labelled))
    expected = -log_p[np.arange(len(log_p)), batch.labels.numpy()].mean()
    assert second["classification"].item() == pytest.approx(expected, rel=1e-5)
    assert not torch.equal(*draws)
    assert second["sensitivity"].item() == pytest.approx(-2 * divergence(*draws), rel=1e-4)
    second.total.backward()
    assert all(parameter.grad is None for parameter in method.backbone.parameters())

    given.clear()
    third = calm.losses(batch, PROGRESS)
    assert third.keys() == {"sensitivity"}
    assert third.total.item() == pytest.approx(2 * divergence(*given), rel=1e-4)


def test_each_phase_updates_just_what_it_says(make_method):
    updates = [(phase.updates, phase.repeat) for phase in make_method("adr", generator_steps=3).phases()]
    assert updates == [(("",), 1), (("head.",), 1), (("backbone.",), 3)]


@pytest.mark.parametrize("head", ["mlp", "plain"])
def test_the_backbone_learns_features_that_survive_dropout(head, backbone, make_batch):
    cls = method_class("adr", head)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        method = cls(backbone, 4, 2, cls.Settings()).train()
        batch = make_batch(target=16)
        calm = method.phases()[2].losses

        def sensitivity() -> float:
            return float(np.mean([calm(batch, PROGRESS).total.item() for _ in range(20)]))

        before = sensitivity()
        assert before > 0
        for _ in range(20):
            gradients = torch.autograd.grad(calm(batch, PROGRESS).total, list(method.backbone.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(method.backbone.parameters(), gradients, strict=True):
                    parameter -= 5.0 * gradient
        assert sensitivity() < 0.9 * before


def test_a_head_with_dropout_of_its_own_sees_every_feature(make_method, make_batch):
    method, batch = make_method("adr"), make_batch()
    seen = []
    method.head.register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    method.train().phases()[2].losses(batch, PROGRESS)
    assert torch.equal(seen[0], seen[1])


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"generator_steps": 0}, {"feature_dropout": 1.5}, {"transfer_weight": -1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            ADR.Settings(**wrong)
