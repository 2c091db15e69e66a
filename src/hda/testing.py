"""Checks that every method passes, for your own too: `check_method(MyMethod)`.

    from hda.testing import check_method
    from mine import MyMethod

    def test_my_method_is_a_method():
        check_method(MyMethod)

Each check says with its name what holds. Nothing is read from disk, nothing is downloaded; a method takes seconds.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from hda import backbones
from hda import settings as plain
from hda.backbones import Backbone
from hda.batch import Batch, Layout, Losses, Network, Progress
from hda.data.images import LabelledImages, from_arrays
from hda.data.scenario import Answers, Scenario
from hda.engine import checkpoint
from hda.engine.settings import FitSettings
from hda.engine.step import Step
from hda.methods.base import Method, Phase
from hda.registry import registered

SETTINGS = ("uda", "msda", "ssda")
CLASSES, EDGE = 4, 16
PROGRESS = Progress(torch.tensor(100.0), 1000)


def check_method(cls: type[Method], settings: Mapping[str, Any] | None = None) -> None:
    """Run every check on a method, in every setting that it supports.

    Args:
        cls: the method's class.
        settings: settings of the method that are not the default.

    Raises:
        AssertionError: a check does not hold; the message begins with its name and the setting.
    """
    for setting in sorted(cls.supports):
        case = Case(cls, setting, dict(settings or {}))
        for check in CHECKS:
            try:
                check(case)
            except AssertionError as error:
                raise AssertionError(f"{check.__name__} does not hold for {cls.name} in {setting}: {error}") from error


@dataclass(frozen=True)
class Case:
    """A method in a setting, and how to make what a check needs: small, and the same for the same seed."""

    cls: type[Method]
    setting: str
    settings: dict[str, Any] = field(default_factory=dict)

    def method(self, *, classes: int = CLASSES, sources: int | None = None, seed: int = 0) -> Method:
        """The method on a network of three layers."""
        return make_method(self.cls, self.setting, classes=classes, sources=sources, seed=seed, **self.settings)

    def batch(self, **options: Any) -> Batch:
        """Random pictures, as many views as the method asks for; see `make_batch`."""
        return make_batch(self.setting, views=self.cls.views, **options)

    def step(self, method: Method, batch: Batch, lr: float = 0.01, **recipe: float) -> Step:
        """The engine's step with these very pictures in place of drawn and varied ones."""
        return make_step(method, batch, self.setting, lr, **recipe)


# What the checks work with


def small_backbone(seed: int = 0) -> Backbone:
    """A network of three layers with random weights."""
    with seeded(seed):
        return backbones.create("small", "none")


def make_method(
    cls: type[Method],
    setting: str = "uda",
    *,
    classes: int = CLASSES,
    sources: int | None = None,
    seed: int = 0,
    **settings: Any,
) -> Method:
    """A method on the small backbone; the same weights for the same seed."""
    backbone = small_backbone(seed)
    domains = 1 + (sources or default_sources(setting)) + (setting == "ssda")
    with seeded(seed + 1):
        return cls(backbone, classes, domains, cls.Settings(**settings))


def default_sources(setting: str) -> int:
    return 3 if setting == "msda" else 1


def make_batch(
    setting: str = "uda",
    *,
    batch: int = 3,
    target: int = 4,
    classes: int = CLASSES,
    sources: int | None = None,
    views: int = 1,
    edge: int = EDGE,
    seed: int = 0,
) -> Batch:
    """Random pictures of every domain, rows in the order source, labelled target, target.

    Args:
        setting: "uda", "msda" (three sources unless said, mixed row by row) or "ssda".
        batch: rows of each source, and of the labelled target.
        target: rows of the unlabelled target.
        classes: labels are drawn from so many.
        sources: how many sources.
        views: how many of each picture.
        edge: height and width.
        seed: of pictures and labels.
    """
    random = torch.Generator().manual_seed(seed)
    sources = sources or default_sources(setting)
    layout = Layout(batch * sources, batch if setting == "ssda" else 0, target)
    first = 2 if layout.labelled_target else 1
    source = first + torch.arange(layout.source).remainder(sources)
    few = torch.ones(layout.labelled_target, dtype=torch.int64)
    domains = torch.cat([source, few, torch.zeros(target, dtype=torch.int64)])
    images = tuple(torch.randn(layout.rows, 3, edge, edge, generator=random) for _ in range(views))
    labels = torch.randint(classes, (layout.labelled,), generator=random)
    return Batch(images, labels, domains, layout)


