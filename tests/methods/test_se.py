import copy

import numpy as np
import pytest
import torch
from torch import nn

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.se import SE

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(logits: torch.Tensor) -> np.ndarray:
    x = logits.detach().double().numpy()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture
def apart(make_method):
    """SE for a setting whose teacher has moved away from its student."""

    def make(setting: str = "uda", **settings) -> SE:
        method = make_method("se", setting, **settings)
        random = torch.Generator().manual_seed(5)
        for parameter in (*method.teacher_backbone.parameters(), *method.teacher_head.parameters()):
            parameter += 0.3 * torch.randn(parameter.shape, generator=random)
        return method

    return make


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_losses_are_those_of_the_paper(setting, apart, make_batch, outputs):
    method = apart(setting, confidence=0.5)
    batch = make_batch(setting, views=2, target=9)
    student, teacher = outputs(method.head), outputs(method.teacher_head)
    losses = method.losses(batch, PROGRESS)

    p = softmax(student[0])
    labelled, target, goal = p[batch.labelled], p[batch.target], softmax(teacher[0])
    assert len(goal) == 9
    sure = goal.max(axis=1) > 0.5
    assert 0 < sure.sum() < 9
    agreement = ((target - goal) ** 2).mean(axis=1)
    mean, uniform = target.mean(axis=0), 1 / target.shape[1]
    balance = -(uniform * np.log(mean + 1e-6) + (1 - uniform) * np.log(1 - mean + 1e-6)).sum()
    true = labelled[np.arange(len(labelled)), batch.labels.numpy()]
    assert losses.keys() == {"classification", "consistency", "balance"}
    assert losses["classification"].item() == pytest.approx(-np.log(true).mean(), rel=1e-5)
    assert losses["consistency"].item() == pytest.approx(10.0 * (sure * agreement).mean(), rel=1e-5)
    # As published: balanced as far as the teacher is sure, and weighed together with the agreement
    assert losses["balance"].item() == pytest.approx(10.0 * 0.01 * sure.mean() * balance, rel=1e-5)
    assert losses.watched["sure"].item() == pytest.approx(sure.mean())


def test_where_the_teacher_is_sure_of_nothing_the_labels_alone_are_learnt(apart, make_batch):
    losses = apart(confidence=1.0).losses(make_batch(views=2), PROGRESS)
    assert losses["consistency"] == losses["balance"] == 0
    assert losses["classification"] > 0


@pytest.mark.parametrize(
    ("weight", "terms"),
    [("consistency_weight", {"consistency", "balance"}), ("balance_weight", {"balance"})],
)
def test_a_weight_scales_its_terms_alone(weight, terms, apart, make_batch):
    batch = make_batch(views=2)
    usual, heavy = (apart(confidence=0.0, **{weight: value}).losses(batch, PROGRESS) for value in (1.0, 2.5))
    for name in usual:
        assert heavy[name].item() == pytest.approx((2.5 if name in terms else 1.0) * usual[name].item(), rel=1e-5)
        assert usual[name] > 0


def test_the_teacher_sees_the_second_view_of_the_target_and_the_student_the_first_of_all(apart, make_batch):
    method, batch = apart(), make_batch(views=2)
    seen = {}
    for name, part in (("student", method.backbone), ("teacher", method.teacher_backbone)):
        part.register_forward_pre_hook(lambda layer, given, name=name: seen.setdefault(name, given[0]))
    method.losses(batch, PROGRESS)
    assert torch.equal(seen["student"], batch.images[0])
    assert torch.equal(seen["teacher"], batch.images[1][batch.target])


def test_the_teacher_takes_no_gradient(apart, make_batch):
    method = apart(confidence=0.0)
    method.losses(make_batch(views=2), PROGRESS).total.backward()
    teachers = {name: p for name, p in method.named_parameters() if name.startswith("teacher_")}
    assert len(teachers) == sum(1 for name, _ in method.named_parameters() if name.startswith(("backbone.", "head.")))
    assert all(p.grad is None and not p.requires_grad for p in teachers.values())
    assert all(p.grad is not None for name, p in method.named_parameters() if name not in teachers)


@pytest.mark.parametrize("momentum", [0.99, 0.5])
def test_the_teacher_follows_the_updated_student_at_every_step(momentum, make_method, make_batch, make_step):
    method = make_method("se", teacher_momentum=momentum)
    step = make_step(method, make_batch(views=2))

    def values(prefix: str) -> dict[str, np.ndarray]:
        parts = ((name.replace("module.", ""), p.detach().numpy().copy()) for name, p in method.named_parameters())
        return {name.removeprefix(prefix): value for name, value in parts if name.startswith(prefix)}

    start = values("backbone.")
    for _ in range(3):
        before = {part: values(f"teacher_{part}.") for part in ("backbone", "head")}
        step.run()
        for part, teacher in before.items():
            student, after = values(f"{part}."), values(f"teacher_{part}.")
            assert student.keys() == teacher.keys() == after.keys()
            for name, value in after.items():
                expected = momentum * teacher[name] + (1 - momentum) * student[name]
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)
    assert not np.array_equal(values("backbone.")["net.0.weight"], start["net.0.weight"])


def test_predictions_are_the_teachers(make_method, make_batch):
    method, images = make_method("se").eval(), make_batch().images[0]
    first = method(images)
    assert torch.equal(first, method.head(method.backbone(images)))  # at the start they are one
    with torch.no_grad():
        for parameter in (*method.backbone.parameters(), *method.head.parameters()):
            parameter.add_(1.0)
    assert torch.equal(method(images), first)
    method.after_step(PROGRESS)
    assert not torch.equal(method(images), first)


def test_the_teachers_batch_norms_know_the_target_alone(make_method, make_batch):
    method = make_method("se").train()
    batch = make_batch(views=2, target=8)
    norm = next(layer for layer in method.teacher_backbone.modules() if isinstance(layer, nn.BatchNorm2d))
    before = copy.deepcopy(norm.running_mean)
    seen = []
    norm.register_forward_pre_hook(lambda layer, given: seen.append(given[0].detach().double().numpy()))
    method.losses(batch, PROGRESS)
    (values,) = seen
    assert len(values) == 8
    expected = 0.9 * before.numpy() + 0.1 * values.mean(axis=(0, 2, 3))
    np.testing.assert_allclose(norm.running_mean.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_settings_that_make_no_sense_are_refused():
    for wrong in (
        {"consistency_weight": -1.0},
        {"balance_weight": -1.0},
        {"confidence": 2.0},
        {"teacher_momentum": -0.1},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            SE.Settings(**wrong)
