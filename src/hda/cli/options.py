"""Settings as command line options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from hda.settings import Option


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def add(group: Any, options: Iterable[Option]) -> None:
    """Offer settings as options of an argparse group; those not given are absent from the parsed namespace."""
    for option in options:
        help = f"{option.help} (default: {_shown(option.default)})".replace("%", "%%")
        if option.kind is bool and not option.optional:
            group.add_argument(
                flag(option.name), action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=help
            )
        elif option.kind is bool:
            group.add_argument(
                flag(option.name), nargs="?", const=True, type=option.parse, default=argparse.SUPPRESS, metavar="yes|no",
                help=help,
            )  # fmt: skip
        else:
            group.add_argument(
                flag(option.name), type=option.parse, default=argparse.SUPPRESS, metavar=_metavar(option), help=help
            )


def _metavar(option: Option) -> str:
    return "|".join(option.choices) if option.choices else {int: "N", float: "X", str: "NAME"}[option.kind]


def _shown(default: Any) -> str:
    if default is None:
        return "auto"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)