def make_step(method: Method, batch: Batch, setting: str = "uda", lr: float = 0.01, **recipe: float) -> Step:
    """The engine's step with these very pictures, view after view, in place of drawn and varied ones."""
    from hda.recipes.sgd import SGD

    turn = 0

    def vary(_: Tensor) -> Tensor:
        nonlocal turn
        turn += 1
        return batch.images[(turn - 1) % len(batch.images)]

    edge = batch.images[0].shape[-1]
    sgd = SGD(setting, SGD.Settings(lr=lr, **recipe))
    step = Step(method.train(), sgd, vary, batch.layout, steps=100, edge=edge, device=torch.device("cpu"))
    step.labels.copy_(batch.labels)
    step.domains.copy_(batch.domains)
    return step


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Within: random numbers from that seed; after it the caller's."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def of_phases(method: Method, batch: Batch, seed: int = 0) -> list[Losses]:
    """What each phase's losses are, on the weights as they stand, with dropout from that seed."""
    with seeded(seed):
        return [phase.losses(batch, PROGRESS) for phase in method.phases()]


def values(losses: list[Losses]) -> list[float]:
    return [value.item() for one in losses for value in (*one.values(), *one.watched.values())]


def totals(method: Method, batch: Batch) -> list[float]:
    return [losses.total.item() for losses in of_phases(method, batch)]


def trained(method: Method) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in method.named_parameters() if parameter.requires_grad}


def after_steps(step: Step, count: int, seed: int = 0) -> dict[str, Tensor]:
    """The method's state after that many steps."""
    with seeded(seed):
        for _ in range(count):
            step.run()
    return {name: value.clone() for name, value in step.method.state_dict().items()}


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class NeverWaits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses what makes a GPU's host wait, or a shape depend on values: such a step cannot be one CUDA graph."""

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "lift_fresh")

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        assert name not in self.REFUSED, f"it calls {name}, which waits for the device"
        if name in ("index", "index_put", "index_put_"):
            mask = any(index is not None and index.dtype == torch.bool for index in args[1])
            assert not mask, "it takes a mask as an index, which waits for the device"
        return function(*args, **(kwargs or {}))


# What a method says of itself


def says_what_it_is(case: Case) -> None:
    cls = case.cls
    assert cls.name, "it has no name"
    assert cls.__doc__, "it has no docstring"
    assert cls.reference.title, "its reference has no title"
    assert cls.reference.deviations, "its reference does not tell what it does differently"
    assert cls.supports, "it supports no setting"
    assert cls.supports <= set(SETTINGS), f"it supports more than {SETTINGS}"
    assert cls.rows in ("all", "labelled"), f"rows is {cls.rows!r}"
    assert cls.views >= 1, "it asks for no view"
    assert set(cls.lowers) <= MEASURES.keys(), f"it lowers what is not measured: {sorted(cls.lowers)}"
    assert len(case.method().phases()) == cls.optimisations, "it has not as many phases as `optimisations` says"


def settings_are_frozen_explained_and_survive_json(case: Case) -> None:
    settings = case.cls.Settings()
    for option in plain.options(case.cls.Settings):
        assert option.help, f"the setting {option.name} has no help"
        try:
            setattr(settings, option.name, option.default)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError("its settings are not frozen")
    again = plain.build(case.cls.Settings, json.loads(json.dumps(plain.as_dict(settings))))
    assert again == settings, "its settings do not survive JSON"


