import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.losses import density_divergence
from hda.methods.atm import ATM

PROGRESS = Progress(torch.tensor(100.0), 1000)


def test_the_divergence_is_of_softmaxed_features_under_true_and_predicted_classes(make_method, make_batch, outputs):
    method, batch = make_method("atm", tight_weight=0.4).eval(), make_batch(batch=5, target=7)
    heads = outputs(method.head)
    losses = method.losses(batch, PROGRESS)
    scaled = heads[0].features.softmax(dim=1)
    predicted = heads[0].logits[batch.target].argmax(dim=1)
    expected = density_divergence(scaled[:5], scaled[5:], batch.labels, predicted, 0.4)
    assert losses["density"].item() == pytest.approx(0.01 * expected.item(), rel=1e-5)
    assert losses.keys() == {"classification", "transfer", "density"}


def test_its_adversary_is_that_of_cdan_e(make_method, make_batch):
    atm, cdan_e = (make_method(name).eval() for name in ("atm", "cdan-e"))
    one, other = (method.losses(make_batch(), PROGRESS)["transfer"].item() for method in (atm, cdan_e))
    assert one == other


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"density_weight": -1.0}, {"tight_weight": -1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            ATM.Settings(**wrong)
