import dataclasses

import numpy as np
import torch
from torch import nn

from hda import testing
from hda.batch import Progress
from hda.methods.adabn import AdaBN

PROGRESS = Progress(torch.tensor(5.0), 100)


def norm_of(module: nn.Module) -> nn.Module:
    return next(layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d))


def test_its_batch_norms_know_the_target_alone_and_the_trained_ones_the_labelled_rows(make_method, make_batch):
    method, batch = make_method("adabn", "ssda").train(), make_batch("ssda", target=8)
    seen: dict[str, list] = {"adapted": [], "backbone": []}
    for name in seen:
        norm_of(getattr(method, name)).register_forward_pre_hook(
            lambda layer, given, name=name: seen[name].append(given[0].detach().double().numpy())
        )
    method.losses(batch, PROGRESS)
    for name, rows in (("adapted", 8), ("backbone", batch.layout.labelled)):
        (values,) = seen[name]
        assert len(values) == rows
        expected = 0.1 * values.mean(axis=(0, 2, 3))  # from zero, with a momentum of 0.1
        got = norm_of(getattr(method, name)).running_mean.numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_the_copy_has_the_trained_weights_after_every_step_and_its_own_statistics(make_method, make_batch, make_step):
    method = make_method("adabn")
    step = make_step(method, make_batch())
    for _ in range(3):
        step.run()
        trained, copied = method.backbone.named_parameters(), method.adapted.module.parameters()
        for (name, one), other in zip(trained, copied, strict=True):
            assert torch.equal(one, other), name
    assert not torch.equal(norm_of(method.backbone).running_mean, norm_of(method.adapted).running_mean)


def test_it_reads_a_target_of_other_colours_better_than_the_source_does():
    case = testing.Case(AdaBN, "uda")
    batch = case.batch(batch=24, target=24)
    random = torch.Generator().manual_seed(1)
    colours = 2.0 * torch.randn(testing.CLASSES, 3, generator=random)
    hidden = torch.arange(24) % testing.CLASSES
    clean = colours[torch.cat([batch.labels, hidden])][:, :, None, None] + 0.3 * batch.images[0]
    images = torch.cat([clean[:24], 0.3 * clean[24:] + 2.0])  # weak colours in a strong light
    step = case.step(case.method(), dataclasses.replace(batch, images=(images,)), lr=0.005)
    testing.after_steps(step, 60)
    method = step.method.eval()
    with torch.no_grad():
        adapted, source = method(images[24:]), method.head(method.backbone(images[24:]))
    right = [(logits.argmax(dim=1) == hidden).float().mean().item() for logits in (adapted, source)]
    assert right[0] > right[1] + 0.2
