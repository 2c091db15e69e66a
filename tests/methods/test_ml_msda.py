import math

import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.ml_msda import MLMSDA

PROGRESS = Progress(torch.tensor(1000.0), 10_000)
SOURCES = 3


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numbers(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float((p * np.log(p / q)).sum(axis=1).mean())


@pytest.fixture
def network(make_method) -> MLMSDA:
    settings = {"bottleneck": 6, "discriminator_width": 12, "discriminator_dropout": 0.0}
    method = make_method("ml-msda", "msda", transfer_weight=0.5, mutual_weight=2.0, **settings)
    for subnetwork in method.subnetworks:
        subnetwork.head.classifier.weight.data.mul_(50.0)  # so that they differ
        subnetwork.head.narrow.weight.data.mul_(50.0)
    return method


def test_the_losses_are_those_of_a_guidance_and_a_branch_a_source(network, make_batch):
    batch = make_batch("msda", batch=4)
    losses = network.losses(batch, PROGRESS)
    features, labels = network.embed(batch), batch.labels.numpy()
    owners = batch.domains[batch.source].numpy() - 1
    expected = {"classification": 0.0, "transfer": 0.0, "mutual": 0.0, "entropy": 0.0}
    of_target = []
    for number, subnetwork in enumerate(network.subnetworks):
        rows = np.arange(len(labels)) if number == 0 else np.flatnonzero(owners == number - 1)
        logits, narrow = (numbers(x) for x in subnetwork.head(features))
        p = softmax(logits)
        joint = np.einsum("rc,rf->rcf", p, narrow).reshape(len(p), -1)
        told = 1 / (1 + np.exp(-numbers(subnetwork.discriminator(torch.from_numpy(joint).float()))[:, 0]))
        target = p[batch.target]
        expected["classification"] -= np.log(p[rows, labels[rows]]).mean()
        expected["transfer"] -= 0.5 * (np.log(told[rows]).mean() + np.log(1 - told[batch.target]).mean()) / 2
        expected["entropy"] -= 0.1 * (target * np.log(target + 1e-5)).sum(axis=1).mean()
        of_target.append(target)
    guidance, *branches = of_target
    for branch in branches:
        middle = (guidance + branch) / 2
        expected["mutual"] += 2.0 * (kl(guidance, middle) + kl(branch, middle)) / 2 / SOURCES
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        assert value > 0
        assert losses[name].item() == pytest.approx(value, rel=1e-3), name


def test_each_discriminator_learns_and_what_it_sees_learns_the_opposite(network, make_batch):
    batch = make_batch("msda", batch=4)
    features = network.embed(batch).detach().requires_grad_()
    subnetwork, strength = network.subnetworks[1], math.tanh(5 * 0.1)
    _, told = subnetwork(features, torch.tensor(strength))
    logits, narrow = subnetwork.head(features)
    plain = subnetwork.discriminator(subnetwork.join(narrow, logits.detach().softmax(dim=1)))[:, 0]
    assert torch.equal(told, plain)
    weight = subnetwork.discriminator.layers[0].weight
    reversed_, usual = (torch.autograd.grad(x.sum(), [features, weight]) for x in (told, plain))
    torch.testing.assert_close(reversed_[0], -strength * usual[0])
    torch.testing.assert_close(reversed_[1], usual[1])


def test_branches_and_guidance_come_to_agree(network, make_batch):
    batch = make_batch("msda", batch=4)
    moving = list(network.subnetworks.parameters())
    before = network.losses(batch, PROGRESS)["mutual"].item()
    for _ in range(10):
        gradients = torch.autograd.grad(network.losses(batch, PROGRESS)["mutual"], moving, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(moving, gradients, strict=True):
                if gradient is not None:
                    parameter -= 0.05 * gradient
    assert network.losses(batch, PROGRESS)["mutual"].item() < 0.8 * before


def test_predictions_are_the_mean_of_all_probabilities(network, make_batch):
    features = network.eval().features(make_batch("msda").images[0])
    expected = np.mean([softmax(numbers(s.head(features).logits)) for s in network.subnetworks], axis=0)
    assert len(network.subnetworks) == 1 + SOURCES
    np.testing.assert_allclose(numbers(network.classify(features).softmax(dim=1)), expected, rtol=1e-5)


def test_settings_that_make_no_sense_are_refused():
    for wrong in (
        {"transfer_weight": -1.0},
        {"mutual_weight": -1.0},
        {"entropy_weight": -1.0},
        {"bottleneck": 0},
        {"discriminator_dropout": 2.0},
        {"reversal_horizon": 0.0},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            MLMSDA.Settings(**wrong)
