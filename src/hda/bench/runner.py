"""A grid's runs in one folder: which are done, what tells one from another, doing one, and its result row."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import hda
from hda import settings as plain
from hda.bench import rows as result
from hda.bench.grid import Job
from hda.bench.paper import TABLES
from hda.data import content
from hda.data.scenario import Answers, Scenario
from hda.data.tasks import TaskName, read_task
from hda.engine import files
from hda.engine.device import choose_device, choose_precision, device_name
from hda.engine.evaluate import evaluate
from hda.engine.fit import REVISION, fit
from hda.engine.lock import locked
from hda.engine.reporter import Reporter
from hda.engine.run import CHECKPOINTS, SETTINGS, Run
from hda.engine.settings import FitSettings, Settings
from hda.errors import UserError
from hda.registry import lookup

Part = tuple[Scenario, Answers]

ROWS = "rows.jsonl"
# What decides where and how fast a run is computed, or how often it is looked at, and not what comes out.
FREE = ("device", "graph", "compile", "resident", "log_every", "checkpoint_every", "seed", "weights", "precision")
PATIENCE = 30.0  # seconds to wait for whoever still holds a run's folder: a worker whose command was killed soon ends


@dataclass(frozen=True)
class Planned:
    """A run of a grid, and how far it is."""

    job: Job
    identity: str
    folder: Path
    done: bool  # its row is there
    share: float  # of its steps, those that a checkpoint holds
    steps: int


class Place(NamedTuple):
    """What runs are computed on."""

    device: str  # in its maker's words
    precision: str  # what "auto" comes to there

    @classmethod
    def here(cls, device: str = "auto") -> Place:
        """This process's, for runs with that setting."""
        chosen = choose_device(device)
        return cls(device_name(chosen), choose_precision("auto", chosen))


