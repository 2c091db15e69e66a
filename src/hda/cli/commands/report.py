"""Draw a run as one self-contained page: what it is, its result, its curves.

hda report runs/drawings
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hda.cli import options


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--out", metavar="FILE.html", help="a new file (default: report.html in the run's folder, drawn anew)"
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.engine import files
    from hda.engine.run import Run
    from hda.report.run import run_page

    trained = Run(args.run)
    out = options.new_file("--out", args.out) if args.out else trained.path / "report.html"
    files.write_text(out, run_page(trained))
    print(f"the report is {out}")
    return {"report": str(out)}
