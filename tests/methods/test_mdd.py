import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.losses import margin_disparity
from hda.methods.mdd import MDD

PROGRESS = Progress(torch.tensor(1000.0), 6000)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_losses_are_those_of_the_paper(setting, make_method, make_batch, outputs):
    method, batch = make_method("mdd", setting, margin=3.0).eval(), make_batch(setting)
    main, auxiliary = outputs(method.head), outputs(method.align.auxiliary)
    losses = method.losses(batch, PROGRESS)
    assert losses.keys() == {"classification", "disparity"}
    expected = margin_disparity(main[0], auxiliary[0], batch.labelled, batch.target, 3.0)
    assert losses["disparity"].item() == expected.item()


def test_the_two_classifiers_are_of_two_layers_of_2048_and_differ(make_method):
    method = make_method("mdd")
    shapes = [[tuple(p.shape) for p in head.parameters()] for head in (method.head, method.align.auxiliary)]
    assert shapes[0] == shapes[1]
    assert shapes[0][0][0] == 2048
    weights = [next(iter(head.parameters())) for head in (method.head, method.align.auxiliary)]
    assert not torch.equal(*weights)


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"margin": -1.0}, {"reversal_strength": -0.1}, {"reversal_horizon": 0.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            MDD.Settings(**wrong)


def test_the_classifiers_start_as_small_gaussians(make_method):
    method = make_method("mdd")
    for classifier in (method.head, method.align.auxiliary):
        assert classifier.layers[1].weight.std().item() == pytest.approx(0.01, rel=0.1)
    assert MDD.revision == 2
