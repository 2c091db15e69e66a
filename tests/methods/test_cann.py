import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.cann import CANN

PROGRESS = Progress(torch.tensor(5.0), 100)


def softmax(logits: torch.Tensor) -> np.ndarray:
    x = logits.detach().double().numpy()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def entropy(logits: torch.Tensor) -> float:
    p = softmax(logits)
    return float(-(p * np.log(p + 1e-5)).sum(axis=1).mean())


@pytest.fixture
def cann(make_method) -> CANN:
    return make_method("cann", "ssda", cosine_width=12)


def test_each_classifier_learns_its_own_domains_labels_above_all(cann, make_batch):
    batch = make_batch("ssda")
    phases = {phase.name: phase for phase in cann.phases()}
    for name, head, share in (("source", cann.scattering, 0.75), ("target", cann.clustering, 0.25)):
        losses = phases[name].losses(batch, PROGRESS)
        expected = 0.0
        for part, weight in ((batch.source, share), (batch.labelled_target, 1 - share)):
            p = softmax(head(cann.embed(batch, part)).logits)
            expected -= weight * np.log(p[np.arange(3), batch.labels[part].numpy()]).mean()
        assert losses.keys() == {"classification"}
        assert losses.total.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("name", "part", "sign"), [("cluster", "target", -1), ("scatter", "source", 1)])
def test_target_is_clustered_and_source_is_scattered_against_their_classifiers(name, part, sign, cann, make_batch):
    batch = make_batch("ssda", batch=8, target=8)
    phase = next(phase for phase in cann.phases() if phase.name == name)
    head, rows = (cann.clustering, batch.target) if name == "cluster" else (cann.scattering, batch.source)

    def unsure() -> float:
        return entropy(head(cann.embed(batch, rows)).logits)

    assert part in ("target", "source")
    assert phase.losses(batch, PROGRESS).total.item() == pytest.approx(sign * 0.1 * unsure(), rel=1e-4)
    classifier = list(head.prototypes.parameters())
    before_it = [*head.narrow.parameters(), *cann.backbone.parameters()]
    for moving, effect in ((classifier, -sign), (before_it, sign)):
        before = unsure()
        for _ in range(5):
            gradients = torch.autograd.grad(phase.losses(batch, PROGRESS).total, moving)
            with torch.no_grad():
                for parameter, gradient in zip(moving, gradients, strict=True):
                    parameter -= 0.1 * gradient
        assert effect * (unsure() - before) > 1e-4


def test_each_phase_updates_the_backbone_and_its_classifier(cann):
    updates = {phase.name: phase.updates for phase in cann.phases()}
    first, second = ("backbone.", "scattering."), ("backbone.", "clustering.")
    assert list(updates.items()) == [("source", first), ("target", second), ("cluster", second), ("scatter", first)]


def test_predictions_are_the_sum_of_both_classifiers_logits(cann, make_batch):
    features = cann.eval().features(make_batch("ssda").images[0])
    expected = cann.scattering(features).logits + cann.clustering(features).logits
    assert torch.equal(cann.classify(features), expected)


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"labelled_share": 1.5}, {"entropy_weight": -1.0}, {"cosine_width": 0}, {"cosine_temperature": 0.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            CANN.Settings(**wrong)
