r"""Adapt from each of several sources alone, and say which was best: the "single best" of multi-source papers.

    python benchmarks/single_best.py --task "office-home:Art,Product->Clipart" --data DIR --set backbone=resnet50

One line of JSON a source, then one with the best of them. Which source is the best only the target's labels tell, so that
line is an oracle and says so: it flatters, and is there to compare with because papers do.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import hda
from hda.cli.terminal import Lines
from hda.data.tasks import TaskName


def main() -> None:
    args = arguments()
    options = dict(pair.split("=", 1) for pair in args.set)
    rows = single(args.task, args.data, args.runs, shots=args.shots, **options)
    for row in [*rows, best(rows)]:
        print(json.dumps(row), flush=True)
        if args.out:
            with Path(args.out).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True, help="DATASET:SOURCE,SOURCE->TARGET or DATASET:*->TARGET")
    parser.add_argument("--data", required=True, help="the folder that the dataset lies in")
    parser.add_argument("--shots", type=int)
    parser.add_argument("--runs", type=Path, default=Path("runs/single-best"))
    parser.add_argument("--out", help="a file to add the lines to")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the runs")
    return parser.parse_args()


def single(task: str, data: str, runs: Path, shots: int | None = None, **options: Any) -> list[dict[str, Any]]:
    """A run from each source of a task alone, and what it came to after its last step."""
    name = TaskName.parse(task)
    draw: dict[str, Any] = {"shots": shots, "seed": int(options.get("seed", 0))}
    together, _ = hda.task(task, data, **draw)  # so that a wrong source is told before the first run
    rows = []
    for source in together.sources:
        alone = f"{name.dataset}:{source.images.name}->{name.target}"
        scenario, answers = hda.task(alone, data, **draw)
        out = runs / source.images.name
        shutil.rmtree(out, ignore_errors=True)
        result = hda.fit(scenario, evaluate=answers, out=out, reporter=Lines(every=20.0), **options).result or {}
        rows.append(
            {
                "task": alone,
                "setting": scenario.setting,
                "method": result["method"],
                "steps": result["steps"],
                "accuracy": round(result["target_accuracy"], 2),
                "settings": options,
            }
        )
    return rows


def best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row with the highest target accuracy, named for what it is."""
    row = max(rows, key=lambda row: row["accuracy"])
    return row | {"variant": "single best", "chosen_by": "target accuracy (oracle)", "among": [r["task"] for r in rows]}


if __name__ == "__main__":
    try:
        main()
    except hda.UserError as error:
        print(f"single_best.py: {error}", file=sys.stderr)
        sys.exit(2)
