import dataclasses
import itertools

import numpy as np
import pytest
import torch

from hda.batch import Batch, Progress
from hda.errors import UserError
from hda.methods.aligned import method_class
from hda.methods.m3sda import M3SDA
from hda.methods.m3sda_beta import M3SDABeta

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numbers(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def classification(logits: np.ndarray, batch: Batch) -> float:
    """Of each source by its own classifier, summed over the sources."""
    owners, labels = batch.domains[batch.source].numpy() - 1, batch.labels.numpy()
    total = 0.0
    for owner in set(owners):
        rows = np.flatnonzero(owners == owner)
        total -= np.log(softmax(logits[rows, owner])[np.arange(len(rows)), labels[rows]]).mean()
    return total


def distance(features: np.ndarray, domains: np.ndarray) -> float:
    parts = [features[domains == domain] for domain in sorted(set(domains))]  # the target first
    total = 0.0
    for k in (1, 2):
        target, *sources = ((part**k).mean(axis=0) for part in parts)
        total += np.mean([np.linalg.norm(source - target) for source in sources])
        total += np.mean([np.linalg.norm(a - b) for a, b in itertools.combinations(sources, 2)])
    return float(total)


def without_source(batch: Batch, number: int) -> Batch:
    """The batch with that source's rows given to the next."""
    domains = torch.where(batch.domains == number, number + 1, batch.domains)
    return dataclasses.replace(batch, domains=domains)


def test_the_losses_are_each_sources_labels_and_all_domains_moments(make_method, make_batch):
    method, batch = make_method("m3sda", "msda", transfer_weight=0.3), make_batch("msda")
    features = method.embed(batch)
    losses = method.losses(batch, PROGRESS)
    assert losses.keys() == {"classification", "transfer"}
    expected = classification(numbers(method.heads(features[batch.source])), batch)
    assert losses["classification"].item() == pytest.approx(expected, rel=1e-5)
    apart = distance(numbers(features), batch.domains.numpy())
    assert losses["transfer"].item() == pytest.approx(0.3 * apart, rel=1e-4)


def test_predictions_are_the_mean_of_all_classifiers_probabilities(make_method, make_batch):
    for name in ("m3sda", "m3sda-beta"):
        method = make_method(name, "msda").eval()
        features = method.features(make_batch("msda").images[0])
        both = [method.heads(features), *([method.seconds(features)] if name == "m3sda-beta" else [])]
        expected = softmax(numbers(torch.cat(both, dim=1))).mean(axis=1)
        np.testing.assert_allclose(numbers(method.classify(features).softmax(dim=1)), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["m3sda", "m3sda-beta", "dctn", "ml-msda"])
def test_a_source_without_a_row_breaks_nothing_and_teaches_its_classifier_nothing(name, make_method, make_batch):
    method, batch = make_method(name, "msda").train(), without_source(make_batch("msda"), 1)
    assert set(batch.domains.tolist()) == {0, 2, 3}
    for phase in method.phases():
        losses = phase.losses(batch, PROGRESS)
        assert all(torch.isfinite(value) for value in losses.values())
        moving = [p for key, p in method.named_parameters() if key.startswith(phase.updates)]
        found = torch.autograd.grad(losses.total, moving, allow_unused=True)
        assert all(torch.isfinite(gradient).all() for gradient in found if gradient is not None)
    if name.startswith("m3sda"):
        weight = method.heads.heads[0].linear.weight
        (gradient,) = torch.autograd.grad(method.phases()[0].losses(batch, PROGRESS).total, [weight])
        assert not gradient.any()


def test_pairs_of_classifiers_learn_then_disagree_on_the_target_then_are_brought_together(make_method, make_batch):
    method, batch = make_method("m3sda-beta", "msda", discrepancy_weight=2.0), make_batch("msda")
    learn, disagree, agree = (phase.losses(batch, PROGRESS) for phase in method.phases())
    features = method.embed(batch)
    first, second = numbers(method.heads(features)), numbers(method.seconds(features))
    labels = sum(classification(logits[batch.source], batch) for logits in (first, second))
    apart = np.abs(softmax(first[batch.target]) - softmax(second[batch.target])).mean(axis=(0, 2)).sum()
    assert learn["classification"].item() == pytest.approx(labels, rel=1e-4)
    assert learn["transfer"].item() == pytest.approx(
        0.0005 * distance(numbers(features), batch.domains.numpy()), rel=1e-4
    )
    assert disagree["classification"].item() == pytest.approx(labels, rel=1e-4)
    assert disagree["discrepancy"].item() == pytest.approx(-2 * apart, rel=1e-4)
    assert agree.keys() == {"discrepancy"}
    assert agree.total.item() == pytest.approx(2 * apart, rel=1e-4)
    disagree.total.backward()
    assert all(parameter.grad is None for parameter in method.backbone.parameters())


def test_each_phase_updates_just_what_it_says(make_method):
    phases = make_method("m3sda-beta", "msda").phases()
    assert [phase.updates for phase in phases] == [("",), ("heads.", "seconds."), ("backbone.",)]
    assert [phase.repeat for phase in phases] == [1, 1, 4]


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_moments_go_with_another_head_and_bring_its_domains_together(setting, backbone, make_batch):
    cls = method_class("hdan", alignment="moments")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        method = cls(backbone, 4, {"uda": 2, "msda": 4, "ssda": 3}[setting], cls.Settings(transfer_weight=0.5))
    batch = make_batch(setting, batch=6, target=8)
    before = method.losses(batch, PROGRESS)["transfer"]
    for _ in range(10):
        gradients = torch.autograd.grad(method.losses(batch, PROGRESS)["transfer"], list(backbone.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(backbone.parameters(), gradients, strict=True):
                parameter -= 0.0001 * gradient  # a distance's gradient is as large near zero: long steps go past it
    assert method.losses(batch, PROGRESS)["transfer"] < 0.5 * before


def test_settings_that_make_no_sense_are_refused():
    for cls, wrong in (
        (M3SDA, {"orders": 0}),
        (M3SDA, {"transfer_weight": -1.0}),
        (M3SDABeta, {"orders": 0}),
        (M3SDABeta, {"generator_steps": 0}),
        (M3SDABeta, {"discrepancy_weight": -1.0}),
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            cls.Settings(**wrong)
