"""Classify pictures with a trained run: path, predicted class, confidence.

hda predict runs/drawings new-drawings                    prints a table in CSV
hda predict runs/drawings new-drawings --out found.csv    writes it to a file
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.errors import UserError


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("path", metavar="PATH", help="a folder, a .tar, a list or one image")
    parser.add_argument("--out", metavar="FILE.csv", help="write there instead of to standard output")
    parser.add_argument("--root", metavar="PATH", help="where the paths in a list start")
    parser.add_argument("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: the run's)")
    parser.add_argument(
        "--skip-broken", action="store_true", help="leave out pictures that cannot be read, and name them"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.cli.terminal import reporter
    from hda.engine.run import Run

    out = Path(args.out) if args.out else None
    if out and out.exists():
        raise UserError(f"{out} exists: give another --out or remove it first")
    if out and not out.parent.is_dir():
        raise UserError(f"the folder {out.parent} for --out does not exist: make it first")
    progress = reporter().reading("pictures", 0) if out else None
    found = Run(args.run).predict(
        args.path, root=args.root, device=args.device, skip_broken=args.skip_broken, progress=progress
    )
    if out:
        found.write(out)
        print(f"{len(found):,} predictions are in {out}")
    else:
        sys.stdout.write(found.as_csv())
    counts = Counter(label for _, label, _ in found)
    return {"out": str(out) if out else None, "images": len(found), "classes": dict(sorted(counts.items()))}
