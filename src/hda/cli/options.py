"""Settings as command line options, and what several commands ask for in the same way."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hda import settings as plain
from hda.errors import UserError
from hda.settings import Option

if TYPE_CHECKING:
    from hda.engine.run import Run
    from hda.report.figures import Figure
    from hda.report.subject import Subject


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def add(group: Any, options: Iterable[Option]) -> None:
    """Offer settings as options of an argparse group; those not given are absent from the parsed namespace."""
    for option in options:
        help = _help(option).replace("%", "%%")
        if option.kind is bool:
            group.add_argument(
                flag(option.name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=help
            )
        else:
            group.add_argument(
                flag(option.name), type=option.parse, default=argparse.SUPPRESS, metavar=_metavar(option), help=help
            )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How a trained run reads pictures."""
    parser.add_argument("--root", metavar="PATH", help="where the paths in a list start (default: the list's folder)")
    parser.add_argument("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: the run's)")
    parser.add_argument(
        "--checkpoint",
        metavar="last|selected",
        default="last",
        help="the state of the last iteration, or the one that --select has chosen (default: last)",
    )
    parser.add_argument(
        "--skip-broken", action="store_true", help="leave out pictures that cannot be read, and name them"
    )


def add_looking(parser: argparse.ArgumentParser) -> None:
    """How several runs look at their pictures once more."""
    pictures = Option("pictures", int, 1000, "pictures of each domain to look at; 0 looks at none")
    parser.add_argument(
        "--pictures", type=pictures.parse, default=1000, metavar="N", help=f"{pictures.help} (default: 1000)"
    )
    parser.add_argument("--device", metavar="NAME", help="auto, cpu, cuda or cuda:N (default: each run's)")
    group = parser.add_argument_group("where the pictures are now, if not where the runs found them")
    group.add_argument("--source", nargs="+", metavar="PATH", help="labelled pictures")
    group.add_argument("--target", metavar="PATH", help="pictures of the target")
    group.add_argument("--root", metavar="PATH", help="where the paths in lists start")
    group.add_argument("--data", metavar="DIR", help="the folder of a task's dataset")


def places(args: argparse.Namespace) -> dict[str, Any]:
    """What was given of where the pictures are now."""
    plain.at_least(0, pictures=args.pictures)
    return {name: value for name in ("source", "target", "root", "data") if (value := getattr(args, name))}


def runs(given: Sequence[str]) -> list[Run]:
    """The runs in these folders.

    Raises:
        UserError: one is no run's, or stands there twice and would count as two seeds.
    """
    from hda.engine.run import Run

    found: dict[Path, Run] = {}
    for path in given:
        place = Path(path).resolve()
        if place in found:
            raise UserError(f"{path} is named twice: name each run once")
        found[place] = Run(path)
    return list(found.values())


def drawn(args: argparse.Namespace, runs: Sequence[Run]) -> tuple[list[Subject], list[Figure]]:
    """What these runs show when they look at their pictures once more, as `add_looking` asks, and the figures of it."""
    from hda.cli.terminal import reporting
    from hda.report.figures import figures
    from hda.report.subject import gather

    with reporting() as reporter:
        subjects = gather(runs, limit=args.pictures, device=args.device, places=places(args), reporter=reporter)
        return subjects, figures(subjects)


def folder(option: str, given: str) -> Path:
    """A folder to write several files into, there already or not.

    Raises:
        UserError: it is a file, or can be neither made nor written in.
    """
    path = Path(given)
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file: give {option} a folder")
    place = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{place} is closed to you: give another {option} than {path}")
    return path


def check_root(root: str | None, path: str) -> None:
    """Insist that a root is given for a list alone.

    Raises:
        UserError: it is given for something else.
    """
    from hda.data.images import is_list

    if root is not None and not is_list(path):
        raise UserError(f"--root {root} is for the paths in a list, and {path} is none: leave it out")


def new_file(option: str, given: str, ending: str = "") -> Path:
    """Where a file is to be written that the user has named; checked before the work that it will hold.

    Raises:
        UserError: something is there already, its folder is missing, or its name ends otherwise.
    """
    path = Path(given)
    if path.exists():
        raise UserError(f"{path} exists: give another {option} or remove it first")
    if not path.parent.is_dir():
        raise UserError(f"the folder {path.parent} of {option} {path} does not exist: make it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UserError(f"the folder {path.parent} of {option} {path} is closed to you: give another {option}")
    if not path.name.lower().endswith(ending):
        raise UserError(f"{option} {path} does not end in {ending}, which is what is written: give such a name")
    return path


def _help(option: Option) -> str:
    """The sentence with the default; what "auto" comes to, where the sentence says so, stands with it."""
    shown = _shown(option.default)
    if shown == "auto" and "(auto: " in option.help:
        return option.help.replace("(auto: ", "(default: auto, ")
    return f"{option.help} (default: {shown})"


def _metavar(option: Option) -> str:
    return "|".join(option.choices) if option.choices else {int: "N", float: "X", str: "NAME"}[option.kind]


def _shown(default: Any) -> str:
    if default is None:
        return "auto"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)