def settings_have_names_of_their_own(case: Case) -> None:
    own = {option.name for option in plain.options(case.cls.Settings)}
    for others in (FitSettings, *(recipe.Settings for recipe in registered("recipes").values())):
        shared = own & {option.name for option in plain.options(others)}
        assert not shared, f"its setting {sorted(shared)} is a setting of every run or of a recipe"


def every_phase_updates_something_and_every_parameter_is_some_phases(case: Case) -> None:
    method = case.method()
    names, reached = list(trained(method)), set()
    for phase in method.phases():
        mine = {name for name in names if name.startswith(phase.updates)}
        assert mine, f"the phase {phase.name} updates nothing"
        for prefix in phase.updates:
            assert any(name.startswith(prefix) for name in names), f"no parameter begins with {prefix!r}"
        assert phase.repeat >= 1, f"the phase {phase.name} is never done"
        reached |= mine
    assert reached == set(names), f"no phase updates {sorted(set(names) - reached)[:3]}: freeze them or name them"


# Losses


def losses_and_gradients_are_finite_and_reach_every_parameter(case: Case) -> None:
    """In unequal batches, batches of a row, with 1 to 5 sources, 2 to 345 classes, one sample of a class."""
    for options in _shapes(case):
        _check_gradients(case, options)


def _shapes(case: Case) -> list[dict[str, int]]:
    shapes = [
        {"batch": 3, "target": 4},
        {"batch": 4, "target": 2},
        {"batch": 1, "target": 1},
        {"classes": 2},
        {"classes": 11},
        {"classes": 345},
    ]
    several = {"msda": (2, 4, 5), "ssda": (2, 5)}.get(case.setting, ())
    return shapes + [{"sources": sources} for sources in several]


def _check_gradients(case: Case, options: dict[str, int]) -> None:
    told = ", ".join(f"{name} {value}" for name, value in options.items())
    of_method = {name: options[name] for name in ("classes", "sources") if name in options}
    method, batch = case.method(**of_method).train(), case.batch(**options)
    reached: dict[str, bool] = {}
    for phase, losses in zip(method.phases(), of_phases(method, batch), strict=True):
        for name, value in (*losses.items(), *losses.watched.items()):
            assert value.shape == (), f"{name} is no scalar with {told}"
            assert torch.isfinite(value), f"{name} is {value.item()} with {told}"
        moving = {name: p for name, p in trained(method).items() if name.startswith(phase.updates)}
        gradients = torch.autograd.grad(losses.total, list(moving.values()), allow_unused=True)
        for name, gradient in zip(moving, gradients, strict=True):
            if gradient is not None:
                assert torch.isfinite(gradient).all(), f"the gradient of {name} is not finite with {told}"
                reached[name] = reached.get(name, False) or bool(gradient.any())
    left = trained(method).keys() - reached.keys()
    assert not left, f"no gradient reaches {sorted(left)[:3]} with {told}: freeze them"
    # A batch of two rows may leave single units without a gradient; of one of ordinary size none stays without
    if options.get("batch", 3) > 1:
        zero = [name for name, found in reached.items() if not found]
        assert not zero, f"the gradient of {zero[:3]} is all zeros with {told}"


def losses_are_a_pure_function_of_the_batch(case: Case) -> None:
    method, batch = case.method().train(), case.batch()
    before = [*(image.clone() for image in batch.images), batch.labels.clone(), batch.domains.clone()]
    first, second = (values(of_phases(method, batch)) for _ in range(2))
    assert first == second, "the same batch gives other losses the second time"
    after = [*batch.images, batch.labels, batch.domains]
    assert all(map(torch.equal, before, after)), "it changes the batch"
    assert PROGRESS.iteration.item() == 100, "it changes the progress"


def losses_never_wait_for_the_device_and_never_change_shape(case: Case) -> None:
    method, batch = case.method().train(), case.batch()
    with NeverWaits():  # type: ignore[no-untyped-call]
        for phase in method.phases():
            phase.losses(batch, PROGRESS).total.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            method.after_step(PROGRESS)


