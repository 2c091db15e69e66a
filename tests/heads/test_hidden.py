import numpy as np
import pytest
import torch

from hda.errors import UserError
from hda.heads.hidden import Hidden


def double(x: torch.Tensor) -> np.ndarray:
    return x.detach().double().numpy()


def test_the_classifier_reads_what_is_seen_as_the_features():
    kind = Hidden(Hidden.Settings(hidden=7))
    module, x = kind.build(5, 3).eval(), torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        module.norm.running_mean.normal_(generator=torch.Generator().manual_seed(1))
        module.norm.running_var.fill_(0.3)
        module.norm.bias.fill_(0.2)
    scores = kind.read(module(x), x)
    normed = (double(x) @ double(module.hidden.weight).T - double(module.norm.running_mean)) / np.sqrt(0.3 + 1e-5)
    hidden = np.maximum(normed * double(module.norm.weight) + 0.2, 0)
    np.testing.assert_allclose(double(scores.features), hidden, rtol=1e-5, atol=1e-6)
    expected = hidden @ double(module.classifier.weight).T + double(module.classifier.bias)
    np.testing.assert_allclose(double(scores.logits), expected, rtol=1e-5, atol=1e-6)
    assert kind.width(5, 4) == 7


@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.8])
def test_dropout_keeps_squared_norms_on_average(dropout):
    kind = Hidden(Hidden.Settings(hidden=2000, head_dropout=dropout))
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = kind.build(5, 3)
        module.dropout, dropout_of_its_own = 0.0, module.dropout
        whole = module.train()(x).features  # with the rows' own statistics
        module.dropout = dropout_of_its_own
        dropped = module(x).features
    assert dropped.square().sum().item() == pytest.approx(whole.square().sum().item(), rel=0.05)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], whole[kept] / (1 - dropout) ** 0.5)
    assert (kept.sum() / (whole > 0).sum()).item() == pytest.approx(1 - dropout, abs=0.03)


def test_a_single_row_is_normalised_by_what_was_seen_before():
    module = Hidden(Hidden.Settings(hidden=7, head_dropout=0.0)).build(5, 3)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        module.train()(x)
    seen = {name: value.clone() for name, value in module.state_dict().items()}
    alone = module(x[:1])
    assert all(torch.equal(value, seen[name]) for name, value in module.state_dict().items())
    torch.testing.assert_close(alone, module.eval()(x[:1]))


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"hidden": 0}, {"head_dropout": 1.0}, {"head_dropout": -0.5}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            Hidden.Settings(**wrong)
