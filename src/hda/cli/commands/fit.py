"""Train a classifier on labelled pictures and adapt it to unlabelled ones.

Pictures come from a folder of class folders, a flat folder (target), a list of `path label` lines (with --root), or a
.tar of class folders. Target labels are never used for training; with --evaluate the target's class folders are taken
for the truth and measured against.

  hda fit --source photos --target drawings
  hda fit --source art product --target clipart --labelled few-cliparts --method hdan --steps 2000
  hda fit --source photos --target drawings --method mcd --help     lists that method's settings
  hda fit --resume --out runs/drawings                               goes on with a run that was stopped
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda import settings as plain
from hda.cli import options
from hda.cli.terminal import reporter
from hda.engine.run import SETTINGS, Run
from hda.engine.settings import FitSettings
from hda.errors import UserError
from hda.registry import lookup, registered


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    data = parser.add_argument_group("pictures")
    data.add_argument("--source", nargs="+", metavar="PATH", help="labelled pictures: one path for each source domain")
    data.add_argument("--target", metavar="PATH", help="pictures of the new domain; their labels are not read")
    data.add_argument("--labelled", metavar="PATH", help="a few labelled pictures of the target")
    data.add_argument("--root", metavar="PATH", help="where the paths in lists start (default: beside the list)")
    data.add_argument(
        "--evaluate", action="store_true", help="the target's class folders are true labels: measure accuracy"
    )
    data.add_argument(
        "--skip-broken", action="store_true", help="leave out pictures that cannot be read, and name them"
    )
    run = parser.add_argument_group("run")
    run.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/METHOD-TASK-SEED)")
    run.add_argument("--resume", action="store_true", help="go on with the run in --out from its last checkpoint")
    chosen = _choices(words)
    options.add(run, plain.options(FitSettings))
    for room, name in chosen.items():
        cls = lookup(room, name)
        group = parser.add_argument_group(f"settings of the {room.rstrip('s')} {name}", _about(cls))
        options.add(group, plain.options(cls.Settings))
    _refuse_others(words, chosen)


def run(args: argparse.Namespace) -> dict[str, Any]:
    import hda

    given = {name: value for name, value in vars(args).items() if name not in _NOT_SETTINGS}
    origin = {name: getattr(args, name) for name in ("source", "target", "labelled", "root", "evaluate", "skip_broken")}
    if args.resume and args.out and (Path(args.out) / SETTINGS).exists():
        begun = Run(args.out)
        given = begun.settings.flat() | given
        origin = {name: origin.get(name) or before for name, before in begun.description["origin"].items()}
    for name in ("source", "target"):
        if not origin.get(name):
            raise UserError(f"no {name} is given: add --{name} PATH (`hda fit --help` shows how)")
    scenario = hda.Scenario.read(origin["source"], origin["target"], origin["labelled"], origin["root"])
    answers = hda.Answers.read(origin["target"], scenario, origin["root"]) if origin["evaluate"] else None
    finished = hda.fit(
        scenario,
        out=args.out,
        evaluate=answers,
        resume=args.resume,
        skip_broken=origin["skip_broken"],
        origin=_absolute(origin),
        reporter=reporter(),
        **given,
    )
    return _tell(finished)


_NOT_SETTINGS = ("json", "source", "target", "labelled", "root", "evaluate", "skip_broken", "out", "resume")


def _tell(run: Run) -> dict[str, Any]:
    result = run.result
    assert result is not None
    accuracy = result["target_accuracy"]
    if accuracy is not None:
        print(f"target accuracy {accuracy:.2f} % at the last step, on {result['images']['target']:,} images")
    print(
        f"the run is in {run.path}: `hda predict {run.path} PATH` classifies pictures, `hda report {run.path}` draws a page"
    )
    names = ("target_accuracy", "steps", "resumed_from", "seconds", "images", "domains")
    return {"run": str(run.path), **{name: result[name] for name in names}}


def _choices(words: Sequence[str]) -> dict[str, str]:
    """Which method and recipe the words choose: they decide which options there are."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--method", "--recipe", "--out"):
        first.add_argument(name)
    first.add_argument("--resume", action="store_true")
    try:
        known, _ = first.parse_known_args(list(words))
    except argparse.ArgumentError:
        known = argparse.Namespace(method=None, recipe=None, out=None, resume=False)
    before = FitSettings()
    if known.resume and known.out and (Path(known.out) / SETTINGS).exists():
        before = Run(known.out).settings.fit
    return {"methods": known.method or before.method, "recipes": known.recipe or before.recipe}


def _refuse_others(words: Sequence[str], chosen: dict[str, str]) -> None:
    """A setting of another method is a mistake worth a sentence of its own."""
    for room, name in chosen.items():
        own = {option.name for option in plain.options(lookup(room, name).Settings)}
        own |= {option.name for option in plain.options(FitSettings)}
        own |= {option.name for other in chosen for option in plain.options(lookup(other, chosen[other]).Settings)}
        for other, cls in registered(room).items():
            for option in plain.options(cls.Settings):
                if option.name not in own and any(
                    word.partition("=")[0] == options.flag(option.name) for word in words
                ):
                    kind = room.rstrip("s")
                    raise UserError(
                        f"{options.flag(option.name)} is a setting of the {kind} {other}, and the {kind} is {name}: "
                        f"leave it out or give --{kind} {other}"
                    )


def _about(cls: Any) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _absolute(origin: dict[str, Any]) -> dict[str, Any]:
    """Paths that still hold when the run is resumed from another folder."""
    paths = {name: str(Path(origin[name]).resolve()) for name in ("target", "labelled", "root") if origin[name]}
    return origin | paths | {"source": [str(Path(path).resolve()) for path in origin["source"]]}
