"""Search over settings without target labels: a trial is a run, and a validator says how good it is.

What the next trial tries is a function of the seed and of the trials before it. So a search that was stopped goes on
exactly: there is nothing to keep of it but its runs, and these resume by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hda
from hda import settings as plain
from hda.data.images import Location
from hda.data.scenario import Answers, Scenario
from hda.engine import files
from hda.engine.fit import fit
from hda.engine.lock import locked
from hda.engine.reporter import Reporter
from hda.engine.run import SETTINGS, Run
from hda.engine.selecting import PREFIX
from hda.engine.settings import FitSettings, Settings
from hda.errors import NotFiniteError, SettingError, UserError, unknown
from hda.methods.aligned import method_class
from hda.registry import lookup
from hda.selection import validator

MARK = "tune.json"
FAILED = "failed.json"
APART = frozenset(  # what decides the data, the place, or who judges: not what a search may turn
    {
        "method",
        "head",
        "alignment",
        "recipe",
        "seed",
        "device",
        "graph",
        "compile",
        "resident",
        "select",
        "source_hold_out",
    }
    | {"keep_checkpoints", "log_every", "evaluate_every", "checkpoint_every"}
)
STARTUP = 5  # trials drawn at random before the sampler learns from them
ATTEMPTS = 50  # to draw settings that no trial has had


@dataclass(frozen=True)
class Dimension:
    """What one setting may be: a range, or one of several values."""

    name: str
    values: tuple[Any, ...]  # all of them; of a range the lowest and the highest
    ranged: bool = False
    log: bool = False

    def distribution(self) -> Any:
        """As Optuna calls it."""
        from optuna import distributions

        if not self.ranged:
            return distributions.CategoricalDistribution(self.values)
        low, high = self.values
        if isinstance(low, int):
            return distributions.IntDistribution(low, high, log=self.log)
        return distributions.FloatDistribution(low, high, log=self.log)


@dataclass(frozen=True)
class Trial:
    """One run of a search."""

    number: int
    path: Path
    settings: dict[str, Any]  # those that the search turns
    score: float | None  # of the last iteration, by the validator; None where training left the numbers
    target_accuracy: float | None  # measured, and used for nothing


@dataclass(frozen=True)
class Tuning:
    """What a search came to."""

    path: Path
    trials: tuple[Trial, ...]  # in the order they were tried
    options: dict[str, Any]  # the settings that all of them share

    @property
    def ranked(self) -> list[Trial]:
        """From the best to the worst, those that failed at the end."""
        return sorted(self.trials, key=lambda trial: -np.inf if trial.score is None else trial.score, reverse=True)

    @property
    def best(self) -> Trial:
        """The trial of the highest score; the first of equals.

        Raises:
            UserError: all have failed.
        """
        best = self.ranked[0]
        if best.score is None:
            raise UserError(f"training left the numbers in every trial of {self.path}: search among lower --lr")
        return best

    @property
    def best_options(self) -> dict[str, Any]:
        """Every setting of the best trial that is not at its default: what `hda.fit` is to be given."""
        return self.options | self.best.settings


def tune(
    scenario: Scenario,
    *,
    search: Sequence[str],
    select: str,
    out: Location,
    trials: int = 20,
    evaluate: Answers | None = None,
    resume: bool = False,
    skip_broken: bool = False,
    origin: dict[str, Any] | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> Tuning:
    """Try settings, each as a run in `out/trial-NNN`, and rank them by what a validator says of their last iteration.

    Args:
        scenario: whose pictures, and which labels, training may see.
        search: `name=low:high`, `name=low:high:log` or `name=a,b,c`, one a setting.
        select: the validator.
        out: the search's folder.
        trials: how many to try; a search that goes on may be given more.
        evaluate: the target's true labels, to measure with alone: nothing is chosen by them.
        resume: go on with the search in `out`.
        skip_broken: leave out pictures that cannot be read.
        origin: plain data about where the scenario came from.
        reporter: is told how the search and its runs get on.
        **options: the settings that all trials share.

    Raises:
        UserError: Optuna is missing, or something that is asked for is wrong.
    """
    check_optuna()
    reporter, out = reporter or Reporter(), Path(out)
    plain.at_least(1, trials=trials)
    dimensions = read_search(search, options)
    _check(dimensions, scenario, {**options, "select": select})
    asked = {"search": list(search), "select": select, "options": options}
    _begin(out, {"hda": hda.__version__, "trials": trials, "origin": origin or {}, **asked}, resume)
    seed = int(options.get("seed", 0))
    with locked(out / "lock", f"{out} is being written by another process: wait for it or give another --out"):
        tried: list[Trial] = []
        for number in range(trials):
            path = out / f"trial-{number:03d}"
            turned = _next(dimensions, tried, seed, number)
            if turned is None:
                reporter.note(f"all that there is to try has been tried in {number} trials")
                break
            if not _over(path):
                reporter.note(f"trial {number + 1} of {trials}: {_said(turned)}")
                given = {**options, **turned, "select": select}
                begun = (path / SETTINGS).exists()
                try:
                    fit(
                        scenario,
                        out=path,
                        evaluate=evaluate,
                        resume=begun,
                        skip_broken=skip_broken,
                        origin=origin,
                        reporter=reporter,
                        **given,
                    )
                except NotFiniteError as error:
                    reporter.note(f"trial {number + 1} failed: {error}")
                    files.write_json(path / FAILED, {"reason": str(error)})
            tried = _read([*tried, Trial(number, path, turned, None, None)], select)
    return Tuning(out, tuple(tried), {**options, "select": select})


def read_search(words: Sequence[str], options: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """What is to be searched, from `name=low:high[:log]` or `name=a,b,c`.

    Raises:
        UserError: a word is no such thing, or names what cannot be searched.
    """
    fit = FitSettings()
    names = (options.get(name, getattr(fit, name)) for name in ("method", "head", "alignment"))
    parts = (FitSettings, method_class(*names).Settings, lookup("recipes", options.get("recipe", fit.recipe)).Settings)
    known = {option.name: option for part in parts for option in plain.options(part)}
    found: dict[str, Dimension] = {}
    for word in words:
        name, equals, values = word.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not equals or not values:
            raise UserError(f"--search {word!r} is no range: give NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,C")
        if name not in known:
            raise unknown("setting", name, known, "`hda fit --help` lists them")
        if name in APART:
            raise UserError(f"{name} cannot be searched: it is no setting that makes a model better, give another")
        if name in options or name in found:
            raise UserError(f"{name} is given twice: leave it out of the options or of --search")
        found[name] = _dimension(word, known[name], values)
    if not found:
        raise UserError('nothing is to be searched: add --search NAME=LOW:HIGH, such as "lr=0.0001:0.01:log"')
    return tuple(found.values())


def _dimension(word: str, option: plain.Option, values: str) -> Dimension:
    if ":" not in values:
        choices = tuple(dict.fromkeys(option.parse(value.strip()) for value in values.split(",")))
        return Dimension(option.name, choices)
    parts = [part.strip() for part in values.split(":")]
    log = parts[2:] == ["log"]
    if option.kind not in (int, float) or option.choices or not (len(parts) == 2 or log):
        raise UserError(f"--search {word!r} is no range: give NAME=LOW:HIGH[:log] of a number, or NAME=A,B,C")
    low, high = (option.parse(part) for part in parts[:2])
    if low is None or high is None or not low < high or (log and low <= 0):
        least = "a LOW above 0 and " if log else ""
        raise UserError(f"--search {word!r} is empty: give {least}a HIGH above LOW")
    return Dimension(option.name, (low, high), ranged=True, log=log)


def _check(dimensions: Sequence[Dimension], scenario: Scenario, options: Mapping[str, Any]) -> None:
    """Let every end of every range be a setting that there may be, before the first trial.

    Raises:
        UserError: one may not.
    """
    first = {dimension.name: dimension.values[0] for dimension in dimensions}
    for dimension in dimensions:
        for value in dimension.values:
            try:
                Settings.given(**{**options, **first, dimension.name: value}).resolve(scenario)
            except SettingError as error:
                if error.name in first:
                    raise UserError(f"--search {error.name} {error.wrong}") from None
                raise


def _begin(out: Path, asked: dict[str, Any], resume: bool) -> None:
    """The search's folder with its mark, or the same search again.

    Raises:
        UserError: the folder exists and no search was asked to go on, or another one.
    """
    if (out / MARK).exists():
        if not resume:
            raise UserError(f"{out} exists: give another --out, or --resume to go on with it")
        before = marked(out)
        for name, words in (("search", "--search"), ("select", "--select"), ("options", "other settings")):
            if before[name] != asked[name]:
                raise UserError(
                    f"{out} was begun with another {words.removeprefix('other ')}: leave it as it was, or give another --out"
                )
        if before["trials"] != asked["trials"]:
            files.write_json(out / MARK, asked)
        return
    if out.exists() and (not out.is_dir() or any(not path.name.endswith(".tmp") for path in out.iterdir())):
        raise UserError(f"{out} exists and is not a search's folder: give another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        files.write_json(out / MARK, asked)
    except OSError as error:
        raise UserError(f"{out} cannot be made ({error.strerror}): give another --out") from None


def marked(out: Path) -> dict[str, Any]:
    """What a search was asked for.

    Raises:
        UserError: the folder is not a search's.
    """
    try:
        found: dict[str, Any] = json.loads((out / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(
            f"{out} is not a search's folder: give --resume the --out that the search was begun with"
        ) from None
    return found


def _next(dimensions: Sequence[Dimension], tried: Sequence[Trial], seed: int, number: int) -> dict[str, Any] | None:
    """Settings that no trial has had yet, from those before; None where there are none."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {dimension.name: dimension.distribution() for dimension in dimensions}
    states = optuna.trial.TrialState
    before = [
        optuna.trial.create_trial(
            params=trial.settings,
            distributions=space,
            value=trial.score,
            state=states.FAIL if trial.score is None else states.COMPLETE,
        )
        for trial in tried
    ]
    for attempt in range(ATTEMPTS):
        drawn = int(np.random.SeedSequence([seed, number, attempt]).generate_state(1)[0])
        sampler = optuna.samplers.TPESampler(seed=drawn, n_startup_trials=STARTUP if not attempt else 10**9)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.add_trials(before)
        turned = dict(study.ask(space).params)
        if all(turned != trial.settings for trial in tried):
            return turned
    return None


