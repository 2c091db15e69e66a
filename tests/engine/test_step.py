import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch._dynamo.exc import TorchDynamoException
from torch.nn import functional as F

from hda.backbones import create
from hda.batch import Layout
from hda.engine.step import (
    Kept,
    Step,
    build_method,
    compile_backbones,
    prepare,
    random_numbers,
    release_random_numbers,
)
from hda.methods.base import Losses, Method, Phase
from hda.recipes.adamw import AdamW
from hda.recipes.sgd import SGD
from hda.registry import lookup, registered

LAYOUT = Layout(4, 0, 3)
METHODS = sorted(registered("methods"))


class Line(Method):
    """A method small enough to follow by hand: one weight a class, on the mean colour of a picture."""

    name = "line"

    def __init__(self, net: nn.Module) -> None:
        nn.Module.__init__(self)
        self.backbone = net
        self.head = nn.Linear(3, 2, bias=False)

    def losses(self, batch, progress):
        logits = self.head(self.backbone(batch.images[0].mean(dim=(2, 3))))
        loss = F.cross_entropy(logits[batch.labelled], batch.labels)
        return Losses(classification=loss).watching(largest=logits.max())


class Counting(Line):
    """One with three phases, which counts what it is told."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.register_buffer("after", torch.zeros(()))

    def phases(self):
        return (
            Phase("both", self.losses),
            Phase("head", self.losses, updates=("head.",)),
            Phase("net", self.losses, updates=("backbone.",), repeat=2),
        )

    def after_step(self, progress):
        self.after.add_(progress.iteration + 1)


def line(kind: type[Line] = Line, recipe=None, **settings) -> Step:
    torch.manual_seed(0)
    recipe = recipe or SGD("uda", SGD.Settings(lr=0.1, decay=0.5, **settings))
    step = Step(
        kind(nn.Linear(3, 3, bias=False)),
        recipe,
        lambda x: x.permute(0, 3, 1, 2) / 255,
        LAYOUT,
        10,
        2,
        torch.device("cpu"),
    )
    return fed(step)


def fed(step: Step, seed: int = 0) -> Step:
    random = torch.Generator().manual_seed(seed)
    step.pictures.copy_(torch.randint(256, step.pictures.shape, generator=random))
    step.labels.copy_(torch.tensor([0, 1, 1, 0]))
    step.domains.copy_(torch.tensor([1] * 4 + [0] * 3))
    return step


def whole(method: str, seed: int = 0, recipe: type = SGD) -> Step:
    """A registered method's step, pictures varied by noise."""
    cls = lookup("methods", method)
    domains = {"uda": [1, 1, 1, 1], "msda": [1, 2, 1, 2], "ssda": [2, 2, 1, 1]}  # of the labelled rows
    setting = next(name for name in domains if name in cls.supports)
    few, target = domains[setting].count(1) if setting == "ssda" else 0, 0 if cls.rows == "labelled" else 3
    layout, numbers = Layout(4 - few, few, target), [*domains[setting], *[0] * target]
    built = build_method(cls, lambda: create("small", "none"), 2, 1 + max(numbers), cls.Settings(), seed)

    def vary(pictures):
        planes = pictures.permute(0, 3, 1, 2) / 255
        return planes + 0.1 * torch.randn_like(planes)

    step = Step(built, recipe(setting), vary, layout, 10, 8, torch.device("cpu"))
    step.method.train()
    random = torch.Generator().manual_seed(1)
    step.pictures.copy_(torch.randint(256, step.pictures.shape, generator=random))
    step.labels.copy_(torch.tensor([0, 1, 1, 0]))
    step.domains.copy_(torch.tensor(numbers))
    return step


def copied(step: Step) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in step.tensors().items()}


def same(ours: dict, theirs: dict) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# Views


class Viewing(Line):
    """One that keeps what it sees of three views, the last of which is strong."""

    views, strong_views = 3, 1

    def losses(self, batch, progress):
        self.seen = [view.mean().item() for view in batch.images]
        return super().losses(batch, progress)


def test_a_methods_last_views_are_varied_strongly_where_it_says_so():
    def weak(pictures):
        return torch.zeros(7, 3, 2, 2)

    def strong(pictures):
        return torch.ones(7, 3, 2, 2)

    for given, expected in ((strong, [0.0, 0.0, 1.0]), (None, [0.0, 0.0, 0.0])):
        method = Viewing(nn.Linear(3, 3, bias=False))
        step = fed(Step(method, SGD("uda"), weak, LAYOUT, 10, 2, torch.device("cpu"), strong=given))
        step.run()
        assert method.seen == expected


# One update


