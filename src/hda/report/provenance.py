"""Where a run's figures come from: what it ran on, with what, and the command that does it again."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from hda import settings as plain
from hda.cli.options import flag
from hda.report import page

if TYPE_CHECKING:
    from hda.engine.run import Run


def facts(run: Run) -> list[tuple[str, str]]:
    """Names and values."""
    description, result = run.description, run.result or {}
    found = [(name, str(version)) for name, version in result.get("versions", {}).items()]
    if not found:
        found = [("hda", str(description["hda"]))]
    if result:
        found.append(("device", f"{result['device']}, {result['precision']}"))
        found.append(("time", page.duration(result["seconds"])))
        if result.get("resumed_from") is not None:
            found.append(("resumed", f"at iteration {result['resumed_from']:,}"))
    found.append(("seed", str(run.settings.fit.seed)))
    found.append(("fingerprint of the pictures", str(description["fingerprint"])[:16]))
    return [*found, ("folder", run.path.name)]


def command(run: Run) -> str:
    """The words that begin such a run again; of a path no more than its last two parts."""
    origin = run.description["origin"]
    words = ["hda", "fit"]
    for name, value in origin.items():
        if value is True:
            words.append(flag(name))
        elif value not in (None, False, []):
            given = value if isinstance(value, list) else [value]
            words += [flag(name), *(page.local(str(one)) for one in given)]
    for name, value in _not_default(run).items():
        words += [flag(name if value is not False else f"no_{name}")]
        words += [] if isinstance(value, bool) else [page.shown(value)]
    return shlex.join(words)


def _not_default(run: Run) -> dict[str, Any]:
    settings = run.settings
    kinds = (type(settings.fit), settings.method_class.Settings, type(settings.build_recipe("uda")).Settings)
    defaults = {option.name: option.default for kind in kinds for option in plain.options(kind)}
    open_ = dataclasses.replace(settings, fit=dataclasses.replace(settings.fit, source_hold_out=None))
    follow = {"target_batch": settings.fit.batch, "source_hold_out": open_.share_held_out()}  # where they are not given
    return {
        name: value
        for name, value in settings.flat().items()
        if value is not None and value not in (defaults.get(name), follow.get(name))
    }
