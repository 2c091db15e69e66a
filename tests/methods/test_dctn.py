import numpy as np
import pytest
import torch

from hda.batch import Batch, Progress
from hda.errors import UserError
from hda.methods.dctn import DCTN

PROGRESS = Progress(torch.tensor(5.0), 100)
SOURCES = 3


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numbers(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def surprise(p: np.ndarray) -> float:
    return float(-np.log(p).mean())


@pytest.fixture
def dctn(make_method) -> DCTN:
    method = make_method("dctn", "msda", discriminator_width=16, discriminator_dropout=0.0, confidence=0.36)
    for parameter in method.discriminators.parameters():
        parameter.data.mul_(2.0)  # so that they differ
    return method


def looked_at(method: DCTN, batch: Batch) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """What classifiers (rows, sources, classes) and discriminators (rows, sources) say, and each source's rows."""
    features = method.embed(batch)
    told = np.stack([1 / (1 + np.exp(-numbers(d(features))[:, 0])) for d in method.discriminators], axis=1)
    owners = batch.domains[batch.source].numpy() - 1
    return softmax(numbers(method.heads(features))), told, [np.flatnonzero(owners == j) for j in range(SOURCES)]


def mixture(p: np.ndarray, told: np.ndarray, concentration: np.ndarray) -> np.ndarray:
    perplexity = -np.log(1 - told) + concentration
    weights = perplexity / perplexity.sum(axis=1, keepdims=True)
    return (weights[:, :, None] * p).sum(axis=1)


def test_the_backbone_confuses_the_discriminator_whose_loss_is_largest(dctn, make_batch):
    batch = make_batch("msda", batch=4)
    losses = dctn.phases()[0].losses(batch, PROGRESS)
    p, told, rows = looked_at(dctn, batch)
    target, labels = told[batch.target], batch.labels.numpy()
    mistakes = [surprise(told[rows[j], j]) + surprise(1 - target[:, j]) for j in range(SOURCES)]
    hardest = int(np.argmax(mistakes))
    expected = sum((surprise(d) + surprise(1 - d)) / 2 for d in (told[rows[hardest], hardest], target[:, hardest]))
    assert losses["confusion"].item() == pytest.approx(expected, rel=1e-4)
    known = sum(surprise(p[rows[j], j, labels[rows[j]]]) for j in range(SOURCES))
    assert losses["classification"].item() == pytest.approx(known, rel=1e-4)


def test_the_discriminators_learn_their_source_from_the_target(dctn, make_batch):
    batch = make_batch("msda", batch=4)
    losses = dctn.phases()[1].losses(batch, PROGRESS)
    _, told, rows = looked_at(dctn, batch)
    expected = sum(surprise(told[rows[j], j]) + surprise(1 - told[batch.target][:, j]) for j in range(SOURCES))
    assert losses.total.item() == pytest.approx(expected, rel=1e-4)
    losses.total.backward()
    assert all(parameter.grad is None for parameter in dctn.backbone.parameters())


def test_classifiers_learn_labels_and_what_the_mixture_is_sure_of(dctn, make_batch):
    batch = make_batch("msda", batch=4, target=9)
    dctn.concentration.copy_(torch.tensor([0.5, 0.0, 2.0]))
    losses = dctn.phases()[2].losses(batch, PROGRESS)
    p, told, rows = looked_at(dctn, batch)
    mixed = mixture(p[batch.target], told[batch.target], numbers(dctn.concentration))
    sure, guess = mixed.max(axis=1) >= 0.36, mixed.argmax(axis=1)
    assert 0 < sure.sum() < 9, mixed.max(axis=1)
    labels, expected = batch.labels.numpy(), 0.0
    for j in range(SOURCES):
        known = -np.log(p[rows[j], j, labels[rows[j]]])
        guessed = -np.log(p[batch.target][np.flatnonzero(sure), j, guess[sure]])
        expected += np.concatenate([known, guessed]).mean()
    assert losses["classification"].item() == pytest.approx(expected, rel=1e-4)
    assert losses.watched["pseudo_labelled"].item() == pytest.approx(sure.mean())


def test_predictions_weigh_a_source_by_how_much_a_row_looks_like_it(dctn, make_batch):
    dctn.eval().concentration.copy_(torch.tensor([0.5, 0.0, 2.0]))
    features = dctn.features(make_batch("msda").images[0])
    told = np.stack([1 / (1 + np.exp(-numbers(d(features))[:, 0])) for d in dctn.discriminators], axis=1)
    expected = mixture(softmax(numbers(dctn.heads(features))), told, numbers(dctn.concentration))
    np.testing.assert_allclose(numbers(dctn.classify(features).softmax(dim=1)), expected, rtol=1e-4)


def test_a_sources_concentration_follows_how_sure_its_discriminator_is_of_it(dctn, make_batch):
    batch = make_batch("msda", batch=4)
    batch.domains[batch.domains == 2] = 3  # the second source has no row
    dctn.concentration.copy_(torch.tensor([0.5, 0.7, 2.0]))
    dctn.phases()[1].losses(batch, PROGRESS)
    _, told, rows = looked_at(dctn, batch)
    dctn.after_step(PROGRESS)
    expected = [0.99 * 0.5 + 0.01 * surprise(1 - told[rows[0], 0]), 0.7]
    expected.append(0.99 * 2.0 + 0.01 * surprise(1 - told[rows[2], 2]))
    np.testing.assert_allclose(numbers(dctn.concentration), expected, rtol=1e-5)


def test_each_phase_updates_just_what_it_says(dctn):
    updates = [("backbone.",), ("discriminators.",), ("backbone.", "heads.")]
    assert [phase.updates for phase in dctn.phases()] == updates


def test_discriminators_tell_domains_and_the_backbone_hides_them(dctn, make_batch):
    batch = make_batch("msda", batch=6, target=8)
    confuse, discriminate, _ = dctn.phases()

    def mistakes() -> float:
        return discriminate.losses(batch, PROGRESS).total.item()

    for phase, name, part, sign in (
        (discriminate, "discrimination", dctn.discriminators, -1),
        (confuse, "confusion", dctn.backbone, 1),
    ):
        before = mistakes()
        for _ in range(10):
            gradients = torch.autograd.grad(
                phase.losses(batch, PROGRESS)[name], list(part.parameters()), allow_unused=True
            )
            with torch.no_grad():
                for parameter, gradient in zip(part.parameters(), gradients, strict=True):
                    parameter -= 0.05 * gradient
        assert sign * (mistakes() - before) > 0.01


def test_settings_that_make_no_sense_are_refused():
    for wrong in (
        {"confidence": 1.5},
        {"confusion_weight": -1.0},
        {"discriminator_width": 0},
        {"discriminator_dropout": 2.0},
        {"concentration_momentum": -0.1},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            DCTN.Settings(**wrong)
