import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.aligned import method_class
from hda.methods.mme import MME

PROGRESS = Progress(torch.tensor(5.0), 100)


def entropy(logits: torch.Tensor) -> float:
    x = logits.detach().double().numpy()
    p = np.exp(x - x.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return float(-(p * np.log(p + 1e-5)).sum(axis=1).mean())


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_first_phase_reads_the_labels_the_second_the_targets_entropy(setting, make_method, make_batch):
    method, batch = make_method("mme", setting, transfer_weight=0.3), make_batch(setting)
    learn, play = (phase.losses(batch, PROGRESS) for phase in method.phases())
    assert learn.keys() == {"classification"}
    assert play.keys() == {"entropy"}
    labelled, target = (method.head(method.embed(batch, part)).logits for part in (batch.labelled, batch.target))
    log_p = labelled.detach().double().log_softmax(dim=1).numpy()
    expected = -log_p[np.arange(len(log_p)), batch.labels.numpy()].mean()
    assert learn.total.item() == pytest.approx(expected, rel=1e-4)
    assert play.total.item() == pytest.approx(-0.3 * entropy(target), rel=1e-4)


@pytest.mark.parametrize("head", ["cosine", "heuristic", "plain"])
def test_the_classifier_raises_the_entropy_and_what_comes_before_it_lowers_it(head, make_batch, backbone):
    cls = method_class("mme", head)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        method = cls(backbone, 4, 2, cls.Settings())
    batch = make_batch(target=8)
    play = method.phases()[1].losses

    def unsure() -> float:
        return entropy(method.logits(method.head(method.embed(batch, batch.target)), None))

    classifier = ("head.prototypes",) if head == "cosine" else ("head.",)
    for moves, sign in (
        (lambda name: name.startswith(classifier), 1),
        (lambda name: not name.startswith(classifier), -1),
    ):
        moving = [p for name, p in method.named_parameters() if moves(name)]
        before = unsure()
        for _ in range(5):
            gradients = torch.autograd.grad(play(batch, PROGRESS).total, moving)
            with torch.no_grad():
                for parameter, gradient in zip(moving, gradients, strict=True):
                    parameter -= 0.02 * gradient
        assert sign * (unsure() - before) > 1e-5


def test_both_phases_update_everything(make_method, make_batch, make_step):
    step = make_step(make_method("mme", "ssda"), make_batch("ssda"), "ssda")
    everything = {id(p) for p in step.method.parameters()}
    assert [{id(p) for p in parameters} for _, parameters in step.phases] == [everything, everything]


def test_the_papers_weight_of_the_entropy_is_the_default():
    assert MME.Settings().transfer_weight == 0.1
    with pytest.raises(UserError, match="transfer_weight"):
        MME.Settings(transfer_weight=-1.0)
