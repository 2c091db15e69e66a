"""What holds for every registered method in every setting it supports. A new method is tested by being there."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import hda
from hda import testing
from hda.losses import cross_entropy
from hda.methods.base import Losses, Method, Reference
from hda.methods.source_only import SourceOnly
from hda.nn import PlainHead
from hda.registry import registered
from hda.settings import setting

METHODS = registered("methods")
CASES = [testing.Case(cls, kind) for cls in METHODS.values() for kind in sorted(cls.supports)]


@pytest.mark.parametrize("check", testing.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cls.name}-{case.setting}")
def test_every_method(case, check):
    check(case)


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
        lambda x: x + torch.tensor(1.0),
    ],
)
def test_the_check_for_waiting_notices_what_waits(waits):
    with pytest.raises(AssertionError), testing.NeverWaits():
        waits(torch.ones(3))


# The checks notice what they are for, in somebody's own method


class Mine(Method):
    """A method that another distribution might bring."""

    name = "mine"
    reference = Reference("none", "", "")
    rows = "labelled"

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Settings:
        sharpness: float = setting(1.0, "what the logits are multiplied with")

    def build(self, width, classes, domains):
        self.head = PlainHead(width, classes)

    def losses(self, batch, progress):
        logits = self.settings.sharpness * self.head(self.embed(batch, batch.labelled))
        return Losses(classification=cross_entropy(logits, batch.labels))

    def classify(self, features):
        return self.head(features)


def test_a_method_from_elsewhere_is_checked_whole():
    testing.check_method(Mine)
    testing.check_method(Mine, {"sharpness": 2.0})
    assert "mine" not in METHODS


class Explodes(Mine):
    def losses(self, batch, progress):
        losses = super().losses(batch, progress)
        return Losses(classification=losses["classification"] / (len(batch.labels) > 1))


class Waits(Mine):
    def losses(self, batch, progress):
        losses = super().losses(batch, progress)
        return losses if losses["classification"].item() > -1 else Losses()


class Forgets(Mine):
    def build(self, width, classes, domains):
        super().build(width, classes, domains)
        self.extra = torch.nn.Linear(3, 3)


class Restless(Mine):
    def losses(self, batch, progress):
        return Losses(classification=super().losses(batch, progress)["classification"] * torch.rand(()))


class Counts(Mine):
    calls = 0

    def losses(self, batch, progress):
        self.calls += 1
        return Losses(classification=super().losses(batch, progress)["classification"] * self.calls)


class Peeks(Mine):
    def losses(self, batch, progress):
        logits = self.head(self.embed(batch))
        return Losses(classification=cross_entropy(logits[batch.labelled], batch.labels) + 0 * logits.sum())


class Crowd(Mine):
    def classify(self, features):
        return super().classify(features - features.mean(dim=0))


class Blind(Mine):
    def losses(self, batch, progress):
        logits = self.head(self.embed(batch, batch.labelled))
        return Losses(classification=cross_entropy(logits[1:], batch.labels[1:]) if len(logits) > 1 else logits.sum())


class Backwards(Mine):
    def losses(self, batch, progress):
        return Losses(classification=-super().losses(batch, progress)["classification"])


class Elsewhere(Mine):
    """Makes its weights of the rows on the CPU, wherever the batch is."""

    def losses(self, batch, progress):
        logits = self.head(self.embed(batch, batch.labelled))
        weights = torch.full((batch.layout.labelled, 1), 1.0)
        return Losses(classification=cross_entropy(weights * logits, batch.labels))


class Unnamed(Mine):
    def losses(self, batch, progress):
        return Losses(other=super().losses(batch, progress)["classification"])


class Keeps(Mine):
    """Looks at its own process's pictures past `embed`."""

    def losses(self, batch, progress):
        logits = self.head(self.backbone(batch.images[0][batch.labelled], (batch.layout.labelled,)))
        return Losses(classification=cross_entropy(logits, batch.labels[: len(logits)]))


class Gathers(Mine):
    """Brings the domains' mean features together."""

    rows = "all"
    lowers = ("gap",)
    weight = 5.0

    def losses(self, batch, progress):
        features = self.embed(batch)
        apart = features[batch.labelled].mean(dim=0) - features[batch.target].mean(dim=0)
        own = cross_entropy(self.head(features[batch.labelled]), batch.labels)
        return Losses(classification=own, transfer=self.weight * apart.square().sum())


