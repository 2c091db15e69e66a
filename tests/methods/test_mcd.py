import numpy as np
import pytest
import torch

from hda.batch import Batch, Progress
from hda.errors import UserError
from hda.methods.mcd import MCD

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def classification(logits: np.ndarray, labels: torch.Tensor) -> float:
    return float(-np.log(softmax(logits)[np.arange(len(labels)), labels.numpy()]).mean())


def discrepancy(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(softmax(first) - softmax(second)).mean())


def numbers(logits: torch.Tensor) -> np.ndarray:
    return logits.detach().double().numpy()


@pytest.fixture
def mcd(make_method) -> MCD:
    return make_method("mcd", hidden=12, head_dropout=0.0)


def without(batch: Batch, part: slice) -> Batch:
    """The batch with those rows' pictures spoilt: what reads them is no longer a number."""
    images = batch.images[0].clone()
    images[part] = torch.nan
    return Batch((images,), batch.labels, batch.domains, batch.layout)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_first_phase_is_the_classification_of_both_on_the_labelled_rows(setting, make_method, make_batch, outputs):
    method, batch = make_method("mcd", setting, hidden=12, head_dropout=0.0), make_batch(setting)
    first, second = outputs(method.head), outputs(method.align.second)
    losses = method.phases()[0].losses(without(batch, batch.target), PROGRESS)
    assert losses.keys() == {"classification"}
    expected = classification(numbers(first[0]), batch.labels) + classification(numbers(second[0]), batch.labels)
    assert losses.total.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_second_phase_keeps_to_the_labels_and_seeks_disagreement_on_the_target(
    setting, make_method, make_batch, outputs
):
    method, batch = make_method("mcd", setting, hidden=12, head_dropout=0.0), make_batch(setting)
    first, second = outputs(method.head), outputs(method.align.second)
    losses = method.phases()[1].losses(batch, PROGRESS)
    labelled, target = ([numbers(first[i]), numbers(second[i])] for i in (0, 1))
    assert len(labelled[0]) == batch.layout.labelled
    assert len(target[0]) == batch.layout.target
    expected = sum(classification(logits, batch.labels) for logits in labelled)
    assert losses["classification"].item() == pytest.approx(expected, rel=1e-5)
    assert losses["discrepancy"].item() == pytest.approx(-discrepancy(*target), rel=1e-5)
    losses.total.backward()
    assert all(parameter.grad is None for parameter in method.backbone.parameters())


def test_the_third_phase_is_the_disagreement_on_the_target_alone(mcd, make_batch, outputs):
    batch = make_batch()
    first, second = outputs(mcd.head), outputs(mcd.align.second)
    losses = mcd.phases()[2].losses(without(batch, batch.labelled), PROGRESS)
    assert losses.keys() == {"discrepancy"}
    assert losses.total.item() == pytest.approx(discrepancy(numbers(first[0]), numbers(second[0])), rel=1e-5)
    assert len(first[0]) == batch.layout.target


@pytest.mark.parametrize("repeats", [1, 4])
def test_each_phase_updates_just_what_it_says(repeats, make_method, make_batch, make_step):
    method = make_method("mcd", hidden=12, generator_steps=repeats)
    step = make_step(method, make_batch())
    before, moved = {}, []
    update = step.optimiser.step

    def watched():
        before.update({name: p.detach().clone() for name, p in method.named_parameters()})
        update()
        moved.append({name for name, p in method.named_parameters() if not torch.equal(p, before[name])})

    step.optimiser.step = watched
    step.run()
    everything = {name for name, _ in method.named_parameters()}
    backbone = {name for name in everything if name.startswith("backbone.")}
    assert moved == [everything, everything - backbone, *[backbone] * repeats]


def test_four_updates_of_the_backbone_are_the_default():
    assert MCD.Settings().generator_steps == 4


def test_the_classifiers_drift_apart_and_the_backbone_brings_them_together(mcd, make_batch):
    batch = make_batch()
    phases = {phase.name: phase for phase in mcd.phases()}

    def disagreement() -> float:
        return phases["agree"].losses(batch, PROGRESS).total.item()

    for name, parts, sign in (("disagree", (mcd.head, mcd.align.second), 1), ("agree", (mcd.backbone,), -1)):
        before = disagreement()
        moving = [parameter for part in parts for parameter in part.parameters()]
        for _ in range(5):
            losses = phases[name].losses(batch, PROGRESS)
            gradients = torch.autograd.grad(losses["discrepancy"], moving)
            with torch.no_grad():
                for parameter, gradient in zip(moving, gradients, strict=True):
                    parameter -= 0.1 * gradient
        assert sign * (disagreement() - before) > 0.001


def test_predictions_are_the_mean_of_both_classifiers_logits(mcd, make_batch, outputs):
    mcd.eval()
    first, second = outputs(mcd.head), outputs(mcd.align.second)
    logits = mcd(make_batch().images[0])
    np.testing.assert_allclose(numbers(logits), (numbers(first[0]) + numbers(second[0])) / 2, rtol=1e-5, atol=1e-6)
    assert not torch.equal(first[0], second[0])


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"generator_steps": 0}, {"hidden": 0}, {"head_dropout": 2.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            MCD.Settings(**wrong)
