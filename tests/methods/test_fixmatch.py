import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.fixmatch import FixMatch

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(logits: torch.Tensor) -> np.ndarray:
    x = logits.detach().double().numpy()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_a_strong_view_learns_what_the_weak_view_is_sure_of(setting, make_method, make_batch):
    method = make_method("fixmatch", setting, confidence=0.4, pseudo_weight=2.0)
    batch = make_batch(setting, views=2, target=9)
    losses = method.losses(batch, PROGRESS)
    p = softmax(method.head(method.embed(batch)))
    labelled, weak = p[batch.labelled], p[batch.target]
    strong = softmax(method.head(method.embed(batch, batch.target, view=1)))
    sure = weak.max(axis=1) >= 0.4
    assert 0 < sure.sum() < 9
    each = -np.log(strong[np.arange(9), weak.argmax(axis=1)])
    known = -np.log(labelled[np.arange(len(labelled)), batch.labels.numpy()]).mean()
    assert losses["classification"].item() == pytest.approx(known, rel=1e-4)
    assert losses["pseudo_label"].item() == pytest.approx(2.0 * (sure * each).mean(), rel=1e-4)
    assert losses.watched["pseudo_labelled"].item() == pytest.approx(sure.mean())


def test_the_weak_view_teaches_and_does_not_learn(make_method, make_batch):
    method, batch = make_method("fixmatch", confidence=0.0), make_batch(views=2)
    batch.images[0].requires_grad_()
    batch.images[1].requires_grad_()
    weak, strong = torch.autograd.grad(method.losses(batch, PROGRESS)["pseudo_label"], batch.images, allow_unused=True)
    assert weak is None or not weak.any()
    assert strong[batch.target].any()


def test_the_papers_values_are_the_defaults():
    assert (FixMatch.Settings().confidence, FixMatch.Settings().pseudo_weight) == (0.95, 1.0)
    assert (FixMatch.views, FixMatch.strong_views) == (2, 1)
    for wrong in ({"confidence": 1.5}, {"pseudo_weight": -1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            FixMatch.Settings(**wrong)