class Scatters(Gathers):
    """The same, the sign turned: its own loss falls as well."""

    improves = ("transfer",)
    weight = -5.0


class Idles(Gathers):
    """The same, without a gradient."""

    weight = 0.0


class Shares(Mine):
    """Takes a setting's name that is taken."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Settings(Mine.Settings):
        lr: float = setting(1.0, "a name that recipes have")


@pytest.mark.parametrize(
    ("cls", "check", "told"),
    [
        (Explodes, "losses_and_gradients_are_finite_and_reach_every_parameter", "classification is inf with batch 1"),
        (Waits, "losses_never_wait_for_the_device_and_never_change_shape", "waits for the device"),
        (Forgets, "losses_and_gradients_are_finite_and_reach_every_parameter", "no gradient reaches"),
        (Counts, "losses_are_a_pure_function_of_the_batch", "gives other losses the second time"),
        (Peeks, "it_looks_at_the_rows_and_views_that_it_says", "looks at the target's"),
        (Crowd, "a_prediction_depends_on_its_picture_alone", "not close"),
        (Blind, "every_visible_label_counts", "the label of row 0 is unused"),
        (Backwards, "it_learns_on_a_small_shift", "of the labelled rows"),
        (Elsewhere, "losses_stay_on_the_device_of_the_batch", "leaves the device"),
        (Keeps, "pictures_may_be_in_other_processes", "depend on where the pictures are"),
        (Scatters, "it_lowers_what_it_says_beyond_classification_alone", "gap is"),
        (Idles, "it_lowers_what_it_says_beyond_classification_alone", "gap is"),
        (Unnamed, "it_learns_on_a_small_shift", "called classification"),
        (Shares, "settings_have_names_of_their_own", "lr"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_check_notices_what_it_is_for(cls, check, told):
    found = next(one for one in testing.CHECKS if one.__name__ == check)
    found(testing.Case(Mine, "uda"))
    with pytest.raises(AssertionError, match=told):
        found(testing.Case(cls, "uda"))


def test_a_loss_of_its_own_that_falls_is_not_enough():
    testing.it_learns_on_a_small_shift(testing.Case(Scatters, "uda"))
    testing.it_lowers_what_it_says_beyond_classification_alone(testing.Case(Gathers, "uda"))


def test_what_does_not_hold_is_told_with_its_name_and_setting():
    with pytest.raises(AssertionError, match=r"^settings_have_names_of_their_own does not hold for mine in msda: "):
        testing.check_method(Shares)


def test_random_numbers_in_a_loss_come_from_the_seed():
    testing.losses_are_a_pure_function_of_the_batch(testing.Case(Restless, "uda"))
    testing.a_seed_decides_everything(testing.Case(Restless, "uda"))


def test_the_checks_leave_the_callers_random_numbers_alone():
    torch.manual_seed(4)
    before = torch.get_rng_state()
    testing.check_method(SourceOnly)
    assert torch.equal(torch.get_rng_state(), before)


# Folders that lie


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


@pytest.mark.parametrize("kind", ["uda", "msda", "ssda"])
def test_the_targets_folders_may_lie(kind, pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    sources = [pictures / domain for domain in (("one", "two", "three") if kind == "msda" else ("one",))]
    few = pictures / "few" if kind == "ssda" else None

    def trained(folder: str):
        scenario = hda.Scenario.read(sources, pictures / folder / "target", few)
        assert scenario.setting == kind
        answers = hda.Answers.read(pictures / folder / "target", scenario)
        options = {"backbone": "small", "weights": "none", "size": 16, "augment": "affine"}
        options |= {"steps": 3, "batch": 4, "target_batch": 3, "log_every": 1, "device": "cpu", "seed": 5}
        run = hda.fit(scenario, out=tmp_path / folder, evaluate=answers, **options)
        losses = [line["total"] for line in run.records if "total" in line]
        predicted = [line.split(",")[1:] for line in (run.path / "predictions.csv").read_text().splitlines()]
        return losses, predicted, load_file(run.path / "model.safetensors")

    (losses, predicted, weights), (other_losses, other_predicted, other_weights) = trained("truth"), trained("lie")
    assert losses == other_losses
    assert len(losses) == 3
    assert predicted == other_predicted
    assert testing.same(weights, other_weights)
