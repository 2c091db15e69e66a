import ast
import contextlib
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from hda import backbones, testing
from hda.bench import plain
from hda.methods.hdan import HDAN


def test_it_shares_no_line_with_the_package():
    tree = ast.parse(Path(plain.__file__).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names} | {getattr(node, "module", None) for node in nodes}
    assert not [name for name in names if name and name.partition(".")[0] == "hda"]
    assert {name.partition(".")[0] for name in names if name} & {"torch", "PIL"}


@pytest.fixture
def net():
    torch.manual_seed(0)
    return plain.Net(nn.Sequential(nn.Flatten(), nn.Linear(48, 6)), 6, classes=3, heuristics=2, width=4)


def numbers(*shape):
    return torch.from_numpy(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def test_heuristics_are_taken_from_the_fundament(net):
    x = numbers(5, 3, 4, 4)
    g, h = net(x)
    z = net.features(x)
    torch.testing.assert_close(h, net.heuristics[0](z) + net.heuristics[1](z))
    torch.testing.assert_close(g, net.fundament(z) - h)


def test_transfer_is_the_weighted_cross_entropy_of_the_domains(net):
    net.eval()
    g = numbers(5, 3)
    p = np.exp(g.numpy()) / np.exp(g.numpy()).sum(1, keepdims=True)
    weights = np.exp((p * np.log(p + 1e-5)).sum(1))
    weights = np.concatenate([weights[:2] / weights[:2].sum(), weights[2:] / weights[2:].sum()])
    with torch.no_grad():
        logits = net.discriminator(torch.from_numpy(p))[:, 0].numpy()
    each = np.log1p(np.exp(np.where(np.arange(5) < 2, -logits, logits)))
    assert plain.transfer(net, g, 2, 100).item() == pytest.approx((weights * each).sum() / 2, rel=1e-5)


@pytest.mark.parametrize("target", [True, False])
def test_a_step_learns(net, target):
    before = [p.detach().clone() for p in net.parameters()]
    batch = (numbers(4, 3, 4, 4), torch.tensor([0, 1, 2, 0]))
    optimiser = plain.sgd(net, lr=0.003)
    losses = [
        plain.train(net, optimiser, i, batch, batch if target else None, lambda: torch.autocast("cpu", enabled=False))
        for i in range(30)
    ]
    assert losses[-1] < losses[0]
    moved = [not torch.equal(p, q) for p, q in zip(net.parameters(), before, strict=True)]
    assert all(moved) if target else moved[0]


def of(method):
    """The plain loop's network with a method's weights."""
    heuristics, width = method.settings.heuristics, method.settings.discriminator_width
    net = plain.Net(backbones.small(), method.backbone.width, method.classes, heuristics, width)
    net.features.load_state_dict(method.backbone.net.state_dict())
    net.fundament.load_state_dict(method.head.fundament.state_dict())
    parts = (getattr(method.head.heuristics, name).detach().chunk(heuristics) for name in ("weight", "bias"))
    for linear, weight, bias in zip(net.heuristics, *parts, strict=True):
        linear.load_state_dict({"weight": weight, "bias": bias})
    net.discriminator.load_state_dict(method.align.discriminator.layers.state_dict())
    return net


def test_the_engines_steps_are_those_of_this_loop():
    """Two programs that share no line come to the same weights: schedules, rates, decay, statistics, reversals and all."""
    method = testing.make_method(HDAN, classes=5, discriminator_dropout=0.0, discriminator_width=32)
    batch = testing.make_batch(batch=6, target=4, classes=5)
    step, net = testing.make_step(method, batch, lr=0.001), of(method).train()
    for layer in net.discriminator:
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    source, target = (batch.images[0][rows] for rows in (batch.source, batch.target))
    optimiser = plain.sgd(net, lr=0.001)
    for i in range(20):
        step.run()
        loss = plain.train(net, optimiser, i, (source, batch.labels), (target, batch.labels), contextlib.nullcontext)
        assert step.measured(1)["total"] == pytest.approx(loss.item(), rel=1e-5)
    expected = of(method).state_dict()
    assert any(name.endswith("running_var") for name in expected)
    for name, value in net.state_dict().items():
        # Half of the weight decay would make differences of 7e-3, rounding makes some of 7e-7
        assert (value - expected[name]).abs().max() <= 1e-5 * expected[name].abs().max(), name


def test_files_and_bytes_are_read_alike(tmp_path):
    file = io.BytesIO()
    Image.fromarray(np.full((6, 6, 3), 200, np.uint8)).save(file, "PNG")
    (tmp_path / "a.png").write_bytes(file.getvalue())
    vary = plain.crop_flip(6, 4, (0.5,) * 3, (0.5,) * 3)
    pictures = plain.Pictures([tmp_path / "a.png", file.getvalue()], [1, 2], vary)
    for index, label in ((0, 1), (1, 2)):
        x, y = pictures[index]
        assert (tuple(x.shape), y) == ((3, 4, 4), label)
        torch.testing.assert_close(x, torch.full((3, 4, 4), 200 / 255 * 2 - 1))
    loaded = next(plain.batches(pictures, 2, workers=0))
    assert sorted(loaded[1].tolist()) == [1, 2]
