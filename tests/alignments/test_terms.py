"""Alignments of one term: which rows and layers each looks at, what its settings do, which mistakes it tells."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from hda.alignments.base import Place, Seen
from hda.batch import Progress
from hda.errors import UserError
from hda.registry import registered

WIDTH, CLASSES = 6, 4


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gaussians(x: np.ndarray, times=(0.25, 0.5, 1, 2, 4), bandwidth: float | None = None) -> np.ndarray:
    d = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    middle = d.sum() / (len(x) * (len(x) - 1)) if bandwidth is None else bandwidth
    return sum(np.exp(-d / (middle * t)) for t in times)


def discrepancy(k: np.ndarray, n: int) -> float:
    def within(part: np.ndarray) -> float:
        return part[~np.eye(len(part), dtype=bool)].mean()

    return within(k[:n, :n]) + within(k[n:, n:]) - 2 * k[:n, n:].mean()


def mmd(features, logits, n):
    return discrepancy(gaussians(features), n)


def mmd_of_both(features, logits, n):
    return mmd(features, logits, n) + discrepancy(gaussians(logits), n)


def mmd_of_three(features, logits, n):
    return discrepancy(gaussians(features, (1 / 3, 1, 3)), n)


def jmmd(features, logits, n, bandwidth=1.68):
    return discrepancy(gaussians(features) * gaussians(softmax(logits), (1,), bandwidth), n)


def jmmd_ramp(features, logits, n):
    return (2 / (1 + np.exp(-10 * 0.1)) - 1) * jmmd(features, logits, n)  # a tenth of the run is done


def jmmd_wide(features, logits, n):
    return jmmd(features, logits, n, bandwidth=0.4)


def jmmd_of_three(features, logits, n):
    return discrepancy(gaussians(features, (1 / 3, 1, 3)) * gaussians(softmax(logits), (1,), 1.68), n)


def coral(features, logits, n):
    apart = np.cov(logits[:n], rowvar=False) - np.cov(logits[n:], rowvar=False)
    return (apart**2).sum() / (4 * CLASSES**2)


def coral_of_features(features, logits, n):
    apart = np.cov(features[:n], rowvar=False) - np.cov(features[n:], rowvar=False)
    return (apart**2).sum() / (4 * WIDTH**2)


def bnm(features, logits, n):
    return -np.linalg.svd(softmax(logits[n:]), compute_uv=False).mean()


def mcc(features, logits, n, temperature=2.5):
    p = softmax(logits[n:] / temperature)
    weights = 1 + np.exp((p * np.log(p + 1e-5)).sum(axis=1))
    c = p.T @ np.diag(weights) @ p
    c = c / c.sum(axis=1, keepdims=True)
    return (c.sum() - np.trace(c)) / CLASSES


def mcc_cold(features, logits, n):
    return mcc(features, logits, n, temperature=0.5)


def entropy(features, logits, n):
    p = softmax(logits[n:])
    return -(p * np.log(p + 1e-5)).sum(axis=1).mean()


def entropy_of_one(features, logits, n):
    return entropy(features, logits, n) / np.log(CLASSES)


TERMS = {
    "mmd": [
        ({}, mmd),
        ({"mmd_layers": "both"}, mmd_of_both),
        ({"kernels": 3, "kernel_factor": 3.0}, mmd_of_three),
    ],
    "jmmd": [
        ({}, jmmd),
        ({"jmmd_schedule": "ramp"}, jmmd_ramp),
        ({"label_bandwidth": 0.4}, jmmd_wide),
        ({"kernels": 3, "kernel_factor": 3.0}, jmmd_of_three),
    ],
    "coral": [({}, coral), ({"coral_layer": "features"}, coral_of_features)],
    "bnm": [({}, bnm)],
    "mcc": [({}, mcc), ({"confusion_temperature": 0.5}, mcc_cold)],
    "entropy": [({}, entropy_of_one), ({"normalise_entropy": False}, entropy)],
    "feature-norm": [({}, lambda features, logits, n: 2.0), ({"norm_step": 3.0}, lambda features, logits, n: 18.0)],
}
CASES = [(name, *case) for name, cases in TERMS.items() for case in cases]
WRONG = [
    ("mmd", {"kernels": 0}),
    ("mmd", {"kernel_factor": 0.5}),
    ("jmmd", {"label_bandwidth": 0.0}),
    ("mcc", {"confusion_temperature": 0.0}),
    ("feature-norm", {"norm_step": -1.0}),
    *((name, {"transfer_weight": -1.0}) for name in TERMS),
]


def build(name: str, settings: dict):
    kind = registered("alignments")[name]

    def no_head():
        raise AssertionError("these alignments need no second head")

    return kind.of(Place(WIDTH, CLASSES, 2, no_head), kind.Settings(**settings))


def seen_of(batch, features: torch.Tensor, logits: torch.Tensor) -> Seen:
    return Seen(logits, features, features, batch, Progress(torch.tensor(100.0), 1000))


@pytest.mark.parametrize(("name", "settings", "expected"), CASES)
@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_term_is_taken_of_labelled_and_target_rows(name, settings, expected, setting, make_batch):
    batch, random = make_batch(setting), torch.Generator().manual_seed(1)
    n = batch.layout.labelled
    features = torch.randn(batch.layout.rows, WIDTH, generator=random, dtype=torch.float64)
    logits = 2 * torch.randn(batch.layout.rows, CLASSES, generator=random, dtype=torch.float64)
    features[n:] += 0.5
    terms = build(name, settings).terms(seen_of(batch, features, logits))
    assert terms.keys() == {"transfer"}
    assert terms.total.item() == pytest.approx(expected(features.numpy(), logits.numpy(), n), rel=1e-6)


@pytest.mark.parametrize(("name", "layers"), [("bnm", {"logits"}), ("mcc", {"logits"}), ("entropy", {"logits"})])
def test_those_of_certainty_leave_the_labelled_rows_alone(name, layers, make_batch):
    batch = make_batch()
    logits = torch.randn(batch.layout.rows, CLASSES, generator=torch.Generator().manual_seed(2), requires_grad=True)
    build(name, {}).terms(seen_of(batch, torch.zeros(batch.layout.rows, WIDTH), logits)).total.backward()
    assert not logits.grad[batch.labelled].any()
    assert logits.grad[batch.target].abs().amax(dim=1).min() > 0


def test_the_growing_norms_are_watched(make_batch):
    batch = make_batch()
    features = torch.ones(batch.layout.rows, WIDTH)
    features[batch.target] *= 3
    watched = build("feature-norm", {}).terms(seen_of(batch, features, features[:, :CLASSES])).watched
    assert {name: value.item() for name, value in watched.items()} == pytest.approx(
        {"source_norm": WIDTH**0.5, "target_norm": 3 * WIDTH**0.5}
    )


@pytest.mark.parametrize(("name", "wrong"), WRONG)
def test_settings_that_make_no_sense_are_refused(name, wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        registered("alignments")[name].Settings(**wrong)


@pytest.mark.parametrize("name", TERMS)
def test_there_is_nothing_to_learn_in_them_and_every_setting_counts(name):
    assert not list(build(name, {}).parameters())
    tried = set(itertools.chain.from_iterable(settings for settings, _ in TERMS[name])) | {"transfer_weight"}
    assert tried == {field.name for field in dataclasses.fields(registered("alignments")[name].Settings)}