def test_a_step_is_one_update_of_nesterov_sgd():
    step = line(weight_decay=0.01)
    features = step.pictures.numpy()[:4].astype(np.float64).mean(axis=(1, 2)) / 255
    net, head = (p.detach().double().numpy().copy() for p in (step.method.backbone.weight, step.method.head.weight))
    velocity = [np.zeros_like(net), np.zeros_like(head)]
    for iteration in range(3):
        logits = features @ net.T @ head.T
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        wrong = (chances - np.eye(2)[[0, 1, 1, 0]]) / 4
        gradients = [(wrong @ head).T @ features + 0.01 * net, wrong.T @ (features @ net.T) + 0.01 * head]
        rate = 0.1 * (1 + 0.5 * iteration) ** -0.75
        for k, (weight, factor) in enumerate(((net, 1), (head, 10))):
            velocity[k] = 0.9 * velocity[k] + gradients[k]
            weight -= rate * factor * (gradients[k] + 0.9 * velocity[k])
        loss = -np.log(chances[np.arange(4), [0, 1, 1, 0]]).mean()

        step.run()
        found = step.measured(1)
        np.testing.assert_allclose(step.method.backbone.weight.detach(), net, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(step.method.head.weight.detach(), head, rtol=1e-4, atol=1e-6)
        assert found["classification"] == found["total"] == pytest.approx(loss, rel=1e-5)
        assert found["lr"] == pytest.approx(rate, rel=1e-5)
        assert step.progress.iteration == iteration + 1


def test_measured_is_the_mean_since_it_was_last_asked():
    fine, coarse = line(), line()
    each = []
    for _ in range(3):
        fine.run()
        each.append(fine.measured(1))
        coarse.run()
    mean = coarse.measured(3)
    assert list(mean) == ["lr", "classification", "largest", "total"]
    for name in mean:
        assert mean[name] == pytest.approx(np.mean([values[name] for values in each]), rel=1e-6)
    coarse.run()
    fine.run()
    assert coarse.measured(1) == fine.measured(1)


def test_phases_move_their_own_parameters_and_are_told_apart_in_the_metrics(monkeypatch):
    step = line(Counting, momentum=0.0)
    moved = []
    original = step.optimiser.step

    def watched():
        before = copied(step)
        original()
        moved.append({name for name, tensor in step.tensors().items() if not torch.equal(tensor, before[name])})

    monkeypatch.setattr(step.optimiser, "step", watched)
    step.run()
    net, head = "method.backbone.weight", "method.head.weight"
    assert moved == [{net, head}, {head}, {net}, {net}]
    assert list(step.measured(1)) == [
        "lr",
        *(f"{phase}.{name}" for phase in ("both", "head", "net") for name in ("classification", "largest", "total")),
    ]


def test_what_follows_the_updates_sees_the_progress_before_them():
    step = line(Counting)
    for _ in range(3):
        step.run()
    assert step.method.after == 0 + 1 + 2 + 3  # of iterations 0, 1 and 2, each one more


def test_frozen_parameters_stay():
    torch.manual_seed(0)
    method = Line(nn.Linear(3, 3, bias=False))
    method.backbone.requires_grad_(False)
    step = fed(Step(method, SGD("uda"), lambda x: x.permute(0, 3, 1, 2) / 255, LAYOUT, 10, 2, torch.device("cpu")))
    before = copied(step)
    step.run()
    assert torch.equal(step.tensors()["method.backbone.weight"], before["method.backbone.weight"])
    assert not torch.equal(step.tensors()["method.head.weight"], before["method.head.weight"])
    assert "optimiser.backbone.weight.momentum_buffer" not in before


# Its whole state


@pytest.mark.parametrize("recipe", [SGD, AdamW])
@pytest.mark.parametrize("method", METHODS)
def test_the_state_and_the_random_numbers_are_all_that_the_next_steps_depend_on(method, recipe):
    step = whole(method, recipe=recipe)
    with random_numbers(torch.device("cpu"), 1):
        step.run()
        state, random = copied(step), torch.get_rng_state()
        for _ in range(2):
            step.run()
        expected = copied(step)
        other = whole(method, seed=8, recipe=recipe)
        other.load(state)
        torch.set_rng_state(random)
        for _ in range(2):
            other.run()
    assert same(other.tensors(), expected)


@pytest.mark.parametrize("method", METHODS)
def test_loading_writes_in_place(method):
    step = whole(method)
    places = {name: tensor.data_ptr() for name, tensor in step.tensors().items()}
    step.run()
    saved = copied(step)
    step.run()
    step.load(saved)
    assert same(step.tensors(), saved)
    assert {name: tensor.data_ptr() for name, tensor in step.tensors().items()} == places


@pytest.mark.parametrize("change", ["missing", "strange", "shape"])
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_changed(change):
    step = line()
    before = copied(step)
    state = {name: tensor + 1 for name, tensor in before.items()}
    if change == "missing":
        state.pop("method.head.weight")
    elif change == "strange":
        state["method.heads.weight"] = torch.zeros(2)
    else:
        state["method.head.weight"] = torch.zeros(1, 3)  # would be copied to every row
    with pytest.raises(ValueError, match=r"state does not fit: .*method\.head"):
        step.load(state)
    assert same(step.tensors(), before)


@pytest.mark.parametrize("recipe", [SGD, AdamW])
@pytest.mark.parametrize("method", METHODS)
def test_restarting_is_beginning_anew_with_those_weights(method, recipe):
    fresh = whole(method, seed=4, recipe=recipe)
    weights = copy.deepcopy(fresh.method.state_dict())
    used = whole(method, seed=0, recipe=recipe)
    with random_numbers(torch.device("cpu"), 1):
        for _ in range(2):
            used.run()
    used.restart(weights)
    assert used.progress.iteration == 0
    found = []
    for step in (fresh, used):
        with random_numbers(torch.device("cpu"), 2):
            for _ in range(2):
                step.run()
            found.append((copied(step), step.measured(2)))
    assert same(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


# Kept for the next task


def captured() -> Step:
    step = line()
    step._graph = object()  # as after `capture`, which needs a GPU
    return step


def test_a_captured_step_is_kept_for_an_equal_key():
    kept, step = Kept(), captured()
    assert kept.take("a") is None
    kept.keep("a", step)
    assert kept.take("a") is step
    assert kept.take("a") is step


def test_a_step_of_another_shape_is_let_go():
    kept = Kept()
    kept.keep("a", captured())
    assert kept.take("b") is None
    assert kept.take("a") is None  # its memory is not held on to


def test_a_step_that_runs_eagerly_is_not_kept():
    kept = Kept()
    kept.keep("a", line())
    assert kept.take("a") is None


# How it runs


def test_on_a_cpu_a_step_runs_eagerly_whatever_is_asked(caplog):
    step = line()
    step.method.eval()
    assert prepare(step, graph=True, compile=True) == "eager"
    assert not step.captured
    assert step.method.training
    assert caplog.messages == []


def test_a_step_that_cannot_be_recorded_says_why_in_a_sentence_and_runs_eagerly(monkeypatch, caplog):
    def fail():
        try:
            raise RuntimeError("a copy waits for the host\nand so on")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    step = line()
    before = copied(step)
    monkeypatch.setattr(step, "_record", fail)
    assert not step.capture()
    assert caplog.messages == ["the step cannot be recorded as a CUDA graph and runs eager: a copy waits for the host"]
    assert same(step.tensors(), before)
    step.run()
    assert step.progress.iteration == 1


def test_a_generator_that_a_failed_recording_holds_is_given_a_state_of_its_own(monkeypatch):
    class Generator:
        state = "held"

        def clone_state(self):
            return "free"

        def graphsafe_set_state(self, state):
            self.state = state

    generators = (Generator(), Generator())
    monkeypatch.setattr(torch.cuda, "default_generators", generators)
    release_random_numbers(torch.device("cuda", 1))
    assert [generator.state for generator in generators] == ["held", "free"]


def test_a_captured_step_is_prepared_without_being_captured_again():
    assert prepare(captured(), graph=True, compile=True) == "the graph of an earlier run"


# Random numbers


def test_a_seed_gives_a_method_its_weights():
    cls = lookup("methods", "hdan")

    def build(seed):
        return build_method(cls, lambda: create("small", "none"), 3, 2, cls.Settings(), seed).state_dict()

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build(3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(first, build(3))
    other = build(4)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].dim() > 1)


def test_random_numbers_come_from_the_seed_and_the_caller_s_are_put_back():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    for seed in (7, 8):
        with random_numbers(torch.device("cpu"), seed):
            inside = torch.rand(3)
        assert torch.equal(inside, torch.rand(3, generator=torch.Generator().manual_seed(seed)))
    with pytest.raises(KeyError), random_numbers(torch.device("cpu"), 7):
        raise KeyError(torch.rand(3))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("fails", [True, False])
def test_a_backbone_that_cannot_be_compiled_runs_as_it_is(fails, monkeypatch, caplog):
    ran = []

    def compiled(*args):
        ran.append(args)
        if fails:
            raise TorchDynamoException("no compiler here\nand a long story")
        return original(*args)

    method = build_method(lookup("methods", "hdan"), lambda: create("small", "none"), 3, 2, None, 0)
    step = Step(
        method, SGD("uda"), lambda pictures: pictures.permute(0, 3, 1, 2) / 255.0, LAYOUT, 10, 16, torch.device("cpu")
    )
    net = method.backbone.net
    original = net.forward
    monkeypatch.setattr(nn.Module, "compile", lambda self, **options: setattr(self, "_compiled_call_impl", compiled))
    step.domains[:4] = 1
    before, random = {name: tensor.clone() for name, tensor in step.tensors().items()}, torch.get_rng_state()
    assert compile_backbones(step) is not fails
    assert len(ran) == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in step.tensors().items())
    assert torch.equal(torch.get_rng_state(), random)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the backbone cannot be compiled and runs as it is: no compiler here"] * fails
    step.run()
    assert len(ran) == (1 if fails else 2)
    assert step.progress.iteration == 1
