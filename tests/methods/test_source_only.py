import numpy as np
import pytest
import torch

from hda.batch import Batch, Layout
from hda.data.images import from_arrays
from hda.data.scenario import Scenario
from hda.engine.settings import Settings


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_loss_is_the_classification_of_every_labelled_row(setting, make_method, make_batch, outputs):
    method, batch = make_method("source-only", setting), make_batch(setting)
    seen = outputs(method.head)
    losses = method.losses(batch, None)
    x = seen[0].detach().double().numpy()
    assert len(x) == batch.layout.labelled
    p = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    expected = -np.log(p[np.arange(len(x)), batch.labels.numpy()]).mean()
    assert losses.keys() == {"classification"}
    assert losses.total.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_it_is_the_same_without_any_target(setting, make_method, make_batch):
    batch = make_batch(setting)
    labelled = batch.labelled
    layout = Layout(batch.layout.source, batch.layout.labelled_target, 0)
    alone = Batch((batch.images[0][labelled],), batch.labels, batch.domains[labelled], layout)
    with_target, without = (make_method("source-only", setting).train() for _ in range(2))
    assert torch.equal(with_target.losses(batch, None).total, without.losses(alone, None).total)
    torch.testing.assert_close(with_target.state_dict(), without.state_dict(), rtol=0, atol=0)


def test_a_run_of_it_gives_no_rows_to_the_target():
    pictures = np.zeros((6, 8, 8, 3), dtype=np.uint8)
    source = from_arrays(pictures, np.arange(6) % 2, ("a", "b"), name="source")
    scenario = Scenario((source,), from_arrays(pictures, name="target"))
    layouts = {name: Settings.given(method=name, batch=4).layout(scenario) for name in ("source-only", "hdan")}
    assert layouts == {"source-only": Layout(4, 0, 0), "hdan": Layout(4, 0, 4)}
