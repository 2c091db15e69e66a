import numpy as np
import pytest
import torch

from hda.errors import UserError
from hda.heads.cosine import Cosine
from hda.registry import registered

HEADS = registered("heads")
BEFORE = dict.fromkeys(("bottleneck", "cosine"), ("features", "narrow."))  # what precedes a classifier


def rows(width: int = 6) -> torch.Tensor:
    return torch.randn(5, width, generator=torch.Generator().manual_seed(0), requires_grad=True)


def test_the_scores_are_of_the_direction_over_the_temperature():
    kind = Cosine(Cosine.Settings(cosine_width=3, cosine_temperature=0.1))
    head, features = kind.build(6, 4), rows()
    scores = kind.read(head(features), features)
    narrow = features.detach().numpy() @ head.narrow.weight.detach().numpy().T + head.narrow.bias.detach().numpy()
    unit = narrow / np.linalg.norm(narrow, axis=1, keepdims=True)
    expected = unit @ head.prototypes.weight.detach().numpy().T / 0.1
    np.testing.assert_allclose(scores.logits.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores.features.detach().numpy(), narrow, rtol=1e-5, atol=1e-6)
    assert kind.width(6, 4) == 3
    assert head.prototypes.bias is None


@pytest.mark.parametrize("name", HEADS)
def test_opposed_scores_are_the_same_and_their_gradient_turns_where_the_classifier_begins(name):
    kind = HEADS[name]()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        head = kind.build(6, 4).eval()
    features = rows()
    plain = kind.read(head(features), features).logits
    opposed = kind.opposed(head, features, 0.5)
    assert torch.equal(plain, opposed)
    wanted = {"features": features, **dict(head.named_parameters())}
    usual, turned = (
        torch.autograd.grad(x.square().sum(), list(wanted.values()), allow_unused=True) for x in (plain, opposed)
    )
    for key, one, other in zip(wanted, usual, turned, strict=True):
        if one is not None:
            factor = -0.5 if key.startswith(BEFORE.get(name, ("features",))) else 1.0
            torch.testing.assert_close(other, factor * one)


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"cosine_width": 0}, {"cosine_temperature": 0.0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            Cosine.Settings(**wrong)
