"""What there is to choose from: methods, heads, alignments, recipes, backbones, augmentations, validators, datasets.

hda list methods
hda list backbones resnet      those with "resnet" in the name
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from hda.cli.text import table
from hda.errors import unknown

Row = dict[str, Any]


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("room", metavar="WHAT", help=", ".join(ROOMS))
    parser.add_argument("part", metavar="PART", nargs="?", help="only names that contain this")


def run(args: argparse.Namespace) -> list[Row]:
    if args.room not in ROOMS:
        raise unknown("list", args.room, ROOMS)
    rows = [row for row in ROOMS[args.room]() if (args.part or "").lower() in row["name"].lower()]
    if rows:
        names = list(rows[0])
        print(table(names, [[_shown(row[name]) for name in names] for row in rows]))
    else:
        print(f"none of the {args.room} has {args.part!r} in its name")
    return rows


def _methods() -> list[Row]:
    from hda.methods.aligned import Aligned
    from hda.registry import registered

    return [
        {
            "name": name,
            "settings": sorted(cls.supports),
            "phases": cls.optimisations,
            "head": cls.head_kind.name if issubclass(cls, Aligned) else "",
            "alignment": cls.alignment_kind.name if issubclass(cls, Aligned) else "",
            "venue": cls.reference.venue,
            "title": cls.reference.title,
        }
        for name, cls in registered("methods").items()
    ]


def _named(room: str) -> Callable[[], list[Row]]:
    def rows() -> list[Row]:
        from hda.registry import registered

        return [{"name": name, "summary": cls.summary} for name, cls in registered(room).items()]

    return rows


def _backbones() -> list[Row]:
    from hda import backbones

    return [{"name": name} for name in backbones.available()]


def _augmentations() -> list[Row]:
    from hda.data.augment import KINDS

    return [{"name": name, "summary": kind.summary} for name, kind in KINDS.items()]


def _datasets() -> list[Row]:
    from hda.cli.commands.data import describe
    from hda.registry import registered

    rows = [describe(cls) for cls in registered("data.datasets").values()]
    return [{name: row[name] for name in ("name", "classes", "domains")} for row in rows]


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


ROOMS: dict[str, Callable[[], list[Row]]] = {
    "methods": _methods,
    "heads": _named("heads"),
    "alignments": _named("alignments"),
    "recipes": _named("recipes"),
    "backbones": _backbones,
    "augmentations": _augmentations,
    "validators": _named("selection"),
    "datasets": _datasets,
}