def _over(path: Path) -> bool:
    return (path / FAILED).exists() or (path / "result.json").exists()


def _read(trials: Sequence[Trial], select: str) -> list[Trial]:
    """The trials with what the validator says of each: of some validators, that depends on the others."""
    judge = validator(select)
    done = [trial for trial in trials if not (trial.path / FAILED).exists()]
    runs = [Run(trial.path) for trial in done]
    values = judge.values([_measured(run) for run in runs]) if runs else np.zeros(0)
    accuracies = [(run.result or {}).get("target_accuracy") for run in runs]
    known = {
        trial.number: (float(value), accuracy) for trial, value, accuracy in zip(done, values, accuracies, strict=True)
    }
    return [Trial(trial.number, trial.path, trial.settings, *known.get(trial.number, (None, None))) for trial in trials]


def _measured(run: Run) -> dict[str, float]:
    """What the validator has measured of a run's last iteration."""
    last = [record for record in run.records if any(name.startswith(PREFIX) for name in record)][-1]
    return {name.removeprefix(PREFIX): value for name, value in last.items() if name.startswith(PREFIX)}


def _said(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in settings.items()
    )


def check_optuna() -> None:
    try:
        import optuna  # noqa: F401 - whether it is there
    except ImportError:
        raise UserError('hda tune needs Optuna, which is not installed: pip install "hda[tune]"') from None
