"""What is there to choose from: every class of a room that has a `name`, found by being in the room.

A method, alignment, recipe or command is one file in its package. Other distributions add theirs through an entry
point of the group `hda.<room>` (for example `hda.methods`) that names a class.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from hda.errors import unknown


@cache
def registered(room: str) -> dict[str, type[Any]]:
    """The named classes of the package `hda.<room>` and of the entry points of that group, by name."""
    found: dict[str, type[Any]] = {}
    package = importlib.import_module(f"hda.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        for cls in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if inspect.isclass(cls) and cls.__module__.startswith(package.__name__) and "name" in vars(cls):
                found[cls.__dict__["name"]] = cls
    for entry in entry_points(group=f"hda.{room}"):
        found[entry.name] = entry.load()
    return dict(sorted(found.items()))


def lookup(room: str, name: str) -> type[Any]:
    """The class of that name in a room.

    Raises:
        UserError: there is none; the sentence names the nearest.
    """
    known = registered(room)
    if name not in known:
        raise unknown(room.rstrip("s"), name, known)
    return known[name]
