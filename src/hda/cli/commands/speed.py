"""Measure how fast a training step is on this machine, and beside what.

Beside the bare step of its network, which knows neither data nor method, and beside a plain loop with PIL and DataLoaders on
the same pictures, which are generated: all in one run, in turns. On a CPU it is the demo's network and takes less than a
minute, on a GPU a ResNet-50. Memory is the most in use: on a GPU without the pictures that live there, on a CPU of
this process so far.

  hda speed
  hda speed --backbone resnet18 --batch 16 --method mcd --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda import settings as plain
from hda.bench.speed import Workload, speed
from hda.cli import options
from hda.cli.terminal import reporting
from hda.cli.text import table
from hda.errors import UserError


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    options.add(parser, plain.options(Workload))
    parser.add_argument("--out", metavar="FILE.jsonl", help="add what is found to this file, as one line")


def run(args: argparse.Namespace) -> dict[str, Any]:
    out = _file(args.out)
    given = {name: value for name, value in vars(args).items() if name not in ("json", "out")}
    with reporting() as reporter:
        found = speed(plain.build(Workload, given), reporter)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    print(f"\n{_table(found)}\n\n{_sentences(found)}")
    return found


def _table(found: dict[str, Any]) -> str:
    rows = []
    for name, key, memory in (
        ("this step", "ours", "peak_memory"),
        ("bare step", "bare", "peak_memory_bare"),
        ("plain loop", "plain_loop", "peak_memory_plain"),
    ):
        if found[key] is not None:
            gib = "\u2013" if found[memory] is None else f"{found[memory] / 2**30:.2f}"
            rows.append((name, f"{found[key]:,.0f}", f"{found['ours'] / found[key]:.2f}", gib))
    return table(("", "images/s", "this step is times that", "memory GiB"), rows)


def _sentences(found: dict[str, Any]) -> str:
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found["share"].items())
    m = "" if found["heuristics"] is None else f" with M = {found['heuristics']}"
    lines = [
        f"{found['method']}{m} on {found['backbone']} at {found['size']} px, {found['batch']} pictures of each domain, "
        f"{found['precision']}, {found['mode']}, on {found['device']} with {found['cores']} cores.",
        f"Of a run's time: {shares}.",
    ]
    if found["plain_loop"] is None:
        lines.append("There is no plain loop for this method: it is written for hdan and source-only.")
    if found["load"] is not None and found["load"] > found["cores"] / 2:
        lines.append(
            f"The machine was busy before (load {found['load']:.1f} on {found['cores']} cores): figures of a CPU are worth "
            "little then, measure again when it is quiet."
        )
    return "\n".join(lines)


def _file(given: str | None) -> Path | None:
    """The file to add to, looked at before minutes are spent.

    Raises:
        UserError: it cannot be added to.
    """
    if given is None:
        return None
    path = Path(given)
    if path.suffix != ".jsonl" or path.is_dir():
        raise UserError(f"--out {path} is no .jsonl file, to which a line could be added: give such a name")
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} of --out {path} does not exist: make it first")
    return path
