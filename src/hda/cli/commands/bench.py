"""Compare runs by the paper's measures; each word after `bench` is one comparison.

hda bench validators RUN [RUN ...]      how well validators rank checkpoints without target labels
hda bench validators --help             shows more
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

from hda.errors import UserError, unknown


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    known = _known()
    if not words or words[0].startswith("-"):
        parser.add_argument("what", metavar="WHAT", choices=known, help=", ".join(known))
        return
    if words[0] not in known:
        raise unknown("bench", words[0], known)
    part = importlib.import_module(f"hda.cli.bench.{words[0]}")
    parser.prog += f" {words[0]}"
    parser.description = (part.__doc__ or "").strip()
    parser.add_argument("what", metavar=words[0], help=argparse.SUPPRESS)
    part.arguments(parser)
    parser.usage = None


def run(args: argparse.Namespace) -> Any:
    if args.what not in _known():
        raise UserError("the comparison comes first: `hda bench --help` lists them")
    return importlib.import_module(f"hda.cli.bench.{args.what}").run(args)


def _known() -> list[str]:
    """The modules of `hda.cli.bench`: each has `arguments` and `run`."""
    return [module.name for module in pkgutil.iter_modules(importlib.import_module("hda.cli.bench").__path__)]
