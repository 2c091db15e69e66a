import pytest
import torch
from torch.nn import functional as F

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.cada import CADA
from hda.nn import certainty_attention

PROGRESS = Progress(torch.tensor(3000.0), 6000)


@pytest.mark.parametrize("kind", ["predictive", "aleatoric"])
def test_the_classifier_sees_the_attended_features_of_the_labelled_rows(kind, make_method, make_batch):
    method, batch = make_method("cada", uncertainty=kind).eval(), make_batch()
    losses = method.losses(batch, PROGRESS)
    features = method.narrow(method.embed(batch))[batch.labelled]
    attention = certainty_attention(features, method.discriminator.doubt(features, 1, kind))
    logits = method.scores(method.hidden(features * attention))
    assert attention.max() > 1
    assert losses["classification"].item() == pytest.approx(F.cross_entropy(logits, batch.labels).item(), rel=1e-5)
    torch.testing.assert_close(method.classify(method.embed(batch)[batch.labelled]), logits)


def test_both_sides_count_the_same_and_the_features_gradient_is_reversed(make_method, make_batch):
    method, batch = make_method("cada", transfer_weight=0.5).eval(), make_batch(batch=2, target=6)
    losses = method.losses(batch, PROGRESS)
    told, _ = method.discriminator(method.narrow(method.embed(batch)))
    p = told.log_softmax(dim=1)
    expected = -(p[batch.labelled, 1].mean() + p[batch.target, 0].mean()) / 2
    assert losses["transfer"].item() == pytest.approx(0.5 * expected.item(), rel=1e-5)
    (got,) = torch.autograd.grad(losses["transfer"], method.narrow[0].weight)
    (plain,) = torch.autograd.grad(0.5 * expected, method.narrow[0].weight)
    strength = torch.tanh(torch.tensor(1.5))  # 2 / (1 + exp(-10 * 3000 / 10,000)) - 1
    torch.testing.assert_close(got, -strength * plain, rtol=1e-4, atol=1e-7)


def test_the_aleatoric_losses_are_weighted_and_teach_the_variances(make_method, make_batch):
    batch, found = make_batch(), []
    for weight in (0.2, 0.4):
        method = make_method("cada", aleatoric_weight=weight).eval()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            found.append(method.losses(batch, PROGRESS))
    for name in ("aleatoric", "transfer_aleatoric"):
        assert found[1][name].item() == pytest.approx(2 * found[0][name].item(), rel=1e-5)
    method.zero_grad()
    (found[1]["aleatoric"] + found[1]["transfer_aleatoric"]).backward()
    assert method.scale.weight.grad.any()
    assert method.discriminator.scale.weight.grad.any()


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"dropout_samples": 0}, {"head_dropout": 1.5}, {"aleatoric_weight": -1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            CADA.Settings(**wrong)
