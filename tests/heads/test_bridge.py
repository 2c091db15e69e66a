import math

import pytest
import torch

from hda.errors import UserError
from hda.heads.bridge import Bridge


def test_scores_are_the_classifiers_less_the_bridges_and_its_size_is_a_loss(make_batch):
    kind = Bridge(Bridge.Settings(bridge_weight=0.3))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = kind.build(400, 50)
        x = torch.randn(6, 400)
    out = head(x)
    classifier = x @ head.fundament.weight.T + head.fundament.bias
    bridge = x @ head.heuristics.weight.T + head.heuristics.bias
    torch.testing.assert_close(kind.read(out, x).logits, classifier - bridge)
    assert kind.read(out, x).features is out.g  # what alignments on features see
    assert kind.width(400, 50) == 50
    terms = kind.terms(out, make_batch())
    assert terms["bridge"].item() == pytest.approx(0.3 * bridge.abs().mean().item(), rel=1e-5)
    for weight in (head.fundament.weight, head.heuristics.weight):  # both start as any layer
        assert weight.std().item() == pytest.approx(math.sqrt(2 / 400), rel=0.03)


def test_a_negative_weight_is_refused():
    with pytest.raises(UserError, match=r"^bridge_weight must be at least 0: got -1\.0$"):
        Bridge.Settings(bridge_weight=-1.0)
