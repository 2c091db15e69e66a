"""Do the runs of a grid, each once, or compare runs; the word after `bench` says what.

hda bench table1 --data DIR             the paper's table 1; likewise table2, table3, table4
hda bench my_grid.py --data DIR         a grid of one's own: a Python file with a GRID
hda bench validators RUN [RUN ...]      how well validators rank checkpoints without target labels
hda bench table1 --help                 shows more
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from hda.errors import UserError, unknown


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    known = [*_tables(), *_words()]
    if not words or words[0].startswith("-"):
        listed = [*known, "FILE.py"]
        parser.add_argument("what", metavar="WHAT", help=", ".join(listed))
        return
    part = _part(words[0])
    parser.prog += f" {words[0]}"
    parser.description = (part.__doc__ or "").strip()
    parser.add_argument("what", metavar=words[0], help=argparse.SUPPRESS)
    part.arguments(parser)
    parser.usage = None


def run(args: argparse.Namespace) -> Any:
    if args.what.startswith("-"):
        raise UserError("what to do comes first: `hda bench --help` lists it")
    return _part(args.what).run(args)


def _part(word: str) -> ModuleType:
    """What knows about that word: it has `arguments` and `run`."""
    if word in _tables() or word.endswith(".py"):
        return importlib.import_module("hda.cli.grids")
    if word not in _words():
        raise unknown("bench", word, [*_tables(), *_words(), "FILE.py"])
    return importlib.import_module(f"hda.cli.bench.{word}")


def _words() -> list[str]:
    """The modules of `hda.cli.bench`."""
    return [module.name for module in pkgutil.iter_modules(importlib.import_module("hda.cli.bench").__path__)]


def _tables() -> list[str]:
    from hda.bench.paper import TABLES

    return list(TABLES)
