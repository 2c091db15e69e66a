"""Published datasets: which there are, and whether a copy on disk is whole.

hda data list                      their domains and short names
hda data list office-home          all about one: counts, citation, licence, how to get it
hda data prepare office-home DIR   downloads, verifies and extracts it, or says what only a person can get
hda data check office-home DIR     counts, says what is missing or extra; exit code 2 if anything is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hda.cli.text import table
from hda.errors import UnmetError, unknown
from hda.registry import lookup, registered


@dataclass(frozen=True)
class Subcommand:
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Any]
    about: str


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    about = "; ".join(f"{name}: {sub.about}" for name, sub in SUBCOMMANDS.items())
    parser.add_argument("what", metavar="|".join(SUBCOMMANDS), help=about)
    what = next((word for word in words if not word.startswith("-")), None)
    if what is not None:
        if what not in SUBCOMMANDS:
            raise unknown("subcommand of hda data", what, SUBCOMMANDS)
        SUBCOMMANDS[what].arguments(parser)


def run(args: argparse.Namespace) -> Any:
    return SUBCOMMANDS[args.what].run(args)


def add_dataset(parser: argparse.ArgumentParser) -> None:
    """What every subcommand about one dataset is given."""
    parser.add_argument("dataset", metavar="NAME", help=", ".join(registered("data.datasets")))
    parser.add_argument("root", metavar="DIR", help="the folder that it lies in")


def _prepare(args: argparse.Namespace) -> dict[str, Any]:
    from hda.data.check import check
    from hda.data.prepare import Lines, prepare
    from hda.data.sources import SOURCES

    dataset: Any = lookup("data.datasets", args.dataset)
    lines = Lines()
    return prepare(
        SOURCES.get(args.dataset) or dataset,
        args.root,
        lambda root: check(dataset(root)).wrong,
        note=lines.note,
        progress=lines.progress,
    )


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    add_dataset(parser)
    parser.add_argument("--lists", metavar="DIR", help="where its published lists are (default: below DIR)")


def _check(args: argparse.Namespace) -> dict[str, Any]:
    from hda.data.check import check

    dataset = lookup("data.datasets", args.dataset)(args.root)
    report = check(dataset, args.lists)
    rows = [
        (found.domain, _number(found.pictures), _number(found.published), _number(found.classes), found.path or "")
        for found in report.found
    ]
    print(table(("domain", "pictures", "published", "classes", "where"), rows))
    for sentence in (sentence for found in report.found for sentence in found.told):
        print(sentence)
    for sentence in report.wrong:
        print(sentence, file=sys.stderr)
    if not report.whole:
        many = "1 thing is" if len(report.wrong) == 1 else f"{len(report.wrong)} things are"
        raise UnmetError(
            f"{dataset.title} in {args.root} is not whole: {many} wrong with it, as said above", report.as_dict()
        )
    print(f"{dataset.title} in {args.root} is whole")
    return report.as_dict()


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", metavar="NAME", nargs="?", help="all about one")


def _list(args: argparse.Namespace) -> list[dict[str, Any]]:
    known = registered("data.datasets")
    if args.dataset is not None and args.dataset not in known:
        raise unknown("dataset", args.dataset, known)
    rows = [describe(cls) for name, cls in known.items() if args.dataset in (None, name)]
    if args.dataset is None:
        print(table(("name", "classes", "domains"), [(r["name"], _number(r["classes"]), r["domains"]) for r in rows]))
    else:
        for name, value in rows[0].items():
            print(f"{name}: {value}")
    return rows


def describe(cls: Any) -> dict[str, Any]:
    """A dataset's facts in plain data."""
    domains = ", ".join(f"{domain.name} ({domain.short})" for domain in cls.domains)
    pictures = ", ".join(f"{domain.name} {_count(domain)}" for domain in cls.domains)
    return {
        "name": cls.name,
        "classes": len(cls.classes),
        "domains": domains or "those of the folder",
        "pictures": pictures or "not published",
        "citation": cls.citation,
        "licence": cls.licence,
        "homepage": cls.homepage,
        "how to get it": _how(cls),
    }


def _how(cls: Any) -> str:
    from hda.data.sources import SOURCES

    source = SOURCES.get(cls.name) or cls
    return f"`hda data prepare {cls.name} DIR`; or {source.manual}" if source.downloads else source.manual


def _count(domain: Any) -> str:
    if domain.train is not None:
        return f"{domain.train:,} training and {domain.test:,} test"
    return "?" if domain.images is None else f"{domain.images:,}"


def _number(value: int | None) -> str:
    return "\u2013" if value is None else f"{value:,}"


SUBCOMMANDS = {
    "list": Subcommand(_list_arguments, _list, "which there are"),
    "prepare": Subcommand(add_dataset, _prepare, "get one"),
    "check": Subcommand(_check_arguments, _check, "whether one is whole"),
}
