"""Classify pictures with a trained run: path, predicted class, confidence.

hda predict runs/drawings new-drawings                    prints a table in CSV
hda predict runs/drawings new-drawings --out found.csv    writes it to a file
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hda.cli import options


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("path", metavar="PATH", help="a folder, a .tar, a list of paths or one image")
    parser.add_argument("--out", metavar="FILE.csv", help="a new file (default: standard output)")
    options.add_reading(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.cli.terminal import reporting
    from hda.engine.run import Run

    trained = Run(args.run)
    out = options.new_file("--out", args.out) if args.out else None
    options.check_root(args.root, args.path)
    with reporting() as reporter:
        found = trained.predict(
            args.path,
            root=args.root,
            device=args.device,
            checkpoint=args.checkpoint,
            skip_broken=args.skip_broken,
            progress=reporter.reading("pictures", 0) if out else None,  # the table is to stand alone
        )
    for sentence in found.broken:
        print(f"left out: {sentence}", file=sys.stderr)
    if out:
        found.write(out)
        print(f"{len(found):,} {'prediction is' if len(found) == 1 else 'predictions are'} in {out}")
    else:
        sys.stdout.write(found.as_csv())
    counts = Counter(label for _, label, _ in found)
    return {
        "out": str(out) if out else None,
        "images": len(found),
        "left_out": len(found.broken),
        "classes": dict(sorted(counts.items())),
    }
