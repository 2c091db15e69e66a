import pytest
import torch

from hda.batch import Progress
from hda.methods.base import Losses, Method, Phase, Reference


class Parts(Method):
    """Built of what `build` is handed."""

    name = "parts"
    reference = Reference("", "", "")

    def build(self, width, classes, domains):
        self.given = (width, classes, domains)
        self.layer = torch.nn.Linear(width, classes)

    def classify(self, features):
        return self.layer(features)


def test_losses_are_named_terms_and_their_sum():
    losses = Losses(one=torch.tensor(1.5), two=torch.tensor(-0.25))
    assert losses.total.item() == 1.25
    assert list(losses) == ["one", "two"]


def test_what_is_watched_is_not_in_the_sum_and_has_no_gradient():
    x = torch.tensor(3.0, requires_grad=True)
    losses = Losses(one=2 * x).watching(size=x * x).watching(other=x + 1)
    losses.total.backward()
    assert x.grad.item() == 2.0
    assert {name: value.item() for name, value in losses.watched.items()} == {"size": 9.0, "other": 4.0}
    assert not any(value.requires_grad for value in losses.watched.values())


def test_a_method_is_built_for_its_backbone_classes_and_domains(backbone):
    method = Parts(backbone, classes=7, domains=3)
    assert method.given == (backbone.width, 7, 3)
    assert isinstance(method.settings, Method.Settings)
    assert method(torch.rand(2, 3, 16, 16)).shape == (2, 7)
    assert [(phase.name, phase.updates, phase.repeat) for phase in method.phases()] == [("step", ("",), 1)]
    assert Phase("again", method.losses).losses == method.losses
    method.after_step(Progress(torch.tensor(0.0), 1))
    with pytest.raises(NotImplementedError):
        method.losses(None, None)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_embedding_normalises_the_labelled_rows_and_the_targets_apart(setting, backbone, make_batch):
    method, batch = Parts(backbone, 4, 4).train(), make_batch(setting, views=2)
    for view in (0, 1):
        images = batch.images[view]
        labelled, target = backbone(images[batch.labelled]), backbone(images[batch.target])
        torch.testing.assert_close(method.embed(batch, view=view), torch.cat([labelled, target]))
        torch.testing.assert_close(method.embed(batch, batch.labelled, view), labelled)
        torch.testing.assert_close(method.embed(batch, batch.target, view), target)
    assert (method.embed(batch) - backbone(batch.images[0])).abs().max() > 1e-3  # all as one would differ