def losses_stay_on_the_device_of_the_batch(case: Case) -> None:
    """On a GPU that is only imagined, so that `torch.arange(rows)` without its device is found where there is none."""
    method, batch, imagined = case.method().train(), case.batch(), FakeTensorMode()

    def there(tensor: Tensor) -> Tensor:
        fake = imagined.from_tensor(tensor.detach())
        with imagined:
            return fake.to("cuda")

    for module in method.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            setattr(module, name, torch.nn.Parameter(there(parameter), parameter.requires_grad))
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False):
            setattr(module, name, there(buffer))
    images = tuple(there(image) for image in batch.images)
    batch = dataclasses.replace(batch, images=images, labels=there(batch.labels), domains=there(batch.domains))
    progress = Progress(there(PROGRESS.iteration), PROGRESS.steps)
    try:
        with imagined:
            for phase in method.phases():
                losses = phase.losses(batch, progress)
                strays = [name for name, value in {**losses, **losses.watched}.items() if not value.is_cuda]
                assert not strays, f"{strays[0]} is not on the device of the batch"
            with torch.no_grad():
                method.after_step(progress)
                assert method.eval()(images[0]).is_cuda, "predictions are not on the device of the pictures"
    except (RuntimeError, TypeError) as error:  # of whatever met a tensor that lies elsewhere
        raise AssertionError(f"it leaves the device of the batch: {str(error).partition(chr(10))[0]}") from error


def what_is_watched_carries_no_gradient(case: Case) -> None:
    for losses in of_phases(case.method(), case.batch()):
        assert not any(value.requires_grad for value in losses.watched.values()), "what is watched has a gradient"
        assert not losses.keys() & losses.watched.keys(), "a loss and a watched quantity share a name"


def losses_are_finite_in_half_precision(case: Case) -> None:
    method, batch = case.method().train(), case.batch()
    exact = of_phases(method, batch)
    backbones.use_precision(method, "bf16")
    half = of_phases(method, batch)
    assert values(half) != values(exact), "bf16 changes nothing: does it go through a backbone?"
    assert all(value.dtype == torch.float32 for losses in half for value in losses.values()), "a loss is not float32"
    assert np.isfinite(values(half)).all(), "a loss is not finite in bf16"
    np.testing.assert_allclose([x.total.item() for x in half], [x.total.item() for x in exact], rtol=0.1, atol=0.1)
    for phase, losses in zip(method.phases(), half, strict=True):
        moving = [p for name, p in trained(method).items() if name.startswith(phase.updates)]
        found = torch.autograd.grad(losses.total, moving, allow_unused=True)
        assert all(g is None or torch.isfinite(g).all() for g in found), "a gradient is not finite in bf16"


# What a method may see


def every_visible_label_counts(case: Case) -> None:
    method, batch = case.method().train(), case.batch()
    before = totals(method, batch)
    for row in range(batch.layout.labelled):
        labels = batch.labels.clone()
        labels[row] = (labels[row] + 1) % method.classes
        assert totals(method, dataclasses.replace(batch, labels=labels)) != before, f"the label of row {row} is unused"


def it_looks_at_the_rows_and_views_that_it_says(case: Case) -> None:
    method, batch = case.method().train(), case.batch()

    def reads(view: int, part: slice) -> bool:
        """Whether a loss, or else the state (batch statistics), is of that part."""
        images = [image.clone() for image in batch.images]
        images[view][part] = torch.nan
        spoilt = copy.deepcopy(method)
        losses = totals(spoilt, dataclasses.replace(batch, images=tuple(images)))
        state = [*spoilt.state_dict().values()]
        return not (np.isfinite(losses).all() and all(torch.isfinite(value).all() for value in state))

    assert reads(0, batch.source), "it does not look at the source"
    assert case.setting != "ssda" or reads(0, batch.labelled_target), "it does not look at the labelled target"
    if method.rows == "labelled":
        assert not reads(0, batch.target), "it says that it needs the labelled rows alone, and looks at the target's"
    else:
        for view in range(method.views):
            assert reads(view, batch.target), f"it does not look at view {view} of the target"


