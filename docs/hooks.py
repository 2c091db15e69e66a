"""What the site writes by itself: every method, recipe and alignment there is, and tables of settings.

A line `<!-- every methods -->` in a page becomes the classes of that room, `<!-- settings hda.engine.settings.FitSettings -->`
the table of that class of settings.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

from hda.registry import registered
from hda.settings import Option, options

PLACE = re.compile(r"^<!-- (every|settings) ([\w.]+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    return PLACE.sub(lambda found: {"every": every, "settings": settings}[found[1]](found[2]), markdown)


def every(room: str) -> str:
    return "\n\n".join(_about(cls) for cls in registered(room).values())


def settings(path: str) -> str:
    module, _, name = path.rpartition(".")
    return _table(options(getattr(importlib.import_module(module), name)))


def _about(cls: Any) -> str:
    """A class as its docstring has it, then what its attributes tell, then its settings."""
    parts = [f"::: {cls.__module__}.{cls.__qualname__}"]
    if reference := getattr(cls, "reference", None):
        parts[0] += "\n    options:\n      members: false"
        parts.append(
            f"By name: `{cls.name}`. It works for {', '.join(s for s in ('uda', 'msda', 'ssda') if s in cls.supports)}."
        )
        if reference.authors:
            title = f"[{reference.title}]({reference.url})" if reference.url else reference.title
            parts.append(f"{reference.authors}: {title}, {reference.venue}. Deviations: {reference.deviations}.")
    elif paper := getattr(cls, "paper", None):
        parts[0] += "\n    options:\n      members: false"
        needs = {"source": "the source's training part", "held_out": "a part of the source held out"}
        wanted = " and ".join(needs[part] for part in sorted(cls.needs, reverse=True))
        parts.append(f"By name: `{cls.name}`. It needs {wanted or 'nothing of the source'}. {paper}.")
    elif budgets := getattr(cls, "budgets", None):
        parts[0] += "\n    options:\n      members: false"
        parts.append(f"By name: `{cls.name}`. What it does by default:")
        rows = [(name, f"{b.steps:,}", str(b.batch), f"{b.lr:g}") for name, b in budgets.items()]
        parts.append(_rows(("setting", "steps", "batch", "learning rate"), rows))
    if hasattr(cls, "Settings") and options(cls.Settings):
        parts.append(_table(options(cls.Settings)))
    return "\n\n".join(parts)


def _table(found: tuple[Option, ...]) -> str:
    rows = [(f"`{option.name}`", _kind(option), f"`{_default(option)}`", option.help) for option in found]
    return _rows(("name", "kind", "default", "what it is"), rows)


def _kind(option: Option) -> str:
    if option.choices:
        return ", ".join(option.choices)
    return {bool: "on or off", int: "whole number", float: "number", str: "word"}[option.kind]


def _default(option: Option) -> str:
    if option.default is None:
        return "auto"
    if isinstance(option.default, bool):
        return "on" if option.default else "off"
    return f"{option.default:g}" if isinstance(option.default, float) else str(option.default)


def _rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    cells = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)
