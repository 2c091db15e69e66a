"""What holds for every registered method in every setting it supports. A new method is tested by being there."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

import hda
from hda import settings as plain
from hda.backbones import use_precision
from hda.batch import Batch, Progress
from hda.engine.settings import FitSettings
from hda.methods.base import Losses, Method
from hda.registry import registered

METHODS = registered("methods")
CASES = [(name, setting) for name, cls in METHODS.items() for setting in sorted(cls.supports)]
PROGRESS = Progress(torch.tensor(100.0), 1000)

in_every_setting = pytest.mark.parametrize(("name", "setting"), CASES)
every_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture
def batch_for(make_batch):
    """A batch with as many views as the method asks for."""

    def make(name: str, setting: str, **options) -> Batch:
        return make_batch(setting, views=METHODS[name].views, **options)

    return make


def of_phases(method: Method, batch: Batch, seed: int = 0) -> list[Losses]:
    """What each phase's losses are, on the weights as they stand, with dropout from that seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [phase.losses(batch, PROGRESS) for phase in method.phases()]


def values(losses: list[Losses]) -> list[float]:
    return [value.item() for one in losses for value in (*one.values(), *one.watched.values())]


def totals(method: Method, batch: Batch) -> list[float]:
    return [losses.total.item() for losses in of_phases(method, batch)]


def changed(batch: Batch, **fields) -> Batch:
    return dataclasses.replace(batch, **fields)


def without_pictures(batch: Batch, view: int, part: slice) -> Batch:
    """The batch with those rows of one view spoilt: what reads them is no longer a number."""
    images = [image.clone() for image in batch.images]
    images[view][part] = torch.nan
    return changed(batch, images=tuple(images))


def steps(step, count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """The method's state after that many steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(count):
            step.run()
    return {key: value.clone() for key, value in step.method.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


# What a method says of itself


@every_method
def test_it_says_what_it_is(name):
    cls = METHODS[name]
    assert cls.name == name
    assert cls.__doc__
    assert cls.reference.title
    assert cls.reference.deviations
    assert cls.supports
    assert cls.supports <= {"uda", "msda", "ssda"}
    assert cls.rows in ("all", "labelled")
    assert cls.views >= 1


@every_method
def test_its_settings_are_frozen_explained_and_survive_json(name):
    settings = METHODS[name].Settings()
    known = plain.options(METHODS[name].Settings)
    assert all(option.help for option in known)
    for option in known:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, option.name, option.default)
    assert plain.build(METHODS[name].Settings, json.loads(json.dumps(plain.as_dict(settings)))) == settings


@every_method
def test_its_settings_have_names_of_their_own(name):
    own = {option.name for option in plain.options(METHODS[name].Settings)}
    others = [FitSettings, *(recipe.Settings for recipe in registered("recipes").values())]
    assert not own & {option.name for settings in others for option in plain.options(settings)}


@in_every_setting
def test_every_phase_updates_something_and_every_parameter_is_some_phases(name, setting, make_method):
    method = make_method(name, setting)
    trained = [key for key, parameter in method.named_parameters() if parameter.requires_grad]
    assert len(method.phases()) == METHODS[name].optimisations
    reached = set()
    for phase in method.phases():
        mine = {key for key in trained if key.startswith(phase.updates)}
        assert mine
        assert all(any(key.startswith(prefix) for key in trained) for prefix in phase.updates)
        assert phase.repeat >= 1
        reached |= mine
    assert reached == set(trained)


# Losses


@in_every_setting
@pytest.mark.parametrize(
    "options",
    [{"batch": 3, "target": 4}, {"batch": 4, "target": 2}, {"batch": 1, "target": 1}, {"classes": 2}, {"classes": 11}],
    ids=lambda options: "-".join(f"{key}{value}" for key, value in options.items()),
)
def test_losses_and_gradients_are_finite_and_every_trainable_parameter_gets_one(
    name, setting, options, make_method, batch_for
):
    classes = {key: value for key, value in options.items() if key == "classes"}
    method = make_method(name, setting, **classes).train()
    batch = batch_for(name, setting, **options)
    reached = {}
    for phase, losses in zip(method.phases(), of_phases(method, batch), strict=True):
        assert all(value.shape == () for value in (*losses.values(), *losses.watched.values()))
        assert np.isfinite(values([losses])).all()
        moving = {key: p for key, p in method.named_parameters() if p.requires_grad and key.startswith(phase.updates)}
        gradients = torch.autograd.grad(losses.total, list(moving.values()), allow_unused=True)
        for key, gradient in zip(moving, gradients, strict=True):
            if gradient is not None:
                assert torch.isfinite(gradient).all(), key
                reached[key] = reached.get(key, False) or bool(gradient.any())
    assert {key for key, p in method.named_parameters() if p.requires_grad} == reached.keys()
    # A batch of two rows may leave single units without a gradient; of one of ordinary size none stays without
    if options.get("batch", 3) > 1:
        assert all(reached.values()), [key for key, found in reached.items() if not found]


@in_every_setting
def test_losses_are_a_pure_function_of_the_batch(name, setting, make_method, batch_for):
    method, batch = make_method(name, setting).train(), batch_for(name, setting)
    before = [*(image.clone() for image in batch.images), batch.labels.clone(), batch.domains.clone()]
    first, second = (values(of_phases(method, batch)) for _ in range(2))
    assert first == second
    after = [*batch.images, batch.labels, batch.domains]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert PROGRESS.iteration.item() == 100


class NeverWaits(TorchDispatchMode):
    """Refuses what makes a GPU's host wait, or a shape depend on values: such a step cannot be one CUDA graph."""

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        assert name not in self.REFUSED, name
        if name in ("index", "index_put", "index_put_"):
            assert not any(index is not None and index.dtype == torch.bool for index in args[1]), "a mask as an index"
        return function(*args, **kwargs or {})


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 0],
        lambda x: bool(x.any()),
        lambda x: x.nonzero(),
        lambda x: torch.equal(x, x),
        lambda x: x.masked_select(x > 0),
        lambda x: x.unique(),
        lambda x: float(x[0]),
    ],
)
def test_the_test_for_waiting_notices_what_waits(waits):
    with pytest.raises(AssertionError), NeverWaits():
        waits(torch.ones(3))