def poisoned_target_labels_change_no_bit(case: Case) -> None:
    """A whole run, begun with the true answers, with wrong ones and with none: losses and weights are the same."""
    import hda

    scenario, answers = small_scenario(case.setting)
    poisoned = Answers((answers.labels + 1) % len(answers.classes), answers.classes)
    options: dict[str, Any] = {"backbone": "small", "weights": "none", "size": EDGE, "augment": "affine", "seed": 5}
    options |= {"steps": 3, "batch": 4, "target_batch": 3, "log_every": 1, "device": "cpu", **case.settings}
    found = []
    with TemporaryDirectory() as folder, _also_registered(case.cls):
        for name, given in (("none", None), ("true", answers), ("wrong", poisoned)):
            run = hda.fit(scenario, out=Path(folder, name), evaluate=given, method=case.cls.name, **options)
            timing = ("seconds", "images_per_second")
            lines = [{k: v for k, v in line.items() if k not in timing} for line in run.records if "lr" in line]
            found.append((lines, load_file(run.path / "model.safetensors")))
    for lines, weights in found[1:]:
        assert lines == found[0][0], "the losses depend on the target's labels"
        assert same(weights, found[0][1]), "the weights depend on the target's labels"


def small_scenario(setting: str, classes: int = CLASSES) -> tuple[Scenario, Answers]:
    """Pictures of random colour, a mean colour a class, in memory; and the target's true classes."""
    random = np.random.default_rng(0)
    names = tuple(f"class-{number}" for number in range(classes))
    colours = random.integers(60, 200, size=(classes, 3))

    def domain(name: str, rows: int, shift: int) -> LabelledImages:
        labels = np.arange(rows) % classes
        noise = random.normal(shift, 20, size=(rows, EDGE, EDGE, 3))
        pixels = (colours[labels][:, None, None] + noise).clip(0, 255).astype(np.uint8)
        return LabelledImages(from_arrays(pixels, name=name), labels, names)

    sources = [domain(f"source-{number}", 12, 10 * number) for number in range(default_sources(setting))]
    target, few = domain("target", 12, 40), domain("few", classes, 40) if setting == "ssda" else None
    scenario = Scenario.of(sources, target.images, few)
    return scenario, Answers(target.labels, scenario.classes)


@contextmanager
def _also_registered(cls: type[Method]) -> Iterator[None]:
    """Within: the class can be asked for by its name, whether or not a distribution registers it."""
    known = registered("methods")
    before = known.get(cls.name)
    known[cls.name] = cls
    try:
        yield
    finally:
        if before is None:
            del known[cls.name]
        else:
            known[cls.name] = before


class Elsewhere:
    """A share of one row: the pictures of all others are in other processes, which are imitated here."""

    rows = 1

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.own = tuple(view[: self.rows] for view in batch.images)

    def through(self, network: Network, images: Tensor, rows: slice) -> Tensor:
        view = next(number for number, own in enumerate(self.own) if own is images)
        return network(self.batch.images[view][rows], self.batch.layout.statistics(rows))


def pictures_may_be_in_other_processes(case: Case) -> None:
    """Features come from `embed` alone: with most pictures elsewhere every loss and gradient is the same."""
    whole = case.batch()
    share = Elsewhere(whole)
    found = []
    for batch in (whole, dataclasses.replace(whole, images=share.own, share=share)):
        method = case.method().train()
        losses = of_phases(method, batch)
        for phase, one in zip(method.phases(), losses, strict=True):
            moving = [p for name, p in trained(method).items() if name.startswith(phase.updates)]
            one.total.backward(inputs=moving)  # type: ignore[no-untyped-call]
        gradients = {name: p.grad for name, p in method.named_parameters() if p.grad is not None}
        found.append((values(losses), gradients))
    here, elsewhere = found
    assert here[0] == elsewhere[0], "its losses depend on where the pictures are"
    assert same(here[1], elsewhere[1]), "its gradients depend on where the pictures are"


# State


