"""What methods by statistics and by certainty say they improve, they improve, on a shift that each is made for."""

import dataclasses

import numpy as np
import pytest
import torch

from hda.batch import Batch
from hda.methods.base import Method

STEPS = 25


def shifted(batch: Batch) -> Batch:
    """Classes told by where a picture is bright; the target's have their colours swapped and less contrast."""
    random = torch.Generator().manual_seed(1)
    patterns = torch.rand(4, 3, 16, 16, generator=random)
    truth = torch.arange(batch.layout.target).remainder(4)
    images = patterns[torch.cat([batch.labels, truth])] + 0.3 * batch.images[0]
    images[batch.target] = 0.5 * images[batch.target].flip(1)
    return dataclasses.replace(batch, images=(images,))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def means_apart(features, logits, n):
    """Distance of the domains' means, in units of how far the rows lie from them."""
    spread = np.sqrt(features[:n].var(axis=0).sum() + features[n:].var(axis=0).sum())
    return np.linalg.norm(features[:n].mean(axis=0) - features[n:].mean(axis=0)) / spread


def joint_means_apart(features, logits, n):
    return means_apart(features, logits, n) + means_apart(softmax(logits), logits, n)


def covariances_apart(features, logits, n):
    return np.linalg.norm(np.cov(logits[:n], rowvar=False) - np.cov(logits[n:], rowvar=False))


def missing_norm(features, logits, n):
    return -np.linalg.norm(softmax(logits[n:]), "nuc")


def confusion(features, logits, n):
    c = softmax(logits[n:]).T @ softmax(logits[n:])
    return 1 - np.trace(c) / c.sum()


def entropy(features, logits, n):
    p = softmax(logits[n:])
    return -(p * np.log(p + 1e-12)).sum(axis=1).mean()


def smallness(features, logits, n):
    return -np.linalg.norm(features[n:], axis=1).mean()


IMPROVED = {  # settings, settings that leave the idea out, and what the idea lowers
    "dan": ({"transfer_weight": 3.0}, {"transfer_weight": 0.0}, means_apart),
    "jan": ({"transfer_weight": 3.0}, {"transfer_weight": 0.0}, joint_means_apart),
    "coral": ({"transfer_weight": 3.0}, {"transfer_weight": 0.0}, covariances_apart),
    "bnm": ({}, {"transfer_weight": 0.0}, missing_norm),
    "mcc": ({}, {"transfer_weight": 0.0}, confusion),
    "entmin": ({}, {"transfer_weight": 0.0}, entropy),
    "safn": ({"head_dropout": 0.0}, {"head_dropout": 0.0, "transfer_weight": 0.0}, smallness),
    "rtn": (
        {"entropy_weight": 1.0, "entropy_horizon": 1.0},
        {"entropy_weight": 0.0, "mmd_weight": 0.0},
        entropy,
    ),
}


def quantity(method: Method, batch: Batch, measure) -> float:
    with torch.no_grad():
        features = method.embed(batch)
        out = method.head(features)
    logits, seen = (out.logits, out.features) if isinstance(out, tuple) else (out, features)
    return float(measure(seen.double().numpy(), logits.double().numpy(), batch.layout.labelled))


@pytest.mark.parametrize("name", IMPROVED)
def test_what_it_says_it_improves_is_better_than_without_it(name, make_method, make_batch, make_step):
    with_it, without_it, measure = IMPROVED[name]
    batch = shifted(make_batch(batch=12, target=12))
    found = []
    for settings in (with_it, without_it):
        method = make_method(name, **settings)
        step = make_step(method, batch, lr=0.01)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for _ in range(STEPS):
                step.run()
        found.append(quantity(method, batch, measure))
    better, worse = found
    assert better < worse - 0.1 * abs(worse)
