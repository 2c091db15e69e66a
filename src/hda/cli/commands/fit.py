"""Train a classifier on labelled pictures and adapt it to unlabelled ones.

Pictures come from a folder of class folders, a flat folder (target), a list of `path label` lines (with --root), or a
.tar of class folders. Target labels are never used for training; with --evaluate the target's class folders are taken
for the truth and measured against.

  hda fit --source photos --target drawings
  hda fit --source art product --target clipart --labelled few-cliparts --method hdan --steps 2000
  hda fit --source photos --target drawings --shots 3                three labelled ones of each class
  hda fit --task "office-home:Art->Clipart" --data DIR --shots 3     a dataset by name (`hda list datasets`)
  hda fit --source photos --target drawings --method mcd --help     lists that method's settings
  hda fit --resume --out runs/drawings                               goes on with a run that was stopped
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hda import settings as plain
from hda.cli import options
from hda.cli.terminal import reporting
from hda.data.scenario import Scenario
from hda.data.tasks import FOLDERS, NAMED, read_origin
from hda.engine.place import place
from hda.engine.run import SETTINGS, Run
from hda.engine.settings import FitSettings, Settings
from hda.errors import UserError
from hda.methods.aligned import method_class
from hda.registry import lookup, registered

USAGE = """hda fit --source PATH [PATH ...] --target PATH [--labelled PATH] [--evaluate] [--out DIR] [SETTING ...]
       hda fit --task DATASET:SOURCE->TARGET --data DIR [--shots N] [--out DIR] [SETTING ...]
       hda fit --resume --out DIR"""
ORIGIN = (*FOLDERS, *NAMED, "shots", "combine", "strict", "evaluate", "skip_broken")  # where the pictures come from


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.usage = USAGE
    parser.epilog = "N stands for a whole number, X for a number, NAME for a word. What is not given has its default."
    data = parser.add_argument_group("pictures")
    data.add_argument("--source", nargs="+", metavar="PATH", help="labelled pictures: one path for each source domain")
    data.add_argument("--target", metavar="PATH", help="pictures of the new domain; their labels are not read")
    data.add_argument("--labelled", metavar="PATH", help="a few labelled pictures of the target")
    data.add_argument("--root", metavar="PATH", help="where the paths in lists start (default: each list's folder)")
    data.add_argument(
        "--task", metavar="NAME", help="instead: a dataset's domains, as in 'office-home:Art->Clipart'; it is measured"
    )
    data.add_argument("--data", metavar="DIR", help="the folder that the task's dataset lies in")
    shots = plain.Option(
        "shots", int, None, "labelled target pictures of each class: published, or drawn with the seed"
    )
    data.add_argument("--shots", metavar="N", type=shots.parse, help=shots.help)
    data.add_argument(
        "--split", choices=("published", "drawn"), help="with --shots, insist on one (default: published if there)"
    )
    data.add_argument("--lists", metavar="DIR", help="where the dataset's published lists are (default: below --data)")
    data.add_argument("--combine", action="store_true", help="take several sources for one domain")
    data.add_argument(
        "--evaluate", action="store_true", help="the target's class folders are true labels: measure accuracy"
    )
    data.add_argument(
        "--strict", action="store_true", help="when measuring, refuse target classes that the source lacks"
    )
    data.add_argument(
        "--skip-broken", action="store_true", help="leave out pictures that cannot be read, and name them"
    )
    run = parser.add_argument_group("run")
    run.add_argument("--out", metavar="DIR", help="the run's folder (default: runs/METHOD-TASK-SEED)")
    run.add_argument("--resume", action="store_true", help="go on with the run in --out from its last checkpoint")
    chosen = _choices(words)
    options.add(run, plain.options(FitSettings))
    for room, cls in chosen.items():
        group = parser.add_argument_group(f"settings of the {room.rstrip('s')} {cls.name}", _about(cls))
        options.add(group, plain.options(cls.Settings))
    _refuse_others(words, chosen)


def run(args: argparse.Namespace) -> dict[str, Any]:
    import hda
    from hda.engine.fit import default_folder

    given = {name: value for name, value in vars(args).items() if name not in (*ORIGIN, "json", "out", "resume")}
    origin = {name: getattr(args, name) for name in ORIGIN}
    if args.resume:
        given, origin = _begun(args, given, origin)
    settings = Settings.given(**given)
    scenario, answers = read_origin(origin, settings.fit.seed)
    out = Path(args.out) if args.out else default_folder(settings, scenario)
    try:
        with reporting() as reporter:
            reporter.note(_summary(scenario))
            finished = hda.fit(
                scenario,
                out=out,
                evaluate=answers,
                resume=args.resume,
                skip_broken=origin["skip_broken"],
                origin=_absolute(origin),
                reporter=reporter,
                **given,
            )
    except KeyboardInterrupt:
        if (out / SETTINGS).exists():
            raise KeyboardInterrupt(f"`hda fit --resume --out {out}` goes on with it") from None
        raise
    return _tell(finished) if place().first else {}


def _begun(
    args: argparse.Namespace, given: dict[str, Any], origin: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and pictures of the run in --out, as far as the words do not give them again."""
    pictures = origin["source"] or origin["target"] or origin["task"]
    if not args.out:
        if not pictures:
            raise UserError("--resume needs the run's folder: add --out DIR")
        return given, origin
    if not (Path(args.out) / SETTINGS).exists():
        if not pictures:
            raise UserError(f"{args.out} is not a run's folder: give --resume the --out that the run was begun with")
        return given, origin
    begun = Run(args.out)
    before = begun.description["origin"]
    return _together(begun.settings, given), origin if pictures else {
        name: origin[name] or before.get(name) for name in ORIGIN
    }