def state_survives_a_safetensors_file(case: Case) -> None:
    batch, method = case.batch(), case.method()
    after_steps(case.step(method, batch), 2)
    other = case.method(seed=7)
    images = batch.images[0]
    assert not torch.equal(other.eval()(images), method.eval()(images)), "two seeds give the same predictions"
    with TemporaryDirectory() as folder:
        path = Path(folder, "state.safetensors")
        save_file({name: value.contiguous().clone() for name, value in method.state_dict().items()}, path)
        other.load_state_dict(load_file(path))
    assert torch.equal(other(images), method(images)), "what is loaded predicts otherwise"
    again, before = (values(of_phases(one.train(), batch)) for one in (other, method))
    assert again == before, "what is loaded has other losses"


def a_resumed_run_is_the_run_never_stopped(case: Case) -> None:
    batch = case.batch()
    whole, first, second = (case.step(case.method(seed=seed), batch) for seed in (0, 0, 7))
    expected = after_steps(whole, 4)
    with seeded(0), TemporaryDirectory() as folder:
        for _ in range(2):
            first.run()
        checkpoint.save(Path(folder), checkpoint.capture(2, first, {}, 2, 0.0))
        last = checkpoint.latest(Path(folder))
        assert last is not None
        checkpoint.restore(checkpoint.load(last), second)
        for _ in range(2):
            second.run()
    assert same(second.method.state_dict(), expected), "it goes on otherwise after a checkpoint"


def a_seed_decides_everything(case: Case) -> None:
    batch = case.batch()
    first, again, other = (after_steps(case.step(case.method(seed=seed), batch), 3) for seed in (0, 0, 1))
    assert same(first, again), "the same seed gives other weights"
    assert not same(first, other), "another seed gives the same weights"


def a_step_moves_every_trainable_parameter(case: Case) -> None:
    method = case.method()
    before = {name: parameter.detach().clone() for name, parameter in trained(method).items()}
    step = case.step(method, case.batch(), weight_decay=0.0)
    for iteration in (10, 99):  # a method may learn one part early in the run, another late
        step.progress.iteration.fill_(iteration)
        after_steps(step, 1)
    after = dict(method.named_parameters())
    still = [name for name, value in before.items() if torch.equal(after[name], value)]
    assert not still, f"a step does not move {still[:3]}"
    assert np.isfinite(list(step.measured(2).values())).all(), "a step measures what is not finite"


# Learning and predicting


def it_learns_on_a_small_shift(case: Case) -> None:
    """A few steps on four colours, the target's shifted: it reads the labelled rows, and improves what it says."""
    batch = colours(case)
    step = case.step(case.method(), batch, lr=0.005)
    after_steps(step, 1)
    first = step.measured(1)
    after_steps(step, 55)
    step.measured(55)
    after_steps(step, 5)
    last = step.measured(5)
    for name in ("classification", *case.cls.improves):
        found = next((key for key in first if key.rpartition(".")[2] == name), None)  # of the first phase that has it
        assert found is not None, f"none of its losses is called {name}"
        assert last[found] < first[found], f"{found} goes from {first[found]:.4f} to {last[found]:.4f}"
    with torch.no_grad():
        predicted = step.method.eval()(batch.images[0][batch.labelled]).argmax(dim=1)
    right = (predicted == batch.labels).float().mean().item()
    assert right > 2 / CLASSES, f"it reads {right:.0%} of the labelled rows of a single batch"


def it_lowers_what_it_says_beyond_classification_alone(case: Case) -> None:
    """Measured apart from its own losses, so that one of the wrong sign, weight or rows is found out."""
    if not case.cls.lowers:
        return
    batch, found = colours(case), []
    for alone in (False, True):
        step = case.step(case.method(), batch, lr=0.001)
        if alone:
            leave_classification_alone(step, batch)
        after_steps(step, 8)  # few and short, before either is as low as can be
        found.append({name: MEASURES[name](step.method, batch) for name in case.cls.lowers})
    for name, value in found[0].items():
        assert value < 0.95 * found[1][name], f"{name} is {value:.4f}, with classification alone {found[1][name]:.4f}"


