"""Draw a run, or several side by side, as one self-contained page: result, curves, figures, pictures, settings.

hda report runs/drawings
hda report runs/hdan runs/source-only --out page.html
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from hda.cli import options


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs' folders")
    parser.add_argument(
        "--out", metavar="FILE.html", help="a new file (default: report.html in the first run's folder, drawn anew)"
    )
    options.add_looking(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.engine import files
    from hda.report.run import run_page
    from hda.report.runs import runs_page

    runs = options.runs(args.runs)
    out = options.new_file("--out", args.out) if args.out else runs[0].path / "report.html"
    subjects, made = options.drawn(args, runs)
    files.write_text(out, runs_page(subjects, made) if len(runs) > 1 else run_page(runs[0], figures=made))
    print(f"the report is {out}")
    return {"report": str(out)}
