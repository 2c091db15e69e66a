import torch

from hda.batch import Progress
from hda.methods.aligned import method_class
from hda.methods.gvb import GVB
from hda.nn import BridgedDiscriminator, DomainDiscriminator

PROGRESS = Progress(torch.tensor(100.0), 1000)


def test_it_is_hdan_of_one_heuristic_that_starts_like_any_layer(make_method, make_batch):
    gvb = make_method("gvb").eval()
    hdan = make_method("hdan", heuristics=1, fundament_slope=0.0).eval()
    assert gvb.state_dict().keys() == hdan.state_dict().keys()
    hdan.load_state_dict(gvb.state_dict())
    one, other = (method.losses(make_batch(), PROGRESS) for method in (gvb, hdan))
    assert one["bridge"].item() == other["termination"].item()
    assert one["transfer"].item() == other["transfer"].item()
    assert one["classification"].item() == other["classification"].item()


def test_the_discriminators_bridge_is_an_option(make_method, make_batch):
    assert isinstance(make_method("gvb").align.discriminator, DomainDiscriminator)
    both = make_method("gvb", discriminator_bridge=True)
    assert isinstance(both.align.discriminator, BridgedDiscriminator)
    assert both.losses(make_batch(), PROGRESS).keys() == {
        "classification",
        "transfer",
        "discriminator_bridge",
        "bridge",
    }


def test_its_bridge_goes_with_any_alignment(backbone, make_batch):
    cls = method_class("gvb", alignment="mcd")
    assert cls.name == "bridge+mcd"
    assert cls(backbone, 4, 2, cls.Settings(bridge_weight=0.5)).phases()[0].losses(make_batch(), PROGRESS)["bridge"] > 0
    assert method_class("gvb", head="plain").Settings().discriminator_bridge is False


def test_the_bridge_vanishes_as_it_trains(make_method, make_batch, make_step):
    step = make_step(make_method("gvb"), make_batch(batch=8, target=8))
    step.run()
    first = step.measured(1)["bridge"]
    for _ in range(40):
        step.run()
    step.measured(40)
    step.run()
    assert step.measured(1)["bridge"] < 0.5 * first


def test_its_defaults_are_those_of_the_published_code():
    s = GVB.Settings()
    assert (s.bridge_weight, s.transfer_weight, s.discriminator_width, s.reversal_horizon) == (1.0, 1.0, 1024, 10_000.0)
