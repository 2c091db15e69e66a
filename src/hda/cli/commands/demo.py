"""See it work in a minute, without a download: from typed digits to handwritten ones.

Source-only and HDAN each learn from typed digits with three seeds and are measured on handwritten ones, which HDAN sees
without labels. A table and a page with figures show what came of it.

  hda demo
  hda demo --out runs/my-demo
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hda.cli.text import table


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="runs/demo",
        help="the demo's folder, in the place of an earlier demo's (default: runs/demo)",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.cli.terminal import reporting
    from hda.demo import SEEDS, demo
    from hda.report.demo import DemoFigures

    with reporting() as reporter:
        outcome = demo(args.out, reporter=reporter)
    figures = DemoFigures(SEEDS, outcome.source_only, outcome.hdan)
    print()
    print(table(("target accuracy %", "mean", "std", *(f"seed {seed}" for seed in SEEDS)), figures.rows))
    print(f"\n{figures.headline}.\nIt took {outcome.seconds:.0f} s. The report is {outcome.report}")
    return outcome.as_dict()
