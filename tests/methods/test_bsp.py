import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.bsp import BSP

PROGRESS = Progress(torch.tensor(100.0), 1000)


@pytest.mark.parametrize("count", [1, 2])
def test_the_largest_singular_values_of_each_side_are_penalised(count, make_method, make_batch, outputs):
    method, batch = make_method("bsp", "ssda", singular_values=count, spectral_weight=0.3).eval(), make_batch("ssda")
    heads = outputs(method.head)
    losses = method.losses(batch, PROGRESS)
    features = heads[0].features.detach().double().numpy()
    expected = sum(
        (np.linalg.svd(features[side], compute_uv=False)[:count] ** 2).sum() for side in (batch.labelled, batch.target)
    )
    assert losses["spectral"].item() == pytest.approx(0.3 * expected, rel=1e-4)


def test_its_adversary_is_that_of_cdan_e(make_method, make_batch):
    bsp, cdan_e = (make_method(name).eval() for name in ("bsp", "cdan-e"))
    one, other = (method.losses(make_batch(), PROGRESS) for method in (bsp, cdan_e))
    assert one.keys() - other.keys() == {"spectral"}
    assert one["transfer"].item() == other["transfer"].item()


def test_with_it_the_largest_direction_stands_out_less_after_training(make_method, make_batch, make_step):
    def share(weight: float) -> float:
        """The largest squared singular value of the target's features, of the sum of all."""
        method, batch = make_method("bsp", spectral_weight=weight), make_batch(batch=8, target=8)
        step = make_step(method, batch)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for _ in range(40):
                step.run()
            with torch.no_grad():
                features = method.head(method.embed(batch)).features[batch.target]
        values = np.linalg.svd(features.double().numpy(), compute_uv=False) ** 2
        return values[0] / values.sum()

    assert share(0.01) < share(0.0) - 0.05


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UserError, match="singular_values must be at least 1"):
        BSP.Settings(singular_values=0)
    with pytest.raises(UserError, match="spectral_weight must be at least 0"):
        BSP.Settings(spectral_weight=-1.0)
