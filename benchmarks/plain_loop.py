r"""HDAN once more, as a careful user would write it without hda: PIL, a DataLoader, two forwards, eager PyTorch.

    python benchmarks/plain_loop.py --source office_home_art.tar --target office_home_clipart.tar \
        --weights resnet50_imagenet_v1.safetensors --steps 2000

It shares no line with the package, so that agreement in accuracy means something, and it is what the package's speed is
compared with. One source; pictures come from `.tar` files of class folders, 256 x 256; the weights are a ResNet-50's whose
bottlenecks stride on their first layer.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchvision import models
from torchvision.transforms import v2

EDGE, SIZE, WIDTH = 256, 224, 1024
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TO_TENSOR = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
TRAIN = v2.Compose([v2.Resize((EDGE, EDGE)), v2.RandomCrop(SIZE), v2.RandomHorizontalFlip(), *TO_TENSOR])
TEST = v2.Compose([v2.Resize((EDGE, EDGE)), v2.CenterCrop(SIZE), *TO_TENSOR])


class Pictures(Dataset[tuple[Tensor, int]]):
    def __init__(self, path: str, transform: v2.Compose) -> None:
        with tarfile.open(path) as tar:
            files = sorted((m.name, tar.extractfile(m).read()) for m in tar if m.isfile())  # type: ignore[union-attr]
        classes = sorted({name.split("/")[-2] for name, _ in files})
        self.items = [(data, classes.index(name.split("/")[-2])) for name, data in files]
        self.classes, self.transform = classes, transform

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        data, label = self.items[index]
        return self.transform(Image.open(io.BytesIO(data)).convert("RGB")), label


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradient, None


def strength(i: int) -> float:
    return 2.0 / (1.0 + float(torch.exp(torch.tensor(-10.0 * i / 10000.0)))) - 1.0


def layer(inputs: int, outputs: int, slope: float = 0.0) -> nn.Linear:
    made = nn.Linear(inputs, outputs)
    nn.init.kaiming_normal_(made.weight, a=slope)
    nn.init.zeros_(made.bias)
    return made


class Net(nn.Module):
    def __init__(self, weights: str, classes: int, heuristics: int) -> None:
        super().__init__()
        self.features = models.resnet50()
        for block in (self.features.layer2[0], self.features.layer3[0], self.features.layer4[0]):
            block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)
        self.features.load_state_dict({k: v.float() for k, v in load_file(weights).items()})
        self.features.fc = nn.Identity()
        self.fundament = layer(2048, classes, 100.0)
        self.heuristics = nn.ModuleList(layer(2048, classes, float(k)) for k in range(heuristics))
        self.discriminator = nn.Sequential(
            layer(classes, WIDTH), nn.ReLU(), nn.Dropout(0.5), layer(WIDTH, WIDTH), nn.ReLU(), nn.Dropout(0.5),
            layer(WIDTH, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.features(x)
        h = torch.stack([heuristic(z) for heuristic in self.heuristics]).sum(0)
        return (self.fundament(z) - h).float(), h.float()


def transfer(net: Net, g: Tensor, sources: int, i: int) -> Tensor:
    p = g.softmax(1)
    entropy = Reverse.apply(-(p * torch.log(p + 1e-5)).sum(1), strength(i))
    weights = torch.exp(-entropy)
    source, target = weights[:sources], weights[sources:]
    weights = torch.cat([source / source.detach().sum(), target / target.detach().sum()])
    logits = net.discriminator(Reverse.apply(p, strength(i + 1)))[:, 0].float()
    domain = (torch.arange(len(g), device=g.device) < sources).float()
    return (weights * F.binary_cross_entropy_with_logits(logits, domain, reduction="none")).sum() / 2


def batches(pictures: Pictures, batch: int, workers: int) -> Iterator[tuple[Tensor, Tensor]]:
    loader = DataLoader(
        pictures, batch, shuffle=True, drop_last=True, num_workers=workers, pin_memory=torch.cuda.is_available(),
        persistent_workers=workers > 0,
    )  # fmt: skip
    while True:
        yield from loader


@torch.no_grad()
def accuracy(net: Net, pictures: Pictures, workers: int, device: str, precision: str) -> float:
    net.eval()
    right = 0
    for x, y in DataLoader(pictures, 256, num_workers=workers):
        with torch.autocast(device, torch.bfloat16, precision == "bf16"):
            right += int((net(x.to(device))[0].argmax(1).cpu() == y).sum())
    net.train()
    return 100.0 * right / len(pictures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "target", "weights"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=36)
    parser.add_argument("--heuristics", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--evaluate-every", type=int, default=1000)
    parser.add_argument("--precision", choices=("default", "bf16"), default="default")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 2) // 2, help="of each of the two loaders")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source, target, test = Pictures(args.source, TRAIN), Pictures(args.target, TRAIN), Pictures(args.target, TEST)
    if source.classes != target.classes:
        raise SystemExit("source and target have other classes")
    net = Net(args.weights, len(source.classes), args.heuristics).to(device)
    backbone = list(net.features.parameters())
    heads = [p for name, p in net.named_parameters() if not name.startswith("features.")]
    optimiser = torch.optim.SGD(
        [{"params": backbone, "base": 0.001}, {"params": heads, "base": 0.01}],
        lr=0.001, momentum=0.9, weight_decay=0.001, nesterov=True,
    )  # fmt: skip
    sources, targets = (batches(pictures, args.batch, args.workers) for pictures in (source, target))
    started = lap = time.perf_counter()
    for i in range(args.steps):
        for group in optimiser.param_groups:
            group["lr"] = group["base"] * (1.0 + 0.001 * i) ** -0.75
        (xs, ys), (xt, _) = next(sources), next(targets)
        with torch.autocast(device, torch.bfloat16, args.precision == "bf16"):
            (gs, hs), (gt, ht) = (net(x.to(device, non_blocking=True)) for x in (xs, xt))
            g, h = torch.cat([gs, gt]), torch.cat([hs, ht])
        adversarial = transfer(net, g, len(gs), i)
        loss = F.cross_entropy(gs, ys.to(device)) + adversarial + h.abs().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        done = i + 1
        if done == args.steps or done % args.evaluate_every == 0:
            rate = args.evaluate_every * 2 * args.batch / (time.perf_counter() - lap)
            found = accuracy(net, test, 2 * args.workers, device, args.precision)
            print(
                json.dumps({"step": done, "target_accuracy": round(found, 2), "images_per_second": round(rate)}),
                flush=True,
            )
            lap = time.perf_counter()
    print(json.dumps({"seconds": round(time.perf_counter() - started, 1), **vars(args), "device": device}), flush=True)


if __name__ == "__main__":
    main()
