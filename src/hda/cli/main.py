"""From words to a command: nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import ast
import errno
import importlib
import io
import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, Protocol

import hda
from hda.cli.options import flag
from hda.cli.text import paragraphs, wrap
from hda.engine.place import place
from hda.errors import ProcessLostError, SettingError, UnmetError, UserError, nearest, unknown

ABOUT = """Domain adaptation for image classifiers: train on labelled pictures of one kind, classify unlabelled pictures of
another. `hda demo` shows it in a minute; `hda fit --source LABELLED --target UNLABELLED` does it with your pictures."""
ORDER = (
    "demo",
    "fit",
    "predict",
    "evaluate",
    "report",
    "figures",
    "bound",
    "tune",
    "bench",
    "table",
    "speed",
    "data",
    "list",
    "doctor",
)
TOGETHER = ("fit",)  # commands that several processes do together
USER_ERROR, LOST, INTERRUPTED = 2, 1, 130
UNREAD = 141  # as of a process that the signal of a closed pipe has ended


class Command(Protocol):
    """What a module in `hda.cli.commands` offers."""

    __doc__: str | None

    def arguments(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> None: ...

    def run(self, args: argparse.Namespace) -> object: ...


class Parser(argparse.ArgumentParser):
    """A parser that reports mistakes as `UserError`, and never guesses at half an option."""

    def __init__(self, prog: str, about: str) -> None:
        super().__init__(prog, description=about, formatter_class=_Help, allow_abbrev=False, add_help=False)
        self.add_argument("-h", "--help", action="help", help="show this and stop")

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{_in_plain_words(message)} (`{self.prog} --help` shows how)")


class _Help(argparse.HelpFormatter):
    """Help in which sentences are wrapped, and examples, lines of their own, are indented and left as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        self._width = min(self._width, 110)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width).splitlines()

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return paragraphs(re.sub("^(?=hda )", "  ", text, flags=re.MULTILINE), width, indent)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for a mistake of the user's, 130 when interrupted, 141 when not read."""
    words = list(sys.argv[1:] if words is None else words)
    if sys.stdout is None:  # closed, as by `>&-`: nobody reads, and that is no mistake
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name of a file may be no text: let its bytes through
            stream.reconfigure(errors="surrogateescape" if stream.encoding.lower() == "utf-8" else "backslashreplace")
    try:
        code = _main(words)
        sys.stdout.flush()  # here, where a failure can be told
        return code
    except BrokenPipeError:
        # The reader of our output has seen enough: not all was done, and nobody is there to be told.
        _write_no_more()
        return UNREAD
    except SettingError as error:
        return _failed(f"{flag(error.name)} {error.wrong}")
    except UserError as error:
        return _failed(str(error))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is None:
            _write_no_more()
            return _failed(f"what comes of this cannot be written ({error.strerror}): make room for it, then go on")
        if error.filename is None or error.strerror is None:
            raise
        return _failed(f"{error.filename} cannot be read or written ({error.strerror}): see to it first")
    except ProcessLostError as lost:
        return _failed(str(lost), LOST)
    except KeyboardInterrupt as interrupt:
        return _failed(": ".join(["interrupted", *map(str, interrupt.args)]), INTERRUPTED)


def _write_no_more() -> None:
    """Let what is still to go to standard output go nowhere, so that the end of the process does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(sentence: str, code: int = USER_ERROR) -> int:
    """Tell the user what is wrong: once, however many processes have come upon it."""
    try:
        here = place()
        if not here.alone:
            from hda.engine.watch import watch

            return watch().tell(sentence, code)
    except UserError:  # the environment, or the meeting of the processes, is what is wrong
        pass
    print(f"hda: {sentence}", file=sys.stderr)
    return code


def _main(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"hda {hda.__version__}")
        return 0
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    known = commands()
    if words[0] not in known:
        raise unknown("command", words[0], known)
    here = place()
    if words[0] not in TOGETHER and not here.alone:
        raise UserError(f"`hda {words[0]}` works in one process: start it without torchrun, or with one process")
    if not here.alone:
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a process that dies would be told in a screenful
    command: Command = importlib.import_module(f"hda.cli.commands.{words[0]}")
    parser = Parser(f"hda {words[0]}", (command.__doc__ or "").strip())
    parser.add_argument("--json", action="store_true", help="end standard output with one line of JSON")
    command.arguments(parser, words[1:])
    try:
        args, left = parser.parse_known_args(words[1:])
    except SystemExit:  # the help has been shown
        return 0
    if left:
        raise _not_understood(parser, words, left[0])
    _check_not_empty(parser, args)
    _log_to_stderr(logging.INFO if here.first else logging.CRITICAL)
    if not here.alone:
        from hda.engine.watch import watch

        watch().end_on_termination()
    try:
        result = command.run(args)
    except UnmetError as error:
        if args.json and here.first:
            print(json.dumps(error.result), flush=True)
        raise
    if args.json and here.first:
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


def _in_plain_words(message: str) -> str:
    """A complaint of argparse as a sentence."""
    if found := re.fullmatch(r"argument ([^:]+): expected (?:one|at least one) argument", message):
        return f"{found[1]} needs a value"
    if found := re.fullmatch(r"argument ([^:]+): ignored explicit argument (.*)", message):
        return f"{found[1]} takes no value: got {found[2]}"
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{found[1].replace(', ', ' and ')} must be given"
    return message


def _not_understood(parser: Parser, words: Sequence[str], left: str) -> UserError:
    option = left.partition("=")[0]
    if not option.startswith("-"):
        before = words[words.index(left) - 1] if left in words else ""
        after = f" after {before}" if before.startswith("-") else ""
        return UserError(f"{left!r} is one word too many{after} (`{parser.prog} --help` shows how)")
    known = [word for action in parser._actions for word in action.option_strings if word.startswith("--")]
    # Without their dashes, which all have and which would make any two alike.
    near = nearest(option.lstrip("-"), [word.removeprefix("--") for word in known]).replace(" '", " '--")
    return UserError(f"unknown option {option!r}{near} (`{parser.prog} --help` lists all)")


def _check_not_empty(parser: Parser, args: argparse.Namespace) -> None:
    for action in parser._actions:
        value = getattr(args, action.dest, None)
        if value == "" or (isinstance(value, list) and "" in value):
            name = action.option_strings[-1] if action.option_strings else action.metavar
            raise UserError(f"{name} is empty: give it a value (`{parser.prog} --help` shows how)")


class _Stderr(logging.Handler):
    """Writes to whatever standard error is at the time, which a progress bar changes while it is there."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


def _log_to_stderr(level: int) -> None:
    log = logging.getLogger("hda")
    if not log.handlers:
        log.addHandler(_Stderr())
        log.setLevel(level)
        log.propagate = False