class Bench:
    """A grid's runs in one folder: `runs/` with a folder a run, and `rows.jsonl` with a row for each that is done.

    A run is identified by its settings, its data's content, and the revisions of method, recipe and engine, which are
    raised only when numbers change. What has a row is not done again; what was stopped goes on from its last checkpoint.

    Args:
        out: the folder; made when the first run begins.
        data: the folder that the datasets lie in.
        hold_out: share of each target that adaptation never sees, to be measured on apart.
        source: what is run, as `hda bench` takes it: the name of a table, or a file.
        lists: the folder of published lists, where it is not below `data`.
        place: where the runs are computed, if not in this process.
    """

    def __init__(
        self,
        out: Path,
        data: Path,
        *,
        hold_out: float = 0.0,
        source: str = "",
        lists: Path | None = None,
        place: Place | None = None,
    ) -> None:
        plain.between(0, 0.9, hold_out=hold_out)
        self.out, self.data, self.hold_out, self.source, self.lists = out, data, hold_out, source, lists
        self.place = place
        self.task = cache(self._task)
        self.parts = cache(self._parts)
        self.fingerprint = cache(self._fingerprint)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of what is done."""
        path = self.out / ROWS
        return result.read([path]) if path.exists() else []

    def plan(self, jobs: Iterable[Job]) -> list[Planned]:
        """The runs, each once, and how far they are.

        Raises:
            UserError: a task's pictures are not there, or a setting is wrong.
        """
        done = {row.get("identity") for row in self.rows}
        planned: dict[str, Planned] = {}
        for job in jobs:
            settings = self.settings(job)
            self.parts(job.task, job.shots)
            identity = self.identity(job)
            folder = self.out / "runs" / f"{_slug(job)}-{identity[:10]}"
            steps = settings.fit.steps or 1
            share = 0.0 if identity in done else min(1.0, _steps_kept(folder) / steps)
            planned.setdefault(identity, Planned(job, identity, folder, identity in done, share, steps))
        return list(planned.values())

    def missing(self, jobs: Iterable[Job]) -> dict[str, list[str]]:
        """The domains that are not there, by task; a task that lacks none is not named."""
        found = {}
        for task, whole in dict.fromkeys((job.task, bool(job.table)) for job in jobs):
            name = TaskName.parse(task)
            dataset = lookup("data.datasets", name.dataset)(self.data)
            needed = [dataset.domain(word) for word in (*name.sources, name.target) if word != "*"]
            if "*" in name.sources and whole:  # a table of the paper has all domains, whichever are there
                needed += [one for one in dataset.domains if one.name not in dataset.optional and one not in needed]
            absent = [domain.name for domain in needed if dataset.where(domain) is None]
            if absent:
                found[task] = absent
        return found

    def settings(self, job: Job) -> Settings:
        """A run's settings, every "auto" that depends on its task filled in.

        Raises:
            UserError: one is wrong, or the method does not know the task's setting.
        """
        scenario, _ = self.task(job.task, job.shots)
        try:
            settings = Settings.given(**job.options).resolve(scenario)
        except UserError as error:
            if str(error).startswith("unknown setting"):
                raise UserError(f"{job.called} has an {error}") from None
            raise
        weights = settings.fit.weights
        if weights not in ("pretrained", "none") and not Path(weights).is_file():
            raise UserError(f"the weights {weights!r} are not there: give pretrained, none, or an existing file")
        if scenario.setting not in settings.method_class.supports:
            known = ", ".join(sorted(settings.method_class.supports))
            raise UserError(
                f"{job.method} does not know the setting {scenario.setting} of {job.task}, only {known}: leave it out"
            )
        return settings

    def identity(self, job: Job) -> str:
        """A digest of everything that decides a run's numbers.

        Of the settings those count that are not at their default: a setting that comes later, and whose default is what was
        done before, leaves a run what it was. Whoever changes a default raises the revision.
        """
        scenario, _ = self.task(job.task, job.shots)
        settings = self.settings(job)
        method, recipe = settings.method_class, settings.build_recipe(scenario.setting)
        decides = {
            "fit": _given(FitSettings, plain.as_dict(settings.fit), FREE),
            "method": [method.name, _given(method.Settings, settings.method)],
            "recipe": [recipe.name, _given(type(recipe).Settings, settings.recipe)],
            "seed": settings.fit.seed,
            "weights": _digest(settings.fit.weights),
            "precision": self._precision(settings),
            "data": self.fingerprint(job.task, job.shots),
            "hold_out": self.hold_out,
            "revisions": [REVISION, method.revision, recipe.revision],
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def do(self, planned: Planned, reporter: Reporter | None = None) -> dict[str, Any]:
        """Do one run, or the rest of it, and give its row; the row is not written.

        Raises:
            UserError: something is wrong with the pictures or the settings, or training has left the numbers.
        """
        job, folder = planned.job, planned.folder
        seen, unseen = self.parts(job.task, job.shots)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        _wait_for(folder)
        begun = _begun(folder, seen[0], reporter or Reporter())
        if begun is not None and begun.result is not None:
            run = begun  # it was done, and its row was not written any more
        else:
            run = fit(
                seen[0],
                evaluate=seen[1],
                out=folder,
                resume=begun is not None,
                origin={"task": job.task, "shots": job.shots},
                reporter=reporter,
                **job.options | _kept_settings(begun),
            )
        row = row_of(run, job, fingerprint=self.fingerprint(job.task, job.shots), identity=planned.identity)
        row["command"] = self.command(job)
        row["settings"] = {name: self._public(value) for name, value in row["settings"].items()}
        row["peak_memory"] = _peak_memory()
        row["hold_out"] = None if unseen is None else _measured_apart(run, self.hold_out, *unseen)
        files.remove(
            folder / CHECKPOINTS
        )  # its weights are in the folder: nothing needs the rest, which is twice as large
        return row

    def add(self, row: Mapping[str, Any]) -> bool:
        """Write a run's row, unless it is there; says whether it was written."""
        self.out.mkdir(parents=True, exist_ok=True)
        with _alone(self.out / ".rows.lock"):
            new = row["identity"] not in {known.get("identity") for known in self.rows}
            if new:
                result.add(self.out / ROWS, row)
        return new

    def command(self, job: Job) -> str:
        """What does this run again, and no other; FOLDER stands for the data's."""
        words = ["hda", "bench", Path(self.source).name or "GRID.py", "--data", "FOLDER"]
        printed = _as_printed(job)
        words += ["--methods", printed[0] if printed else job.called, "--tasks", printed[1] if printed else job.task]
        words += ["--seeds", str(job.seed)]
        added = [f"{name}={self._public(value)}" for name, value in job.added.items()]
        words += ["--set", *added] if added else []
        return shlex.join(words + (["--hold-out", f"{self.hold_out:g}"] if self.hold_out else []))

    def _precision(self, settings: Settings) -> str:
        if settings.fit.precision != "auto":
            return settings.fit.precision
        return (self.place or Place.here(settings.fit.device)).precision

    def _public(self, value: Any) -> Any:
        """A setting as others can use it: the path of a file without where it lies here."""
        if not isinstance(value, str) or "/" not in value or not Path(value).exists():
            return value
        path, data = Path(value).resolve(), self.data.resolve()
        return f"FOLDER/{path.relative_to(data)}" if path.is_relative_to(data) else path.name

    def _task(self, task: str, shots: int | None) -> tuple[Scenario, Answers]:
        options = {} if self.lists is None or shots is None else {"lists": self.lists}
        found = read_task(task, self.data, shots=shots, **options)  # type: ignore[arg-type]
        return found.scenario, found.answers

    def _parts(self, task: str, shots: int | None) -> tuple[Part, Part | None]:
        return hold_out(*self.task(task, shots), self.hold_out)

    def _fingerprint(self, task: str, shots: int | None) -> str:
        return content.of_task(*self.task(task, shots))


