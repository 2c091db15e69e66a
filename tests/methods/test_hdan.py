"""HDAN's whole loss against numpy, written from the paper and its published code's readings; and every switch.

Gradients are central differences. A reversal is no function that has its gradient as a derivative, so the transfer loss is
written with G given twice, once for the entropies and once for the discriminator: what the network before them receives is
the derivative by each, times minus that one's reversal coefficient. The discriminator itself receives the plain derivative.
"""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from hda.batch import Batch, Layout, Progress
from hda.errors import UserError
from hda.methods.hdan import HDAN

WIDTH, CLASSES, HIDDEN = 5, 4, 6
LAYOUTS = {"uda": Layout(3, 0, 5), "msda": Layout(6, 0, 4), "ssda": Layout(3, 2, 5)}
DOMAINS = {"uda": 2, "msda": 4, "ssda": 3}
SOURCES = {"uda": ["A"] * 3, "msda": ["C", "A", "B", "A", "A", "C"], "ssda": ["A"] * 3}  # whose each source row is
READINGS = ["code", "text"]
CASES = list(itertools.product(LAYOUTS, READINGS))


class Paper:
    """The losses of one batch as a function of the features and of every parameter."""

    def __init__(self, setting: str, reading: str, labels: np.ndarray, iteration: float, horizon: float = 10_000.0):
        self.setting, self.reading, self.labels = setting, reading, labels
        layout = LAYOUTS[setting]
        self.source = np.arange(layout.source)
        self.few = layout.source + np.arange(layout.labelled_target)
        self.target = layout.labelled + np.arange(layout.target)
        self.groups = [group for group in (self.source, self.few, self.target) if len(group)]
        self.entropys_coefficient = 2 / (1 + np.exp(-10 * iteration / horizon)) - 1
        self.discriminators_coefficient = 2 / (1 + np.exp(-10 * (iteration + 1) / horizon)) - 1

    def heads(self, z: np.ndarray, p: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = z @ p["fundament.weight"].T + p["fundament.bias"]
        h = np.zeros_like(f)
        for k in range(len(p["heuristics.bias"]) // CLASSES):
            block = slice(k * CLASSES, (k + 1) * CLASSES)
            h += z @ p["heuristics.weight"][block].T + p["heuristics.bias"][block]
        return f - h, f, h

    def classification(self, g: np.ndarray) -> float:
        rows = np.concatenate([self.source, self.few])
        return float(np.mean([-np.log(softmax(g)[row, label]) for row, label in zip(rows, self.labels, strict=True)]))

    def weights(self, g: np.ndarray, normaliser_at: np.ndarray) -> np.ndarray:
        certainty, fixed = np.exp(-entropies(g)), np.exp(-entropies(normaliser_at))
        weights = np.empty(len(g))
        for group in self.groups:
            weights[group] = certainty[group] / fixed[group].sum()
        return weights

    def transfer(
        self, for_entropy: np.ndarray, for_discriminator: np.ndarray, at: np.ndarray, d: dict[str, np.ndarray]
    ) -> float:
        """With G given thrice: for the entropies, for the discriminator, and for the normaliser, which has no gradient."""
        x = softmax(for_discriminator)
        for layer in (0, 3):
            x = np.maximum(x @ d[f"layers.{layer}.weight"].T + d[f"layers.{layer}.bias"], 0)
        out = x @ d["layers.6.weight"].T + d["layers.6.bias"]
        weights = self.weights(for_entropy, at)
        if self.setting == "uda":  # D is the probability of the source
            probability = 1 / (1 + np.exp(-out[:, 0]))
            each = np.concatenate([-np.log(probability[self.source]), -np.log(1 - probability[self.target])])
            return (0.5 if self.reading == "code" else 1.0) * float((weights * each).sum())
        number = np.zeros(len(out), dtype=int)  # the unlabelled target is the discriminator's class 0
        if self.setting == "msda":
            number[self.source] = [1 + "ABC".index(name) for name in SOURCES["msda"]]
        else:
            number[self.few], number[self.source] = 1, 2
        each = -np.log(softmax(out)[np.arange(len(out)), number])
        factor = 2 / 3 if (self.setting, self.reading) == ("ssda", "code") else 1.0
        return factor * float((weights * each).sum())

    def termination(self, h: np.ndarray, norm: str = "l1") -> float:
        size = np.abs(h) if norm == "l1" else h**2
        if self.reading == "text":
            return float(size.sum(axis=1).mean())
        return (0.5 if self.setting == "ssda" else 1.0) * float(size.mean())


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def entropies(g: np.ndarray) -> np.ndarray:
    p = softmax(g)
    return -(p * np.log(p + 1e-5)).sum(axis=1)


def cosines(g: np.ndarray, h: np.ndarray) -> np.ndarray:
    return np.abs((g * h).sum(axis=1) / np.linalg.norm(g, axis=1) / np.linalg.norm(h, axis=1)).mean()


def kurtoses(x: np.ndarray, over: str) -> np.ndarray:
    axis = 1 if over == "classes" else 0
    n = (x - x.mean(axis=axis, keepdims=True)) / x.std(axis=axis, ddof=1, keepdims=True)
    return (n**4).mean(axis=axis) - 3 * (n**2).mean(axis=axis) ** 2


def gap(g: np.ndarray, other: np.ndarray, over: str = "classes") -> np.ndarray:
    return np.abs(np.abs(kurtoses(g, over)).mean() - np.abs(kurtoses(other, over)).mean())


class Pictures(nn.Module):
    """In a backbone's place: the pictures are the features."""

    width = WIDTH

    def forward(self, images, groups=None):
        return images.flatten(1)


def problem(setting: str, iteration: float = 700.0, seed: int = 0, **settings) -> tuple[HDAN, Batch, Progress]:
    """HDAN in float64 with every parameter drawn anew, a batch of unequal parts, and an iteration."""
    random = torch.Generator().manual_seed(seed)
    options = {"discriminator_width": HIDDEN, "heuristics": 3} | settings
    with torch.random.fork_rng(devices=[]):
        method = HDAN(Pictures(), CLASSES, DOMAINS[setting], HDAN.Settings(**options)).double().eval()
    for parameter in method.parameters():
        nn.init.normal_(parameter, std=0.6, generator=random)
    layout = LAYOUTS[setting]
    features = torch.randn(layout.rows, WIDTH, 1, 1, dtype=torch.float64, generator=random, requires_grad=True)
    labels = torch.randint(CLASSES, (layout.labelled,), generator=random)
    first = 2 if layout.labelled_target else 1
    domains = [first + "ABC".index(name) for name in SOURCES[setting]]
    domains += [1] * layout.labelled_target + [0] * layout.target
    batch = Batch((features,), labels, torch.tensor(domains), layout)
    return method, batch, Progress(torch.tensor(iteration, dtype=torch.float64), 10_000)


def in_numpy(method: HDAN, batch: Batch, reading: str, progress: Progress, horizon: float = 10_000.0):
    """The same problem for `Paper`: it, the features, the heads' parameters, the discriminator's."""
    (setting,) = (name for name, layout in LAYOUTS.items() if layout == batch.layout)
    paper = Paper(setting, reading, batch.labels.numpy(), progress.iteration.item(), horizon)
    head, discriminator = (
        {name: value.detach().numpy().copy() for name, value in part.named_parameters()}
        for part in (method.head, method.align.discriminator)
    )
    return paper, batch.images[0].detach().flatten(1).numpy(), head, discriminator


def readings(reading: str) -> dict[str, str]:
    return {"transfer_scale": reading, "termination_scale": reading}


def value(method: HDAN, batch: Batch, progress: Progress, term: str) -> float:
    return method.losses(batch, progress)[term].item()


# The whole loss


@pytest.mark.parametrize(("setting", "reading"), CASES)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_every_loss_has_the_papers_value(setting, reading, norm):
    method, batch, progress = problem(setting, termination_norm=norm, **readings(reading))
    losses = method.losses(batch, progress)
    paper, z, head, d = in_numpy(method, batch, reading, progress)
    g, f, h = paper.heads(z, head)
    assert losses.keys() == {"classification", "transfer", "termination"}
    assert losses["classification"].item() == pytest.approx(paper.classification(g), rel=1e-10)
    assert losses["transfer"].item() == pytest.approx(paper.transfer(g, g, g, d), rel=1e-10)
    assert losses["termination"].item() == pytest.approx(paper.termination(h, norm), rel=1e-10)
    total = paper.classification(g) + paper.transfer(g, g, g, d) + paper.termination(h, norm)
    assert losses.total.item() == pytest.approx(total, rel=1e-10)
    watched = {
        "similarity": cosines(g, h),
        "independence": gap(g, f),
        "independence_heuristic": gap(g, h),
        "heuristic": np.abs(h).mean(),
    }
    assert losses.watched.keys() == watched.keys()
    for name, expected in watched.items():
        assert losses.watched[name].item() == pytest.approx(expected, rel=1e-10), name


@pytest.mark.parametrize(("setting", "reading"), CASES)
@pytest.mark.parametrize("iteration", [0.0, 700.0])
def test_every_gradient_is_the_papers_with_its_two_reversals(setting, reading, iteration, numeric_gradient):
    method, batch, progress = problem(setting, iteration, **readings(reading))
    method.losses(batch, progress).total.backward()
    paper, z, head, d = in_numpy(method, batch, reading, progress)
    at = paper.heads(z, head)[0]

    def received(change, start: np.ndarray) -> np.ndarray:
        """The gradient by something before the reversals: `change(value)` is what the heads compute with it."""
        entropys = numeric_gradient(lambda v: paper.transfer(change(v)[0], at, at, d), start)
        discriminators = numeric_gradient(lambda v: paper.transfer(at, change(v)[0], at, d), start)
        others = numeric_gradient(lambda v: paper.classification(change(v)[0]) + paper.termination(change(v)[2]), start)
        return others - paper.entropys_coefficient * entropys - paper.discriminators_coefficient * discriminators

    expected = received(lambda v: paper.heads(v, head), z)
    np.testing.assert_allclose(batch.images[0].grad.flatten(1).numpy(), expected, rtol=1e-5, atol=1e-8)
    for name, parameter in method.head.named_parameters():
        expected = received(lambda v, name=name: paper.heads(z, head | {name: v}), head[name])
        np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=1e-5, atol=1e-8, err_msg=name)
    for name, parameter in method.align.discriminator.named_parameters():
        expected = numeric_gradient(lambda v, name=name: paper.transfer(at, at, at, d | {name: v}), d[name])
        np.testing.assert_allclose(parameter.grad.numpy(), expected, rtol=1e-5, atol=1e-8, err_msg=name)


def test_at_the_first_iteration_only_the_discriminators_reversal_is_open():
    paper = Paper("uda", "code", np.zeros(3, dtype=int), 0.0)
    assert paper.entropys_coefficient == 0
    assert paper.discriminators_coefficient == pytest.approx(0.0005, rel=1e-4)


@pytest.mark.parametrize("setting", LAYOUTS)
def test_the_reversals_change_what_the_heads_receive_and_not_what_the_discriminator_does(setting):
    found = []
    for iteration in (0.0, 700.0, 1e9):
        method, batch, progress = problem(setting, iteration)
        method.losses(batch, progress)["transfer"].backward()
        found.append((method.head.fundament.weight.grad, method.align.discriminator.layers[0].weight.grad))
    (early, early_d), (later, later_d), (late, late_d) = found
    torch.testing.assert_close(later_d, early_d)
    torch.testing.assert_close(late_d, early_d)
    assert 0 < early.norm() < later.norm() < late.norm()


# The switches of table 2


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_m_heuristics_are_subtracted(count):
    method, batch, progress = problem("uda", heuristics=count)
    paper, z, head, _ = in_numpy(method, batch, "code", progress)
    assert len(head["heuristics.bias"]) == count * CLASSES
    g, _, h = paper.heads(z, head)
    assert value(method, batch, progress, "termination") == pytest.approx(paper.termination(h), rel=1e-10)
    predicted = method(batch.images[0]).detach().numpy()
    np.testing.assert_allclose(predicted, g, rtol=1e-10)


def test_three_heuristics_l1_and_the_codes_readings_are_the_default():
    s = HDAN.Settings()
    assert (s.heuristics, s.fundament_slope, s.termination_norm) == (3, 100.0, "l1")
    assert (s.transfer_weight, s.termination_weight) == (1.0, 1.0)
    assert (s.similarity_weight, s.independence_weight) == (0.0, 0.0)
    assert (s.transfer_scale, s.termination_scale) == ("code", "code")
    assert (s.kurtosis_over, s.independence_of) == ("classes", "fundament")
    assert (s.discriminator_width, s.discriminator_dropout, s.reversal_horizon) == (1024, 0.5, 10_000)


def test_without_range_h_is_not_held_small_and_is_still_subtracted():
    method, batch, progress = problem("uda", termination_weight=0.0, transfer_weight=0.0)
    usual, _, _ = problem("uda")
    assert torch.equal(method(batch.images[0]), usual(batch.images[0]))
    losses = method.losses(batch, progress)
    assert losses["termination"].item() == 0
    losses.total.backward()
    # What is left is the classification alone, in which every heuristic is the fundament's opposite
    for block in method.head.heuristics.weight.grad.split(CLASSES):
        torch.testing.assert_close(block, -method.head.fundament.weight.grad)


def test_without_heuristics_the_fundament_is_alone_and_everything_stays_finite():
    method, batch, progress = problem("uda", heuristics=0, similarity_weight=1.0, independence_weight=1.0)
    losses = method.losses(batch, progress)
    losses.total.backward()
    _, z, head, _ = in_numpy(method, batch, "code", progress)
    np.testing.assert_allclose(
        method(batch.images[0]).detach().numpy(), z @ head["fundament.weight"].T + head["fundament.bias"], rtol=1e-10
    )
    assert losses["termination"].item() == 0
    assert losses.watched["heuristic"].item() == 0
    assert all(torch.isfinite(value) for value in (*losses.values(), *losses.watched.values()))
    assert all(torch.isfinite(parameter.grad).all() for parameter in method.head.parameters())


def test_without_init_the_fundament_starts_as_wide_as_the_first_heuristic():
    def ratio(**settings) -> float:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            head = HDAN(Wide(), 65, 2, HDAN.Settings(**settings)).head
        return (head.fundament.weight.std() / head.heuristics.weight[:65].std()).item()

    class Wide(Pictures):
        width = 512

    assert ratio() == pytest.approx(1 / np.sqrt(10_001), rel=0.03)
    assert ratio(fundament_slope=0.0) == pytest.approx(1.0, rel=0.03)


# Weights, optional terms and readings


@pytest.mark.parametrize("term", ["transfer", "termination"])
def test_a_weight_scales_its_term_alone(term):
    plain, batch, progress = problem("ssda")
    heavy, _, _ = problem("ssda", **{f"{term}_weight": 2.5})
    before, after = plain.losses(batch, progress), heavy.losses(batch, progress)
    for name in before:
        factor = 2.5 if name == term else 1.0
        assert after[name].item() == pytest.approx(factor * before[name].item(), rel=1e-10)


@pytest.mark.parametrize(("scale", "setting", "factor"), [
    ("transfer_scale", "uda", 2), ("transfer_scale", "msda", 1), ("transfer_scale", "ssda", 3 / 2),
    ("termination_scale", "uda", CLASSES), ("termination_scale", "msda", CLASSES), ("termination_scale", "ssda", 2 * CLASSES),
])  # fmt: skip
def test_the_texts_readings_scale_their_term_alone(scale, setting, factor):
    code, batch, progress = problem(setting)
    text, _, _ = problem(setting, **{scale: "text"})
    before, after = code.losses(batch, progress), text.losses(batch, progress)
    for name in before:
        expected = factor if name == scale.removesuffix("_scale") else 1
        assert after[name].item() == pytest.approx(expected * before[name].item(), rel=1e-10)


def test_similarity_is_a_loss_when_it_has_a_weight(numeric_gradient):
    options = {"transfer_weight": 0.0, "termination_weight": 0.0}
    method, batch, progress = problem("uda", similarity_weight=0.7, **options)
    losses = method.losses(batch, progress)
    paper, z, head, _ = in_numpy(method, batch, "code", progress)
    g, _, h = paper.heads(z, head)
    assert losses["similarity_loss"].item() == pytest.approx(0.7 * cosines(g, h), rel=1e-10)
    losses.total.backward()

    def total(weight: np.ndarray) -> float:
        g, _, h = paper.heads(z, head | {"fundament.weight": weight})
        return paper.classification(g) + 0.7 * cosines(g, h)

    expected = numeric_gradient(total, head["fundament.weight"])
    np.testing.assert_allclose(method.head.fundament.weight.grad.numpy(), expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("over", ["classes", "data"])
@pytest.mark.parametrize("of", ["fundament", "heuristic"])
def test_independence_is_a_loss_when_it_has_a_weight(of, over, numeric_gradient):
    options = {"transfer_weight": 0.0, "termination_weight": 0.0, "independence_of": of, "kurtosis_over": over}
    method, batch, progress = problem("uda", independence_weight=0.7, **options)
    losses = method.losses(batch, progress)
    paper, z, head, _ = in_numpy(method, batch, "code", progress)
    g, f, h = paper.heads(z, head)
    other = f if of == "fundament" else h
    assert losses["independence_loss"].item() == pytest.approx(0.7 * gap(g, other, over), rel=1e-10)
    assert losses.watched["independence"].item() == pytest.approx(gap(g, f, over), rel=1e-10)
    assert losses.watched["independence_heuristic"].item() == pytest.approx(gap(g, h, over), rel=1e-10)
    losses.total.backward()

    def total(weight: np.ndarray) -> float:
        g, f, h = paper.heads(z, head | {"heuristics.weight": weight})
        return paper.classification(g) + 0.7 * gap(g, f if of == "fundament" else h, over)

    expected = numeric_gradient(total, head["heuristics.weight"])
    np.testing.assert_allclose(method.head.heuristics.weight.grad.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_what_is_watched_carries_no_gradient():
    method, batch, progress = problem("uda", similarity_weight=1.0, independence_weight=1.0)
    losses = method.losses(batch, progress)
    assert not any(value.requires_grad for value in losses.watched.values())


def test_a_shorter_horizon_opens_the_reversal_sooner():
    def received(iteration: float, **settings) -> torch.Tensor:
        method, batch, progress = problem("uda", iteration, **settings)
        method.losses(batch, progress)["transfer"].backward()
        return method.head.fundament.weight.grad

    usual, sooner = received(700.0), received(700.0, reversal_horizon=1000.0)
    assert sooner.norm() > 2 * usual.norm()
    # The schedule knows iteration / horizon alone, but for the one by which the discriminator's is ahead
    torch.testing.assert_close(sooner, received(7000.0), rtol=0.02, atol=1e-4)


def test_the_discriminator_is_as_wide_as_said_and_drops_while_training_alone():
    method, batch, progress = problem("uda", discriminator_width=7, discriminator_dropout=0.9)
    assert method.align.discriminator.layers[0].out_features == 7
    quiet = {value(method, batch, progress, "transfer") for _ in range(3)}
    method.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        noisy = {value(method, batch, progress, "transfer") for _ in range(3)}
        assert (len(quiet), len(noisy)) == (1, 3)
    without, _, _ = problem("uda", discriminator_width=7, discriminator_dropout=0.0)
    assert {value(without.train(), batch, progress, "transfer")} == quiet


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"heuristics": -1}, "heuristics must be at least 0: got -1"),
        ({"discriminator_width": 0}, "discriminator_width must be at least 1: got 0"),
        ({"reversal_horizon": 0.0}, "reversal_horizon must be at least 1: got 0.0"),
        ({"discriminator_dropout": 1.5}, "discriminator_dropout must be between 0 and 1: got 1.5"),
        ({"discriminator_dropout": float("nan")}, "discriminator_dropout must be between 0 and 1: got nan"),
        ({"termination_weight": -1.0}, "termination_weight must be at least 0: got -1.0"),
        ({"transfer_weight": float("nan")}, "transfer_weight must be at least 0: got nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(UserError, match=f"^{sentence}$"):
        HDAN.Settings(**wrong)