def _summary(scenario: Scenario) -> str:
    images = sum(map(len, scenario.sources))
    few = f", {len(scenario.labelled):,} labelled ones of the target" if scenario.labelled else ""
    return (
        f"{scenario.name}: {images:,} labelled images of {len(scenario.classes)} classes{few}, "
        f"{len(scenario.target):,} unlabelled ones"
    )


def _tell(run: Run) -> dict[str, Any]:
    result = run.result
    assert result is not None
    accuracy = result["target_accuracy"]
    if accuracy is not None:
        print(f"target accuracy {accuracy:.2f} % at the last step")
    selected = result.get("selected")
    if selected is not None:
        measured = selected["target_accuracy"]
        of = "" if measured is None else f", of target accuracy {measured:.2f} %"
        print(
            f"{selected['validator']} chose step {selected['step']}{of}: `hda predict {run.path} PATH --checkpoint selected`"
        )
    if "common_accuracy" in result:
        print(
            f"{result['common_accuracy']:.2f} % of the {result['common_images']:,} pictures that are tested on whatever "
            "the number of shots"
        )
    print(
        f"the run is in {run.path}: `hda predict {run.path} PATH` classifies pictures, `hda report {run.path}` draws a page"
    )
    names = ("target_accuracy", "steps", "resumed_from", "seconds", "images", "domains")
    common = [name for name in ("common_accuracy", "common_images") if name in result]
    return {"run": str(run.path), **{name: result[name] for name in (*names, *common)}, "selected": selected}


def _together(begun: Settings, given: dict[str, Any]) -> dict[str, Any]:
    """A run's settings by name, with the words given now in their place."""
    if any(
        given.get(name, getattr(begun.fit, name)) != getattr(begun.fit, name)
        for name in ("method", "head", "alignment")
    ):
        begun = replace(begun, method={})  # refused all the same, but not for a setting that nobody gave
    if given.get("recipe", begun.fit.recipe) != begun.fit.recipe:
        begun = replace(begun, recipe={})
    return begun.flat() | given


def _choices(words: Sequence[str]) -> dict[str, type[Any]]:
    """Which method and recipe the words choose: they decide which options there are."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    names = ("method", "head", "alignment", "recipe")
    for name in (*names, "out"):
        first.add_argument(f"--{name}")
    first.add_argument("--resume", action="store_true")
    try:
        known, _ = first.parse_known_args(list(words))
    except argparse.ArgumentError:
        known = argparse.Namespace(**dict.fromkeys((*names, "out")), resume=False)
    before = FitSettings()
    if known.resume and known.out and (Path(known.out) / SETTINGS).exists():
        before = Run(known.out).settings.fit
    method, head, alignment, recipe = (getattr(known, name) or getattr(before, name) for name in names)
    return {"methods": method_class(method, head, alignment), "recipes": lookup("recipes", recipe)}


def _refuse_others(words: Sequence[str], chosen: dict[str, type[Any]]) -> None:
    """A setting of another method is a mistake worth a sentence of its own."""
    given = {word.partition("=")[0] for word in words}
    own = {
        option.name
        for cls in (FitSettings, *(cls.Settings for cls in chosen.values()))
        for option in plain.options(cls)
    }
    for room, mine in chosen.items():
        known = registered(room)
        for option in sorted({o.name for cls in known.values() for o in plain.options(cls.Settings)} - own):
            if options.flag(option) in given:
                kind = room.rstrip("s")
                others = [
                    name for name, cls in known.items() if option in {o.name for o in plain.options(cls.Settings)}
                ]
                whose = f"the {kind} {others[0]}" if len(others) == 1 else f"the {room} {', '.join(others)}"
                raise UserError(
                    f"{options.flag(option)} is a setting of {whose}, and the {kind} is {mine.name}: "
                    f"leave it out or give --{kind} {others[0]}"
                )


def _about(cls: Any) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


def _absolute(origin: dict[str, Any]) -> dict[str, Any]:
    """Paths that still hold when the run is resumed from another folder."""
    names = ("target", "labelled", "root", "data", "lists")
    paths = {name: str(Path(origin[name]).resolve()) for name in names if origin[name]}
    return origin | paths | {"source": [str(Path(path).resolve()) for path in origin["source"] or ()]}
