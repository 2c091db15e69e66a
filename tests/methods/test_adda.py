import dataclasses

import pytest
import torch

from hda import testing
from hda.batch import Progress
from hda.errors import UserError
from hda.methods.adda import ADDA

BEFORE, AFTER = (Progress(torch.tensor(iteration), 100) for iteration in (10.0, 60.0))


def state(module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.named_parameters()}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> bool:
    return any(not torch.equal(before[name], after[name]) for name in before)


def test_first_the_labels_are_learnt_then_the_mapping(make_method, make_batch):
    method, batch = make_method("adda", adaptation_weight=0.7).eval(), make_batch()
    early, late = (method.encode(batch, progress) for progress in (BEFORE, AFTER))
    assert early["classification"] > 0
    assert early["mapping"] == 0
    assert late["classification"] == 0
    target = method.embed(batch, batch.target)
    # The label is inverted: the encoder wants its target features taken for the source's; half of all rows are these
    expected = torch.nn.functional.softplus(-method.discriminator(target)).mean() / 2
    assert late["mapping"].item() == pytest.approx(0.7 * expected.item(), rel=1e-5)


def test_the_switch_is_where_it_is_said_to_be(make_method):
    method = make_method("adda", pretraining=0.25)
    assert [method.adapting(Progress(torch.tensor(i), 100)).item() for i in (0.0, 24.0, 25.0, 99.0)] == [0, 0, 1, 1]


def test_the_discriminator_tells_the_source_encoders_source_from_the_target(make_method, make_batch):
    method, batch = make_method("adda").eval(), make_batch()
    with torch.no_grad():
        for parameter in method.source_backbone.parameters():
            parameter.add_(0.1)
        source = method.discriminator(method.source_backbone(batch.images[0][batch.labelled]))
        target = method.discriminator(method.backbone(batch.images[0][batch.target]))
    softplus = torch.nn.functional.softplus
    expected = 0.2 * (softplus(-source).mean() + softplus(target).mean()) / 2
    losses = method.discriminate(batch, AFTER)
    assert losses["domain"].item() == pytest.approx(expected.item(), rel=1e-5)
    losses.total.backward()
    assert all((p.grad is not None) == name.startswith("discriminator.") for name, p in method.named_parameters())


def test_the_copies_follow_while_pre_training_and_stand_still_then(make_method, make_batch, make_step):
    method = make_method("adda", pretraining=0.03)  # of a hundred steps
    step = make_step(method, make_batch())
    start = state(method)
    for number in range(6):
        before = state(method)
        step.run()
        after = state(method)
        kept = {name for name in after if name.startswith("source_") and not torch.equal(before[name], after[name])}
        assert bool(kept) == (number < 3)
        if number < 3:
            for name, value in after.items():
                if name.startswith("backbone."):
                    torch.testing.assert_close(after[f"source_backbone.module.{name.removeprefix('backbone.')}"], value)
        else:
            assert moved({k: v for k, v in before.items() if k.startswith("backbone.")}, after)
    assert moved(start, state(method))


def test_predictions_are_the_fixed_classifiers_on_the_target_encoders_features(make_method, make_batch):
    method, images = make_method("adda").eval(), make_batch().images[0]
    with torch.no_grad():
        method.head.linear.weight.add_(1.0)  # what is trained further is no longer asked
        expected = method.source_head(method.backbone(images))
        assert torch.equal(method(images), expected)


def test_the_target_comes_to_where_the_sources_features_are():
    case = testing.Case(ADDA, "uda", {"pretraining": 0.3, "adaptation_weight": 1.0})
    batch = testing.colours(case)
    step = case.step(case.method(), batch, lr=0.003)

    def gap() -> float:
        method = step.method.eval()
        with torch.no_grad():
            source = method.source_backbone(batch.images[0][batch.labelled]).mean(dim=0)
            target = method.backbone(batch.images[0][batch.target]).mean(dim=0)
        method.train()
        return (target - source).norm().item() / source.norm().item()

    testing.after_steps(step, 30)
    before = gap()
    testing.after_steps(step, 15)  # later discriminator and encoder go round each other
    assert gap() < 0.8 * before


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"pretraining": 1.5}, {"adaptation_weight": -1.0}, {"discriminator_width": 0}):
        with pytest.raises(UserError, match=next(iter(wrong))):
            ADDA.Settings(**wrong)
    assert dataclasses.asdict(ADDA.Settings())["pretraining"] == 0.5