def leave_classification_alone(step: Step, batch: Batch) -> None:
    """Of each phase the loss called `classification` remains, and no phase without one."""

    def only(phase: Phase) -> Phase:
        return dataclasses.replace(
            phase, losses=lambda *given: Losses(classification=phase.losses(*given)["classification"])
        )

    told = of_phases(copy.deepcopy(step.method), batch)
    pairs = zip(step.phases, told, strict=True)
    step.phases = [(only(phase), moved) for (phase, moved), losses in pairs if "classification" in losses]


def gap(method: Method, batch: Batch) -> float:
    """Energy distance between the features of labelled and target rows."""
    with torch.no_grad(), seeded(0):
        features = method.embed(batch).double().numpy()
    apart = np.linalg.norm(features[:, None] - features, axis=2)
    labelled, target = batch.labelled, batch.target
    return float(2 * apart[labelled, target].mean() - apart[labelled, labelled].mean() - apart[target, target].mean())


def entropy(method: Method, batch: Batch) -> float:
    """Mean entropy of what is predicted for the target rows."""
    with torch.no_grad(), seeded(0):
        logits = method.classify(method.embed(batch, batch.target)).double().numpy()
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return float(-(p * np.log(p + 1e-12)).sum(axis=1).mean())


MEASURES: dict[str, Callable[[Method, Batch], float]] = {"gap": gap, "entropy": entropy}


def colours(case: Case) -> Batch:
    """Rows of one colour a class under noise; on the target the colours are weaker and shifted."""
    batch = case.batch(batch=8, target=8)
    random = torch.Generator().manual_seed(1)
    of_class = 2.0 * torch.randn(CLASSES, 3, generator=random)
    hidden = torch.arange(batch.layout.target) % CLASSES
    colour = of_class[torch.cat([batch.labels, hidden])][:, :, None, None]
    strange = (batch.domains <= int(bool(batch.layout.labelled_target))).view(-1, 1, 1, 1)
    seen = torch.where(strange, 0.7 * colour + 0.5, colour)
    return dataclasses.replace(batch, images=tuple(seen + 0.5 * image for image in batch.images))


def a_prediction_depends_on_its_picture_alone(case: Case) -> None:
    batch, method = case.batch(), case.method()
    after_steps(case.step(method, batch), 3)
    state = {name: value.clone() for name, value in method.state_dict().items()}
    method.eval()
    images = batch.images[0]
    with torch.no_grad():
        together = method(images)
        alone = torch.cat([method(image[None]) for image in images])
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        shuffled = method(images[order])
        beside = method(torch.cat([images[:1], torch.full_like(images[1:], 9.0)]))
    assert together.shape == (len(images), method.classes), f"predictions are {tuple(together.shape)}"
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shuffled, together[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(beside[:1], together[:1], rtol=1e-4, atol=1e-5)
    assert together.std(dim=0).min() > 0, "predictions do not depend on the picture"
    assert same(dict(method.state_dict()), state), "predicting changes the method"


CHECKS: tuple[Callable[[Case], None], ...] = (
    says_what_it_is,
    settings_are_frozen_explained_and_survive_json,
    settings_have_names_of_their_own,
    every_phase_updates_something_and_every_parameter_is_some_phases,
    losses_and_gradients_are_finite_and_reach_every_parameter,
    losses_are_a_pure_function_of_the_batch,
    losses_never_wait_for_the_device_and_never_change_shape,
    losses_stay_on_the_device_of_the_batch,
    what_is_watched_carries_no_gradient,
    losses_are_finite_in_half_precision,
    every_visible_label_counts,
    it_looks_at_the_rows_and_views_that_it_says,
    pictures_may_be_in_other_processes,
    poisoned_target_labels_change_no_bit,
    state_survives_a_safetensors_file,
    a_resumed_run_is_the_run_never_stopped,
    a_seed_decides_everything,
    a_step_moves_every_trainable_parameter,
    it_learns_on_a_small_shift,
    it_lowers_what_it_says_beyond_classification_alone,
    a_prediction_depends_on_its_picture_alone,
)
