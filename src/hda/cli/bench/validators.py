"""How well each validator ranks the checkpoints that runs have kept, and what choosing by it costs.

Runs must have been begun with --evaluate and --keep-checkpoints; with --source-hold-out 0.1 the validators that need
held-out source pictures are compared too. What is measured is noted in each run's folder: called again, only what is new
is measured.

  hda bench validators runs/drawings
  hda bench validators runs --out validators.jsonl
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from hda.cli import options
from hda.cli.text import table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="a run's folder, or one with runs below it")
    parser.add_argument("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: the run's)")
    parser.add_argument("--out", metavar="FILE.jsonl", help="a new file with a line for each validator")


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    from hda.bench.validators import compare, find, measure
    from hda.cli.terminal import reporting
    from hda.engine import files
    from hda.errors import UserError

    out = options.new_file("--out", args.out, ".jsonl") if args.out else None
    with reporting() as reporter:
        found = [point for path in find(args.runs) for point in measure(path, device=args.device, reporter=reporter)]
    if not found:
        raise UserError(
            "no run there has kept a checkpoint of known accuracy: fit with --keep-checkpoints and --evaluate"
        )
    rows = compare(found)
    print(f"checkpoints: {len(found):,}, runs: {len({point.run for point in found}):,}")
    print(table(HEADER, [_cells(row) for row in rows]))
    print(
        "rho: Spearman's rank correlation with true accuracy, among all checkpoints of a task and among those of a run;\n"
        "lost: points of accuracy below the oracle, which looks at the labels, for the checkpoint chosen; both choose among\n"
        "the checkpoints that the validator could measure, so that validators with other checkpoints cannot be compared"
    )
    lines = [row.as_dict() for row in rows]
    if out:
        files.write_text(out, "".join(json.dumps(line) + "\n" for line in lines))
        print(f"the rows are in {out}")
    return lines


HEADER = ("validator", "checkpoints", "runs", "rho", "rho in a run", "lost", "lost in a run")


def _cells(row: Any) -> list[str]:
    figures = (row.correlation, row.within_runs, row.lost, row.lost_within_runs)
    shown = ["\u2013" if value is None else f"{value:.2f}" for value in figures]
    return [row.validator, f"{row.checkpoints:,}", f"{row.runs:,}", *shown]
