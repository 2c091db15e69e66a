"""HDAN as a careful user would write it without hda: PIL, DataLoaders, two forwards, eager PyTorch.

It shares no line with the rest of the package, so that agreement in accuracy means something, and it is what the package's
speed is compared with: `benchmarks/plain_loop.py` trains with it, `hda speed` times it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

Transform = Callable[[Image.Image], Tensor]
Loaded = tuple[Tensor, Tensor]  # pictures and labels of a batch


class Pictures(Dataset[tuple[Tensor, int]]):
    """Files, or what they hold, with labels; decoded and varied each time that they are asked for."""

    def __init__(self, files: Sequence[Path | bytes], labels: Sequence[int], transform: Transform) -> None:
        self.files, self.labels, self.transform = files, labels, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        file = self.files[index]
        with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as picture:
            return self.transform(picture.convert("RGB")), self.labels[index]


def crop_flip(edge: int, size: int, mean: Sequence[float], std: Sequence[float]) -> Transform:
    """The paper's: resize, then a crop at a random place and a flip."""
    return _compose(v2.Resize((edge, edge)), v2.RandomCrop(size), v2.RandomHorizontalFlip(), mean=mean, std=std)


def affine(edge: int, mean: Sequence[float], std: Sequence[float]) -> Transform:
    """The demo's, for digits: a small turn, shift, scaling and shear."""
    turn = v2.RandomAffine(10, (0.08, 0.08), (0.9, 1.1), 10, interpolation=v2.InterpolationMode.BILINEAR)
    return _compose(v2.Resize((edge, edge)), turn, mean=mean, std=std)


def centre(edge: int, size: int, mean: Sequence[float], std: Sequence[float]) -> Transform:
    """How pictures are seen when they are measured."""
    return _compose(v2.Resize((edge, edge)), v2.CenterCrop(size), mean=mean, std=std)


def batches(pictures: Pictures, batch: int, workers: int) -> Iterator[Loaded]:
    """Shuffled batches without end."""
    loader = DataLoader(
        pictures, batch, shuffle=True, drop_last=True, num_workers=workers, pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
    )  # fmt: skip
    while True:
        yield from loader


class Net(nn.Module):
    """A backbone, the fundament, the heuristics and the discriminator, as the paper initialises them."""

    def __init__(self, features: nn.Module, inputs: int, classes: int, heuristics: int = 3, width: int = 1024) -> None:
        super().__init__()
        self.features = features
        self.fundament = layer(inputs, classes, 100.0)
        self.heuristics = nn.ModuleList(layer(inputs, classes, float(k)) for k in range(heuristics))
        self.discriminator = nn.Sequential(
            layer(classes, width), nn.ReLU(), nn.Dropout(0.5), layer(width, width), nn.ReLU(), nn.Dropout(0.5),
            layer(width, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.features(x)
        f = self.fundament(z)
        if not len(self.heuristics):
            return f.float(), torch.zeros_like(f).float()
        h = torch.stack([heuristic(z) for heuristic in self.heuristics]).sum(0)
        return (f - h).float(), h.float()


def sgd(net: Net, lr: float = 0.001) -> torch.optim.SGD:
    """The paper's optimiser; `base` is the rate that the schedule falls from."""
    backbone = list(net.features.parameters())
    heads = [p for name, p in net.named_parameters() if not name.startswith("features.")]
    return torch.optim.SGD(
        [{"params": backbone, "base": lr}, {"params": heads, "base": 10 * lr}],
        lr=lr, momentum=0.9, weight_decay=0.001, nesterov=True,
    )  # fmt: skip


def train(
    net: Net,
    optimiser: torch.optim.SGD,
    i: int,
    source: Loaded,
    target: Loaded | None,
    autocast: Callable[[], AbstractContextManager[object]],
) -> Tensor:
    """Step number i; returns its loss. Without a target it learns from the source alone."""
    device = next(net.parameters()).device
    for group in optimiser.param_groups:
        group["lr"] = group["base"] * (1.0 + 0.001 * i) ** -0.75
    labels = source[1].to(device, non_blocking=True)
    with autocast():
        gs, hs = net(source[0].to(device, non_blocking=True))
        loss = F.cross_entropy(gs, labels)
        if target is not None:
            gt, ht = net(target[0].to(device, non_blocking=True))
    if target is not None:
        loss = loss + transfer(net, torch.cat([gs, gt]), len(gs), i) + torch.cat([hs, ht]).abs().mean()
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.detach()


def transfer(net: Net, g: Tensor, sources: int, i: int) -> Tensor:
    """The adversarial loss of `sources` rows of the source and the rows of the target after them."""
    p = g.softmax(1)
    entropy = _Reverse.apply(-(p * torch.log(p + 1e-5)).sum(1), strength(i))
    weights = torch.exp(-entropy)
    source, target = weights[:sources], weights[sources:]
    weights = torch.cat([source / source.detach().sum(), target / target.detach().sum()])
    logits = net.discriminator(_Reverse.apply(p, strength(i + 1)))[:, 0].float()
    domain = (torch.arange(len(g), device=g.device) < sources).float()
    return (weights * F.binary_cross_entropy_with_logits(logits, domain, reduction="none")).sum() / 2


def strength(i: int) -> float:
    """Of the gradient reversal at step i."""
    return 2.0 / (1.0 + float(torch.exp(torch.tensor(-10.0 * i / 10000.0)))) - 1.0


def layer(inputs: int, outputs: int, slope: float = 0.0) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(made.weight, a=slope)
    nn.init.zeros_(made.bias)
    return made


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradient, None


def _compose(*parts: nn.Module, mean: Sequence[float], std: Sequence[float]) -> Transform:
    to_tensor = (v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std)))
    whole: Transform = v2.Compose([*parts, *to_tensor])
    return whole