@in_every_setting
def test_losses_never_wait_for_the_device_and_never_change_shape(name, setting, make_method, batch_for):
    method, batch = make_method(name, setting).train(), batch_for(name, setting)
    with NeverWaits():
        for phase in method.phases():
            phase.losses(batch, PROGRESS).total.backward()
        with torch.no_grad():
            method.after_step(PROGRESS)


def test_the_test_for_waiting_notices_waiting():
    x = torch.ones(3)
    for waits in (lambda: x.sum().item(), lambda: x[x > 0], lambda: bool(x.any()), lambda: x.nonzero()):
        with pytest.raises(AssertionError), NeverWaits():
            waits()


@in_every_setting
def test_what_is_watched_carries_no_gradient(name, setting, make_method, batch_for):
    for losses in of_phases(make_method(name, setting), batch_for(name, setting)):
        assert not any(value.requires_grad for value in losses.watched.values())
        assert not losses.keys() & losses.watched.keys()


@in_every_setting
def test_losses_are_finite_in_half_precision(name, setting, make_method, batch_for):
    method, batch = make_method(name, setting).train(), batch_for(name, setting)
    exact = of_phases(method, batch)
    use_precision(method, "bf16")
    half = of_phases(method, batch)
    assert values(half) != values(exact)
    assert all(value.dtype == torch.float32 for losses in half for value in losses.values())
    np.testing.assert_allclose(
        [losses.total.item() for losses in half], [losses.total.item() for losses in exact], rtol=0.1, atol=0.05
    )


# What a method may see


@in_every_setting
def test_every_visible_label_counts(name, setting, make_method, batch_for):
    method, batch = make_method(name, setting).train(), batch_for(name, setting)
    before = totals(method, batch)
    for row in range(batch.layout.labelled):
        labels = batch.labels.clone()
        labels[row] = (labels[row] + 1) % method.classes
        assert totals(method, changed(batch, labels=labels)) != before, row


