"""What is there to choose from: every class of a room that has a `name`, found by being in the room.

A method, alignment, recipe, dataset (its room is `data.datasets`) or command is one file in its package. Other
distributions add theirs through an entry point of the group `hda.<room>` (for example `hda.methods`) that names a class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from hda.errors import UserError, unknown


@cache
def registered(room: str) -> dict[str, type[Any]]:
    """The named classes of the package `hda.<room>` and of the entry points of that group, by name.

    Raises:
        UserError: another distribution's class cannot be loaded, or takes a name that is taken.
    """
    found: dict[str, type[Any]] = {}
    package = importlib.import_module(f"hda.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        for cls in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if inspect.isclass(cls) and cls.__module__.startswith(package.__name__) and "name" in vars(cls):
                found[cls.__dict__["name"]] = cls
    for entry in entry_points(group=f"hda.{room}"):
        if entry.name in found:
            raise UserError(
                f"there are two {room} named {entry.name!r}: uninstall what brings {entry.value}, or rename it"
            )
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # whatever another distribution's code raises
            raise UserError(
                f"the entry {entry.name!r} of {room} cannot be loaded ({type(error).__name__}: {error}): update or "
                f"uninstall what brings {entry.value}"
            ) from error
    return dict(sorted(found.items()))


def register(room: str, cls: type[Any]) -> type[Any]:
    """Let a class of one's own be asked for by its name, in this process.

    Raises:
        UserError: the name is taken by another class.
    """
    known = registered(room)
    if known.get(cls.name, cls) is not cls:
        raise UserError(f"there is a {room.rstrip('s')} named {cls.name!r} already: give yours another name")
    known[cls.name] = cls
    return cls


def lookup(room: str, name: str) -> type[Any]:
    """The class of that name in a room.

    Raises:
        UserError: there is none; the sentence names the nearest.
    """
    known = registered(room)
    if name not in known:
        raise unknown(room.rpartition(".")[2].rstrip("s"), name, known)
    return known[name]
