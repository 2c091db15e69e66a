r"""Runs on Office-Home, one line of JSON each into `benchmarks/results/`.

    python benchmarks/office_home.py --data FOLDER --out benchmarks/results/office_home.jsonl \
        --task "Art->Clipart" "Product->Art" --method hdan --seeds 0 1 2

FOLDER holds `office_home_<domain>.tar` for each domain (class folders of pictures, 256 x 256) and the weights. Several
sources are joined by commas. The accuracy recorded is that of the last iteration; "oracle" is the best one seen on the way,
which only target labels can tell, and is recorded to show how much choosing by them would flatter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

import torch

import hda
from hda.cli.terminal import Lines


def main() -> None:
    args = arguments()
    for seed in args.seeds:
        for task in args.task:
            row = measure(task, seed, args)
            with Path(args.out).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--out", required=True)
    parser.add_argument("--runs", default="runs/office-home", type=Path)
    parser.add_argument("--task", nargs="+", default=["Art->Clipart"])
    parser.add_argument("--method", default="hdan")
    parser.add_argument("--variant", default="", help="what to call the --set options in the row")
    parser.add_argument("--table", default="", help="the paper's table that the row belongs to")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--weights", default="resnet50_imagenet_v1.safetensors", help="in the data folder")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="further settings")
    parser.add_argument("--commit", default=os.environ.get("HDA_COMMIT", ""), help="if the repository is not at hand")
    return parser.parse_args()


def measure(task: str, seed: int, args: argparse.Namespace) -> dict[str, object]:
    """Train once; the row of what came out."""
    sources, _, target = task.partition("->")
    tars = [args.data / f"office_home_{name.lower()}.tar" for name in (*sources.split(","), target)]
    scenario = hda.Scenario.read(tars[:-1], tars[-1])
    options = dict(pair.split("=", 1) for pair in args.set)
    out = args.runs / f"{args.method}{args.variant and '-' + args.variant}-{sources}-{target}-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    run = hda.fit(
        scenario,
        evaluate=hda.Answers.read(tars[-1], scenario),
        out=out,
        method=args.method,
        backbone=args.backbone,
        weights=str(args.data / args.weights),
        seed=seed,
        reporter=Lines(every=20.0),
        **options,
    )
    result, settings = run.result or {}, run.settings.fit
    _, rates = run.curve("images_per_second")
    steps, accuracies = run.curve("target_accuracy")
    return {
        "setting": scenario.setting,
        "task": task,
        "method": args.method,
        "variant": args.variant,
        "seed": seed,
        "steps": result["steps"],
        "batch": settings.batch,
        "backbone": args.backbone,
        "precision": result["precision"],
        "accuracy": round(result["target_accuracy"], 2),
        "mean_class_accuracy": round(result["mean_class_accuracy"], 2),
        "oracle": round(float(accuracies.max()), 2),
        "accuracies": {int(step): round(float(value), 2) for step, value in zip(steps, accuracies, strict=True)},
        "device": result["device"],
        "seconds": round(result["seconds"], 1),
        "images_per_second": round(statistics.median(rates[1:])),
        "commit": args.commit or _commit(),
        "torch": torch.__version__,
        "settings": options,
        "command": _command(args, task, seed),
        "table": args.table,
    }


def _commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def _command(args: argparse.Namespace, task: str, seed: int) -> str:
    more = "".join(f" --{name} {value}" for name in ("variant", "table") if (value := getattr(args, name)))
    more += " --set " + " ".join(args.set) if args.set else ""
    return (
        "python benchmarks/office_home.py --data FOLDER --out benchmarks/results/office_home.jsonl "
        f'--task "{task}" --method {args.method} --seeds {seed}{more}'
    )


if __name__ == "__main__":
    main()
