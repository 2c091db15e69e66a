"""See it work: source-only and HDAN learn typed digits and read handwritten ones, in a minute, without a download.

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
        "--out", metavar="DIR", default="runs/demo", help="the demo's folder, replaced each time (default: runs/demo)"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.cli.terminal import reporter
    from hda.demo import SEEDS, demo
    from hda.report.demo import DemoFigures

    outcome = demo(args.out, reporter=reporter())
    figures = DemoFigures(SEEDS, outcome.source_only, outcome.hdan)
    print()
    print(table(("target accuracy %", "mean", "std", *(f"seed {seed}" for seed in SEEDS)), figures.rows))
    print(f"\n{figures.headline}.\nIt took {outcome.seconds:.0f} s. The report is {outcome.report}")
    return outcome.as_dict()
