"""Draw a table from result rows: mean and deviation over seeds, the paper's figures beside ours, and what to make of it.

hda table runs/bench-table1 --table table1                    beside the paper's figures, as text
hda table rows.jsonl --baseline source-only                   every other line tested against it
hda table benchmarks/results --table table2 --out table2.tex  into a file: .txt, .md, .tex or .csv
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.errors import UserError

ENDINGS = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv"}


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("rows", metavar="FILE|DIR", nargs="+", help="files of result rows (.jsonl), or folders of such")
    parser.add_argument(
        "--table", metavar="NAME", help="table1 to table4: the paper's lines and columns (default: those of the rows)"
    )
    parser.add_argument(
        "--baseline", metavar="NAME", help="a method that the others are tested against, over tasks and seeds"
    )
    parser.add_argument("--format", metavar="|".join(ENDINGS.values()), help="default: text, or what --out ends in")
    parser.add_argument("--out", metavar="FILE", help="a new file to draw into")


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.bench.rows import read
    from hda.bench.table import draw
    from hda.cli.options import new_file
    from hda.engine import files

    out = None if args.out is None else new_file("--out", args.out)
    kind = args.format or _kind(out)
    table = draw(read(args.rows), name=args.table, baseline=args.baseline)
    text = table.draw(kind)
    if out is None:
        print(text)
    else:
        files.write_text(out, text + "\n")
        print(f"the table is in {out}")
    return table.as_dict()


def _kind(out: Path | None) -> str:
    if out is None:
        return "text"
    if out.suffix not in ENDINGS:
        raise UserError(f"--out {out} does not tell the format: let it end in {', '.join(ENDINGS)}, or add --format")
    return ENDINGS[out.suffix]