@in_every_setting
def test_it_looks_at_the_rows_and_views_that_it_says(name, setting, make_method, batch_for):
    method, batch = make_method(name, setting).train(), batch_for(name, setting)
    before = totals(method, batch)

    def reads(view: int, part: slice) -> bool:
        return not np.isfinite(totals(method, without_pictures(batch, view, part))).all()

    assert np.isfinite(before).all()
    assert reads(0, batch.source)
    assert setting != "ssda" or reads(0, batch.labelled_target)
    if method.rows == "labelled":
        assert totals(method, without_pictures(batch, 0, batch.target)) == before
    else:
        assert all(reads(view, batch.target) for view in range(method.views))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Three domains of six classes, and a target whose folders tell the truth, beside one whose folders lie.

    Both targets hold the same pictures in the same order.
    """
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)

    def draw(folder, names):
        for name in names:
            (folder / name).mkdir(parents=True)
            for number in range(2):
                pixels = random.integers(256, size=(16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{number}.png")

    classes = [f"class-{number}" for number in range(6)]
    for domain in ("one", "two", "three", "few"):
        draw(root / domain, classes)
    draw(root / "truth" / "target", classes[:3])
    for true, lie in zip(classes[:3], classes[3:], strict=True):
        shutil.copytree(root / "truth" / "target" / true, root / "lie" / "target" / lie)
    return root


@in_every_setting
def test_poisoned_target_labels_change_no_bit(name, setting, pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    sources = [pictures / domain for domain in (("one", "two", "three") if setting == "msda" else ("one",))]
    few = pictures / "few" if setting == "ssda" else None

    def trained(folder: str, out: str, answers=None):
        scenario = hda.Scenario.read(sources, pictures / folder / "target", few)
        assert scenario.setting == setting
        found = answers(scenario) if answers else None
        options = {"method": name, "backbone": "small", "weights": "none", "size": 16, "augment": "affine"}
        options |= {"steps": 3, "batch": 4, "target_batch": 3, "log_every": 1, "device": "cpu", "seed": 5}
        run = hda.fit(scenario, out=tmp_path / out, evaluate=found, **options)
        timing = ("seconds", "images_per_second")
        lines = [{key: value for key, value in line.items() if key not in timing} for line in run.records]
        losses = [
            {key: value for key, value in line.items() if "accuracy" not in key} for line in lines if "lr" in line
        ]
        accuracies = [line["target_accuracy"] for line in lines if "target_accuracy" in line]
        return losses, load_file(run.path / "model.safetensors"), run.path, accuracies

    def told(scenario):
        return hda.Answers.read(pictures / "truth" / "target", scenario)

    def poisoned(scenario):
        return hda.Answers((told(scenario).labels + 1) % 6, scenario.classes)

    def lied_to(scenario):
        return hda.Answers.read(pictures / "lie" / "target", scenario)

    unknown, model, path, _ = trained("truth", "unknown")
    assert len(unknown) == 3
    for folder, out, answers in (
        ("truth", "told", told),
        ("truth", "poisoned", poisoned),
        ("lie", "lied", lied_to),
    ):
        losses, other, other_path, accuracies = trained(folder, out, answers)
        assert losses == unknown
        assert same(other, model)
        assert len(accuracies) == 1
        probabilities = [
            [line.split(",")[1:] for line in (one / "predictions.csv").read_text().splitlines()]
            for one in (path, other_path)
        ]
        assert probabilities[0] == probabilities[1]


# State


@in_every_setting
def test_its_state_survives_a_safetensors_file(name, setting, make_method, make_step, batch_for, tmp_path):
    batch = batch_for(name, setting)
    method = make_method(name, setting)
    steps(make_step(method, batch, setting), 2)
    save_file({key: value.contiguous().clone() for key, value in method.state_dict().items()}, tmp_path / "state")
    other = make_method(name, setting, seed=7)
    assert not torch.equal(other.eval()(batch.images[0]), method.eval()(batch.images[0]))
    other.load_state_dict(load_file(tmp_path / "state"))
    assert torch.equal(other(batch.images[0]), method(batch.images[0]))
    assert values(of_phases(other.train(), batch)) == values(of_phases(method.train(), batch))


@in_every_setting
def test_a_seed_decides_everything(name, setting, make_method, make_step, batch_for):
    batch = batch_for(name, setting)
    first, again, other = (
        steps(make_step(make_method(name, setting, seed=seed), batch, setting), 3) for seed in (0, 0, 1)
    )
    assert same(first, again)
    assert not same(first, other)


@in_every_setting
def test_a_step_moves_every_trainable_parameter(name, setting, make_method, make_step, batch_for):
    method = make_method(name, setting)
    before = {key: p.detach().clone() for key, p in method.named_parameters() if p.requires_grad}
    step = make_step(method, batch_for(name, setting), setting, weight_decay=0.0)
    step.progress.iteration.fill_(100)
    steps(step, 1)
    after = dict(method.named_parameters())
    assert [key for key, value in before.items() if torch.equal(after[key], value)] == []
    assert all(np.isfinite(list(step.measured(1).values())))


# Predictions


@in_every_setting
def test_a_prediction_depends_on_its_picture_alone(name, setting, make_method, make_step, batch_for):
    batch = batch_for(name, setting)
    method = make_method(name, setting)
    steps(make_step(method, batch, setting), 3)
    state = {key: value.clone() for key, value in method.state_dict().items()}
    method.eval()
    images = batch.images[0]
    with torch.no_grad():
        together = method(images)
        alone = torch.cat([method(image[None]) for image in images])
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
        shuffled = method(images[order])
        beside = method(torch.cat([images[:1], torch.full_like(images[1:], 9.0)]))
        again = method(images)
    assert together.shape == (len(images), method.classes)
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(shuffled, together[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(beside[:1], together[:1], rtol=1e-4, atol=1e-5)
    assert torch.equal(again, together)
    assert together.std(dim=0).min() > 0  # and does depend on it
    assert same(dict(method.state_dict()), state)
