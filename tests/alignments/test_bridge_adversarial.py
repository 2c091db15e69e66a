import pytest
import torch

from hda.alignments.bridge_adversarial import BridgedAdversary
from hda.alignments.entropy_adversarial import EntropyConditionedAdversary
from hda.batch import Progress
from hda.losses import domain_classification

PROGRESS = Progress(torch.tensor(3000.0), 6000)


class Seen:
    """What the alignment reads of what a method has seen."""

    def __init__(self, batch):
        self.logits = torch.randn(batch.layout.rows, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
        self.batch, self.progress = batch, PROGRESS


def make(kind, domains: int, **options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(4, domains, width=8, **options).eval()


@pytest.mark.parametrize(("setting", "domains"), [("uda", 2), ("msda", 4), ("ssda", 3)])
def test_without_the_discriminators_bridge_it_is_hdans_adversary(setting, domains, make_batch):
    seen = Seen(make_batch(setting))
    bare = make(BridgedAdversary, domains, bridge_weight=None)
    same = make(EntropyConditionedAdversary, domains)
    assert dict(bare.terms(seen)) == dict(same.terms(seen))
    assert bare.state_dict().keys() == same.state_dict().keys()


@pytest.mark.parametrize(("setting", "domains", "factor"), [("uda", 2, 0.5), ("msda", 4, 1.0), ("ssda", 3, 2 / 3)])
def test_the_bridge_is_taken_from_the_discriminators_logits_and_its_size_is_a_loss(
    setting, domains, factor, make_batch
):
    seen = Seen(make_batch(setting))
    align = make(BridgedAdversary, domains, bridge_weight=0.7)
    terms = align.terms(seen)
    trunk = align.discriminator.trunk(seen.logits.softmax(dim=1))
    main, bridge = align.discriminator.last(trunk), align.discriminator.bridge(trunk)
    batch = seen.batch
    weights = align.weights(seen.logits, batch.groups, PROGRESS.iteration)
    expected = factor * domain_classification(main - bridge, batch.domains, weights)
    assert terms["transfer"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert terms["discriminator_bridge"].item() == pytest.approx(0.7 * bridge.abs().mean().item(), rel=1e-5)


def test_the_bridge_vanishes_while_its_size_is_minimised(make_batch):
    seen, align = Seen(make_batch("uda", batch=8, target=8)), make(BridgedAdversary, 2)
    optimiser = torch.optim.SGD(align.parameters(), lr=0.05)
    before = align.terms(seen)["discriminator_bridge"].item()
    for _ in range(100):
        optimiser.zero_grad()
        align.terms(seen).total.backward()
        optimiser.step()
    assert align.terms(seen)["discriminator_bridge"].item() < 0.5 * before
