import numpy as np
import pytest
import torch
from torch import nn

from hda.batch import Progress
from hda.methods.safn import SAFN

PROGRESS = Progress(torch.tensor(5.0), 100)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_labelled_and_target_rows_are_normalised_apart_in_the_head_too(setting, make_method, make_batch, outputs):
    method, batch = make_method("safn", setting, hidden=12, head_dropout=0.0).train(), make_batch(setting)
    seen, given = outputs(method.head), []
    method.head.norm.register_forward_pre_hook(lambda layer, args: given.append(args[0]))
    method.losses(batch, PROGRESS)
    (before,), ((logits, features),) = given, seen
    x, expected = before.detach().double().numpy(), []
    for rows in (batch.labelled, batch.target):
        part = x[rows]
        expected.append((part - part.mean(axis=0)) / np.sqrt(part.var(axis=0) + 1e-5))
    scale = method.head.norm.weight.detach().double().numpy()
    normalised = np.maximum(np.concatenate(expected) * scale, 0)
    np.testing.assert_allclose(features.detach().double().numpy(), normalised, rtol=1e-3, atol=1e-4)
    assert len(logits) == batch.layout.rows


def test_the_loss_is_the_classification_and_a_twentieth_of_the_growth(make_method, make_batch, outputs):
    method, batch = make_method("safn", hidden=12), make_batch()
    seen = outputs(method.head)
    losses = method.losses(batch, PROGRESS)
    logits = seen[0].logits.detach()[batch.labelled]
    classification = nn.functional.cross_entropy(logits, batch.labels).item()
    assert losses["classification"].item() == pytest.approx(classification, rel=1e-5)
    assert losses["transfer"].item() == pytest.approx(0.05 * (1 + 1), rel=1e-5)
    norms = np.linalg.norm(seen[0].features.detach().numpy(), axis=1)
    assert losses.watched["target_norm"].item() == pytest.approx(norms[batch.target].mean(), rel=1e-5)


def test_the_published_layer_has_a_thousand_units():
    assert (SAFN.Settings().hidden, SAFN.Settings().head_dropout) == (1000, 0.5)
