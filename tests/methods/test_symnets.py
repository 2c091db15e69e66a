import math

import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.symnets import SymNets

PROGRESS = Progress(torch.tensor(20.0), 100)
GROWN = math.tanh(5 * 0.2)  # 2 / (1 + exp(-10 * 0.2)) - 1


def softmax(logits: torch.Tensor) -> np.ndarray:
    x = logits.detach().double().numpy()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_losses_are_those_of_the_paper(setting, make_method, make_batch):
    method, batch = make_method("symnets", setting, confusion_weight=0.5), make_batch(setting)
    logits = method.head(method.embed(batch))
    losses = method.losses(batch, PROGRESS)

    labels = batch.labels.numpy()
    row, k = np.arange(len(labels)), 4
    source, target = softmax(logits[batch.labelled]), softmax(logits[batch.target])
    first, second = softmax(logits[batch.labelled][:, :k]), softmax(logits[batch.labelled][:, k:])
    either = target[:, :k] + target[:, k:]
    expected = {
        "classification": -np.log(first[row, labels]).mean() - np.log(second[row, labels]).mean(),
        "domain": -np.log(source[:, :k].sum(axis=1)).mean() - np.log(target[:, k:].sum(axis=1)).mean(),
        "category_confusion": -(np.log(source[row, labels]) + np.log(source[row, labels + k])).mean() / 2,
        "domain_confusion": -0.5 * GROWN * np.log(target[:, :k].sum(1) * target[:, k:].sum(1)).mean() / 2,
        "entropy": -0.5 * GROWN * (either * np.log(either)).sum(axis=1).mean(),
    }
    assert losses.keys() == expected.keys()
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-4), name


def test_classifiers_and_backbone_do_not_see_each_others_losses(make_method, make_batch):
    method, batch = make_method("symnets"), make_batch()
    for name, value in method.losses(batch, PROGRESS).items():
        reached = torch.autograd.grad(value, list(method.parameters()), allow_unused=True, retain_graph=True)
        parts = {
            key.partition(".")[0]
            for (key, _), g in zip(method.named_parameters(), reached, strict=True)
            if g is not None
        }
        assert parts == {"head" if name in ("classification", "domain") else "backbone"}, name


def test_the_backbone_hides_the_domain_that_the_classifiers_tell(make_method, make_batch):
    method, batch = make_method("symnets"), make_batch(batch=8, target=8)

    def told() -> float:
        """How likely the target's rows are taken for the target's."""
        target = softmax(method.head(method.embed(batch, batch.target)))
        return float(target[:, 4:].sum(axis=1).mean())

    for part, name, sign in ((method.head, "domain", 1), (method.backbone, "domain_confusion", -1)):
        before = told()
        for _ in range(20):
            gradients = torch.autograd.grad(method.losses(batch, PROGRESS)[name], list(part.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(part.parameters(), gradients, strict=True):
                    parameter -= 0.2 * gradient
        assert sign * (told() - before) > 0.01


def test_predictions_are_the_target_classifiers(make_method, make_batch):
    method, images = make_method("symnets").eval(), make_batch().images[0]
    assert torch.equal(method(images), method.head(method.features(images))[:, 4:])


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UserError, match="confusion_weight"):
        SymNets.Settings(confusion_weight=-1.0)
