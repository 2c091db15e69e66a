"""Search over settings without target labels: each trial is a run, and a validator says how good it is.

With --evaluate target accuracy is measured and shown; nothing is chosen by it. A search that was stopped goes on with
--resume, the trial under way from its last checkpoint.

  hda tune --source photos --target drawings --select infomax --out runs/search --search "lr=0.0003:0.03:log"
  hda tune --source photos --target drawings --method hdan --trials 20 --select ranks --out runs/search
           --search "termination_weight=0.1:10:log" "heuristics=1,3,5"
  hda tune --resume --out runs/search
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.cli import options
from hda.cli.commands import fit
from hda.cli.terminal import reporting
from hda.cli.text import table
from hda.data.tasks import read_origin
from hda.errors import UserError

USAGE = """hda tune --source PATH ... --target PATH --select NAME --out DIR --search NAME=RANGE ... [SETTING ...]
       hda tune --task DATASET:SOURCE->TARGET --data DIR --select NAME --out DIR --search NAME=RANGE ...
       hda tune --resume --out DIR [--trials N]"""
TRIALS = 20


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    fit.arguments(parser, words)
    parser.usage = USAGE
    search = parser.add_argument_group("search")
    search.add_argument(
        "--search",
        nargs="+",
        metavar="NAME=RANGE",
        help="settings to search: LOW:HIGH, LOW:HIGH:log, or the values A,B,C",
    )
    search.add_argument("--trials", type=int, metavar="N", help=f"how many settings to try (default: {TRIALS})")


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.tune import check_optuna, tune

    check_optuna()
    if not args.out:
        raise UserError("a search needs a folder: add --out DIR")
    asked = _asked(args)
    origin = asked["origin"]
    if not asked["select"]:
        raise UserError("nobody is to judge the trials: add --select NAME (`hda list validators`)")
    scenario, answers = read_origin(origin, int(asked["options"].get("seed", 0)))
    try:
        with reporting() as reporter:
            found = tune(
                scenario,
                search=asked["search"],
                select=asked["select"],
                out=args.out,
                trials=asked["trials"],
                evaluate=answers,
                resume=args.resume,
                skip_broken=origin["skip_broken"],
                origin=origin,
                reporter=reporter,
                **asked["options"],
            )
    except KeyboardInterrupt:
        if Path(args.out).exists():
            raise KeyboardInterrupt(f"`hda tune --resume --out {args.out}` goes on with it") from None
        raise
    return _tell(found, origin)


def _asked(args: argparse.Namespace) -> dict[str, Any]:
    """What is searched, and where: of a search that goes on, as it was begun, as far as the words do not say it again."""
    from hda.tune import MARK, marked

    apart = (*fit.ORIGIN, "json", "out", "resume", "search", "trials", "select")
    given = {name: value for name, value in vars(args).items() if name not in apart}
    origin = {name: getattr(args, name) for name in fit.ORIGIN}
    asked = {
        "origin": fit._absolute(origin),
        "search": args.search or [],
        "select": getattr(args, "select", None),
        "options": given,
        "trials": TRIALS if args.trials is None else args.trials,
    }
    out, pictures = Path(args.out), origin["source"] or origin["target"] or origin["task"]
    if not args.resume or (not (out / MARK).exists() and pictures):
        return asked
    before = marked(out)
    if args.trials is None:
        asked["trials"] = before["trials"]
    return (
        asked
        | {name: asked[name] if asked[name] else before[name] for name in ("search", "select", "options")}
        | {"origin": asked["origin"] if pictures else before["origin"]}
    )


def _tell(found: Any, origin: dict[str, Any]) -> dict[str, Any]:
    ranked = found.ranked
    names = list(ranked[0].settings)
    measured = any(trial.target_accuracy is not None for trial in ranked)
    header = ["trial", *(name.replace("_", " ") for name in names), found.options["select"]]
    rows = [
        [trial.path.name, *(_shown(trial.settings[name]) for name in names), _number(trial.score)]
        + ([_number(trial.target_accuracy, 1)] if measured else [])
        for trial in ranked
    ]
    print(table([*header, *(["target accuracy %"] if measured else [])], rows))
    if measured:
        print(
            "target accuracies were measured with the target's labels and not used: the order is the validator's alone"
        )
    best = found.best
    command = shlex.join(["hda", "fit", *_pictures(origin), *_settings(found.best_options)])
    print(f"the best run is in {best.path}; its settings as a command:\n{command}")
    return {
        "out": str(found.path),
        "best": {"run": str(best.path), "settings": best.settings, "score": best.score, "command": command},
        "trials": [
            {"run": str(t.path), "settings": t.settings, "score": t.score, "target_accuracy": t.target_accuracy}
            for t in found.trials
        ],
    }


def _pictures(origin: dict[str, Any]) -> list[str]:
    words = ["--source", *origin["source"]] if origin["source"] else []
    for name in fit.ORIGIN[1:]:
        given = origin[name]
        words += [options.flag(name)] if given is True else [options.flag(name), str(given)] if given else []
    return words


def _settings(given: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in given.items():
        if isinstance(value, bool):
            words.append(options.flag(name) if value else f"--no-{name.replace('_', '-')}")
        else:
            words += [options.flag(name), "auto" if value is None else str(value)]
    return words


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "auto" if value is None else str(value)


def _number(value: float | None, digits: int = 4) -> str:
    return "\u2013" if value is None else f"{value:.{digits}f}"