def hold_out(scenario: Scenario, answers: Answers, share: float) -> tuple[Part, Part | None]:
    """The task without a share of its target's pictures, and the task with these alone; None where the share is zero.

    The pictures are chosen by a digest of their names: the same for every method and seed, and no label takes part.

    Raises:
        UserError: accuracy is measured on other pictures than the target's already.
    """
    if not share:
        return (scenario, answers), None
    if answers.images is not None:
        raise UserError("this task is measured on a test part that adaptation never sees: leave --hold-out out")
    drawn = [
        int(hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8], 16) for name in scenario.target.names
    ]
    order = np.argsort(drawn, kind="stable")
    count = max(1, round(share * len(order)))
    apart, rest = np.sort(order[:count]), np.sort(order[count:])
    seen, unseen = ((scenario.keep(target=part), answers.select(part)) for part in (rest, apart))
    return seen, unseen


def row_of(run: Run, job: Job, *, fingerprint: str = "", identity: str = "") -> dict[str, Any]:
    """The result row of a finished run.

    Raises:
        UserError: the run is not finished, or its accuracy was not measured.
    """
    found = run.result
    if found is None or found["target_accuracy"] is None:
        raise UserError(f"{run.path} has no accuracy to put in a row: let it finish, begun with --evaluate")
    fit_settings, method = run.settings.fit, run.settings.method_class
    _, rates = run.curve("images_per_second")
    steps, accuracies = run.curve("target_accuracy")
    selected = found.get("selected")
    return {
        "schema": result.SCHEMA,
        "setting": found["setting"],
        "dataset": job.task.partition(":")[0] if ":" in job.task else "",
        "task": _with_sources(job, run),
        "shots": job.shots,
        "method": method.name,
        "variant": job.variant,
        "seed": fit_settings.seed,
        "steps": found["steps"],
        "batch": fit_settings.batch,
        "backbone": fit_settings.backbone,
        "weights": run.description["backbone"].get("weights"),
        "precision": found["precision"],
        "accuracy": round(found["target_accuracy"], 3),
        "mean_class_accuracy": round(found["mean_class_accuracy"], 3),
        "selected": selected
        and {"validator": selected["validator"], "step": selected["step"], "accuracy": selected["target_accuracy"]},
        "oracle": round(float(accuracies.max()), 3),
        "accuracies": {int(step): round(float(value), 3) for step, value in zip(steps, accuracies, strict=True)},
        "per_class": {name: round(value, 2) for name, value in found["per_class"].items()},
        "device": found["device"],
        "seconds": round(found["seconds"], 3),
        "images_per_second": round(float(np.median(rates[1:] if len(rates) > 1 else rates))),
        "hda": hda.__version__,
        "commit": _commit(),
        "torch": found["versions"]["torch"],
        "versions": {**found["versions"], "python": sys.version.split()[0], "numpy": np.__version__},
        "fingerprint": fingerprint,
        "identity": identity,
        "settings": {name: run.settings.flat().get(name, value) for name, value in job.settings.items()},
        "table": job.table,
    }


def estimate(planned: Sequence[Planned], rows: Sequence[Mapping[str, Any]], device: str) -> tuple[float, int] | None:
    """Seconds that what is left may take one after the other, and from how many rows that is known.

    Rows are alike that are of this device, backbone and method, else of this device and backbone; their seconds count for
    a step. What a checkpoint holds of a run is not counted again. None where a run has no row alike.
    """
    total, used = 0.0, set()
    for one in planned:
        if one.done:
            continue
        backbone = one.job.options.get("backbone", FitSettings().backbone)
        alike = [
            number
            for number, row in enumerate(rows)
            if (row.get("device"), row.get("backbone")) == (device, backbone)
            and row.get("steps")
            and row.get("seconds")
        ]
        known = [number for number in alike if rows[number]["method"] == one.job.method] or alike
        if not known:
            return None
        used.update(known)
        a_step = float(np.median([rows[number]["seconds"] / rows[number]["steps"] for number in known]))
        total += a_step * one.steps * (1 - one.share)
    return total, len(used)


