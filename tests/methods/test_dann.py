import math

import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.cdan import CDAN
from hda.methods.cdan_e import CDANE
from hda.methods.dann import DANN
from hda.registry import registered

PROGRESS = Progress(torch.tensor(3000.0), 6000)


def gradients(method, loss):
    method.zero_grad()
    loss.backward(retain_graph=True)
    return {name: p.grad.clone() for name, p in method.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("name", "inputs"), [("dann", 256), ("cdan", 256 * 4), ("cdan-e", 256 * 4)])
def test_the_adversary_sees_the_bottleneck(name, inputs, make_method, make_batch):
    method = make_method(name).eval()
    losses = method.losses(make_batch(), PROGRESS)
    assert losses.keys() == {"classification", "transfer"}
    assert method.head.narrow.out_features == 256
    assert method.align.discriminator.layers[0].in_features == inputs
    assert {"align.discriminator.layers.0.weight", "head.narrow.weight"} <= gradients(method, losses["transfer"]).keys()


@pytest.mark.parametrize(("prefix", "grows"), [("align.", False), ("backbone.", True), ("head.narrow.", True)])
def test_a_step_makes_the_discriminator_better_and_what_lies_before_it_makes_it_worse(
    prefix, grows, make_method, make_batch
):
    method, batch = make_method("dann").eval(), make_batch()
    before = method.losses(batch, PROGRESS)["transfer"]
    found = gradients(method, before)
    with torch.no_grad():
        for name, parameter in method.named_parameters():
            if name.startswith(prefix):
                parameter -= 1e-3 * found[name]
        assert (method.losses(batch, PROGRESS)["transfer"] > before) == grows


def test_entropy_conditioning_is_what_tells_cdan_e_from_cdan():
    plain, conditioned = CDAN.Settings(), CDANE.Settings()
    assert not plain.entropy_conditioning
    assert conditioned.entropy_conditioning
    assert plain.discriminator_width == conditioned.discriminator_width == 1024
    assert plain.multilinear_limit == 32_768


def test_a_wide_head_gets_a_random_map(make_method):
    assert make_method("cdan").align.join.random is False
    assert make_method("cdan", multilinear_limit=100, multilinear_width=32).align.join.width == 32


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"reversal_horizon": 0.0}, {"discriminator_dropout": 2.0}, {"transfer_weight": -1.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            DANN.Settings(**wrong)
    with pytest.raises(UserError, match="multilinear_width must be at least 1"):
        CDAN.Settings(multilinear_width=0)


def test_the_reversal_is_an_iteration_ahead_as_in_the_code_that_counts_its_calls(make_method, make_batch):
    method, batch = make_method("dann").eval(), make_batch()
    found = gradients(method, method.losses(batch, Progress(torch.tensor(0.0), 6000))["transfer"])
    open_ = gradients(
        method, method.align(method.head(method.embed(batch)).features, (batch.labelled, batch.target), 1.0)
    )
    strength = 2 / (1 + math.exp(-10 / 10_000)) - 1  # not zero: the first call is counted
    torch.testing.assert_close(
        found["head.narrow.weight"], strength * open_["head.narrow.weight"], rtol=1e-4, atol=1e-12
    )


@pytest.mark.parametrize("name", registered("methods"))
def test_methods_whose_code_is_cdans_start_their_bottleneck_as_that(name):
    settings = registered("methods")[name].Settings()
    of_cdan = name in ("dann", "cdan", "cdan-e", "atm", "bsp", "mcc")
    assert getattr(settings, "bottleneck_start", "gaussian") == ("xavier" if of_cdan else "gaussian")
