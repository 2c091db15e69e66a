"""From words to a command: nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import hda
from hda.cli.text import wrap
from hda.errors import UserError, unknown

ABOUT = """Domain adaptation for image classifiers: train on labelled pictures of one kind, classify unlabelled pictures of
another. `hda demo` shows it in two minutes; `hda fit --source LABELLED --target UNLABELLED` does it with your pictures."""
ORDER = ("demo", "fit", "predict", "evaluate", "report", "list", "doctor")
USER_ERROR, INTERRUPTED = 2, 130


class Command(Protocol):
    """What a module in `hda.cli.commands` offers."""

    __doc__: str | None

    def arguments(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> None: ...

    def run(self, args: argparse.Namespace) -> object: ...


class Parser(argparse.ArgumentParser):
    """A parser that reports mistakes as `UserError`, and never guesses at half an option."""

    def __init__(self, prog: str, about: str) -> None:
        super().__init__(
            prog,
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help="show this and stop")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (`{self.prog} --help` shows how)")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for a mistake of the user's, 130 when interrupted."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        return _main(words)
    except UserError as error:
        print(f"hda: {error}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("hda: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _main(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"hda {hda.__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    known = commands()
    if words[0] not in known:
        raise unknown("command", words[0], known)
    command: Command = importlib.import_module(f"hda.cli.commands.{words[0]}")
    parser = Parser(f"hda {words[0]}", (command.__doc__ or "").strip())
    parser.add_argument("--json", action="store_true", help="end standard output with one line of JSON")
    command.arguments(parser, words[1:])
    args, left = parser.parse_known_args(words[1:])
    if left:
        raise _not_understood(parser, left)
    _log_to_stderr()
    result = command.run(args)
    if args.json:
        print(json.dumps(result), flush=True)
    return 0


def commands() -> dict[str, str]:
    """Every command and the first line of its docstring, read without importing it."""
    found = {}
    for path in Path(__file__).with_name("commands").glob("[!_]*.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[path.stem] = text.partition("\n")[0]
    return dict(
        sorted(found.items(), key=lambda item: (item[0] not in ORDER, ORDER.index(item[0]) if item[0] in ORDER else 0))
    )


def _help() -> str:
    lines = [wrap(ABOUT), "", "usage: hda COMMAND ...", ""]
    lines += [f"  {name:<10}{summary}" for name, summary in commands().items()]
    return "\n".join([*lines, "", "`hda COMMAND --help` tells more; `hda --version` the version."])


def _not_understood(parser: Parser, left: Sequence[str]) -> UserError:
    word = left[0].partition("=")[0]
    if not word.startswith("-"):
        return UserError(f"{word!r} is one word too many (`{parser.prog} --help` shows how)")
    known = [option for action in parser._actions for option in action.option_strings]
    sentence = str(unknown("option", word, known)).partition("(known:")[0].rstrip(" :")
    return UserError(f"{sentence} (`{parser.prog} --help` lists all)")


def _log_to_stderr() -> None:
    log = logging.getLogger("hda")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