def neighbours(out: Path) -> list[dict[str, Any]]:
    """The rows of this bench's folder and of those beside it: what a machine has done before."""
    files = [path for path in sorted(out.absolute().parent.glob(f"*/{ROWS}")) if path.is_file()]
    return result.read(files)


def _measured_apart(run: Run, share: float, scenario: Scenario, answers: Answers) -> dict[str, Any]:
    found = evaluate(run.predict(scenario.target).labels, answers)
    return {"share": share, "images": found.images, "accuracy": round(found.accuracy, 3)}


def _given(settings: type[Any], values: Mapping[str, Any], free: Iterable[str] = ()) -> dict[str, Any]:
    """The settings that are not at their default."""
    defaults = {option.name: option.default for option in plain.options(settings)}
    return {k: v for k, v in values.items() if k not in (*free, "method", "recipe") and v != defaults[k]}


def _as_printed(job: Job) -> tuple[str, str] | None:
    """The method and the task as a table of the paper, which the run is one of, calls them."""
    if job.table not in TABLES:
        return None
    table = TABLES[job.table]
    lines = [line for line in table.lines if (line.method, line.variant) == (job.method, job.variant)]
    columns = [one.label for one in table.columns if (one.task, one.shots) == (job.task, job.shots)]
    return (lines[0].label if lines[0].variant else job.method, columns[0]) if lines and columns else None


def _with_sources(job: Job, run: Run) -> str:
    """The task with its domains, where it was asked for as "all others"."""
    return str(run.description["task"]) if "*" in job.name else job.name


def _steps_kept(folder: Path) -> int:
    """How far the last checkpoint of a run is, from its name alone."""
    steps = [path.name.removeprefix("step-") for path in (folder / CHECKPOINTS).glob("step-*")]
    return max((int(step) for step in steps if step.isdecimal()), default=0)


def _begun(folder: Path, scenario: Scenario, reporter: Reporter) -> Run | None:
    """The run that is there, unless it was begun with files of other times.

    The identity says that the pictures are the same, but a run under way has not been told so and refuses to go on.
    """
    if not (folder / SETTINGS).exists():
        files.remove(folder)  # what a kill left of one that was being removed
        return None
    run = Run(folder)
    if run.description["fingerprint"] == scenario.fingerprint() or run.result is not None:
        return run
    reporter.note("its pictures' files are newer than what it had begun with: it starts again")
    files.remove(folder)
    return None


def _kept_settings(begun: Run | None) -> dict[str, Any]:
    """Of the settings that decide no numbers, those that a run keeps until it is done."""
    if begun is None:
        return {}
    names = ("log_every", "checkpoint_every", "precision")
    return {name: getattr(begun.settings.fit, name) for name in names}


def _wait_for(folder: Path) -> None:
    """Wait while another process holds a run's folder, but not for ever."""
    until = time.monotonic() + PATIENCE
    while folder.is_dir() and time.monotonic() < until:
        try:
            with locked(folder / "lock", "busy"):
                return
        except UserError:
            time.sleep(0.1)


def _slug(job: Job) -> str:
    words = "-".join([job.whole, *([job.variant] if job.variant else []), job.name.replace("->", "-"), str(job.seed)])
    shots = f"-{job.shots}shot" if job.shots else ""
    return re.sub(r"[^\w.,+=-]+", "-", words + shots).strip("-")


@cache
def _digest(weights: str) -> str:
    path = Path(weights)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else weights


@cache
def _commit() -> str:
    """The commit of the package's own checkout, or `$HDA_COMMIT` where it is installed without one.

    "-dirty" follows where the package's files are not those of the commit.
    """
    if "HDA_COMMIT" in os.environ:
        return os.environ["HDA_COMMIT"]
    folder = Path(hda.__file__).resolve().parent
    try:
        told = subprocess.run(
            ["git", "-C", str(folder), "ls-files", "--error-unmatch", "__init__.py"], capture_output=True, check=False
        )
        if told.returncode:
            return ""
        head = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            ["git", "-C", str(folder), "status", "--porcelain", "."], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("-dirty" if changed.stdout.strip() else "")


def _peak_memory() -> int | None:
    """Bytes: of the GPU where there is one, else of the process."""
    if torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated())
    try:
        import resource
    except ImportError:  # pragma: no cover - not on Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Within: no other process is; waited for."""
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(locked(path, "busy"))
                break
            except UserError:
                time.sleep(0.02)
        yield
