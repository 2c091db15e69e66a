r"""HDAN once more, as a careful user would write it without hda: PIL, a DataLoader, two forwards, eager PyTorch.

    python benchmarks/plain_loop.py --source office_home_art.tar --target office_home_clipart.tar \
        --weights resnet50_imagenet_v1.safetensors --steps 2000

The loop's parts are in `hda.bench.plain`, which shares no line with the rest of the package, so that agreement in accuracy
means something; `hda speed` times the same parts. One source; pictures come from `.tar` files of class folders, 256 x 256;
the weights are a ResNet-50's whose bottlenecks stride on their first layer.
"""

from __future__ import annotations

import argparse
import json
import os
import tarfile
import time

import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader
from torchvision import models

from hda.bench import plain

EDGE, SIZE = 256, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def read(path: str, transform: plain.Transform) -> tuple[plain.Pictures, list[str]]:
    """The pictures of a tar of class folders, and the classes."""
    with tarfile.open(path) as tar:
        files = sorted((m.name, tar.extractfile(m).read()) for m in tar if m.isfile())  # type: ignore[union-attr]
    classes = sorted({name.split("/")[-2] for name, _ in files})
    labels = [classes.index(name.split("/")[-2]) for name, _ in files]
    return plain.Pictures([data for _, data in files], labels, transform), classes


def resnet50(weights: str) -> nn.Module:
    """Without its classifier, its strides where these weights have them."""
    net = models.resnet50()
    for block in (net.layer2[0], net.layer3[0], net.layer4[0]):
        block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)
    net.load_state_dict({k: v.float() for k, v in load_file(weights).items()})
    net.fc = nn.Identity()
    return net


@torch.no_grad()
def accuracy(net: plain.Net, pictures: plain.Pictures, workers: int, device: str, precision: str) -> float:
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
    varied, still = plain.crop_flip(EDGE, SIZE, MEAN, STD), plain.centre(EDGE, SIZE, MEAN, STD)
    (source, classes), (target, others), (test, _) = (
        read(path, transform)
        for path, transform in ((args.source, varied), (args.target, varied), (args.target, still))
    )
    if classes != others:
        raise SystemExit("source and target have other classes")
    net = plain.Net(resnet50(args.weights), 2048, len(classes), args.heuristics).to(device)
    optimiser = plain.sgd(net)
    sources, targets = (plain.batches(pictures, args.batch, args.workers) for pictures in (source, target))
    started = lap = time.perf_counter()
    for i in range(args.steps):
        plain.train(
            net,
            optimiser,
            i,
            next(sources),
            next(targets),
            lambda: torch.autocast(device, torch.bfloat16, args.precision == "bf16"),
        )
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
