"""Doing the runs of a grid: each once, stoppable anywhere, the tasks of one shape one after the other."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hda
from hda import settings as plain
from hda.bench import rows as result
from hda.bench.grid import Job
from hda.data.scenario import Answers, Scenario
from hda.data.tasks import read_task
from hda.engine.device import choose_device, choose_precision
from hda.engine.evaluate import evaluate
from hda.engine.fit import REVISION, fit
from hda.engine.lock import locked
from hda.engine.reporter import Reporter
from hda.engine.run import Run
from hda.engine.settings import FitSettings, Settings
from hda.errors import UserError

ROWS = "rows.jsonl"
# What decides where and how fast a run is computed, or how often it is looked at, and not what comes out.
FREE = ("device", "graph", "compile", "resident", "log_every", "checkpoint_every", "seed", "weights", "precision")


@dataclass(frozen=True)
class Planned:
    """A run of a grid, and how far it is."""

    job: Job
    identity: str
    folder: Path
    done: bool  # its row is there
    begun: bool  # its folder is


class Bench:
    """A grid's runs in one folder: `runs/` with a folder a run, and `rows.jsonl` with a row for each that is done.

    A run is identified by its settings, its data's fingerprint, and the revisions of method, recipe and engine, which are
    raised only when numbers change. What has a row is not done again; what was stopped goes on from its last checkpoint.

    Args:
        out: the folder; made if it is not there.
        data: the folder that the datasets lie in.
        hold_out: share of each target that adaptation never sees, to be measured on apart.
        command: how to do it again, kept in the rows.
    """

    def __init__(
        self, out: Path, data: Path, *, hold_out: float = 0.0, command: str = "", lists: Path | None = None
    ) -> None:
        plain.between(0, 0.9, hold_out=hold_out)
        self.out, self.data, self.hold_out, self.command, self.lists = out, data, hold_out, command, lists
        self.task = cache(self._task)

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
            identity = self.identity(job)
            folder = self.out / "runs" / f"{_slug(job)}-{identity[:10]}"
            begun = (folder / "settings.json").exists()
            planned.setdefault(identity, Planned(job, identity, folder, identity in done, begun))
        return list(planned.values())

    def identity(self, job: Job) -> str:
        """A digest of everything that decides a run's numbers."""
        scenario, _ = self.task(job.task, job.shots)
        settings = Settings.given(**job.options).resolve(scenario)
        fit_settings = {k: v for k, v in plain.as_dict(settings.fit).items() if k not in FREE}
        method, recipe = settings.method_class, settings.build_recipe(scenario.setting)
        decides = {
            "fit": fit_settings,
            "method": settings.method,
            "recipe": settings.recipe,
            "seed": job.seed,
            "weights": _digest(settings.fit.weights),
            "precision": choose_precision(settings.fit.precision, choose_device(settings.fit.device)),
            "data": scenario.fingerprint(),
            "hold_out": self.hold_out,
            "revisions": [REVISION, method.revision, recipe.revision],
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def do(self, planned: Planned, reporter: Reporter | None = None) -> dict[str, Any]:
        """Do one run, or the rest of it, and give its row; the row is not written."""
        job = planned.job
        scenario, answers = self.task(job.task, job.shots)
        seen, unseen = hold_out(scenario, answers, self.hold_out)
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        run = fit(
            seen[0],
            evaluate=seen[1],
            out=planned.folder,
            resume=(planned.folder / "settings.json").exists(),
            origin={"task": job.task, "shots": job.shots},
            reporter=reporter,
            **job.options,
        )
        row = row_of(run, job, identity=planned.identity, command=self.command)
        row["peak_memory"] = _peak_memory()
        row["hold_out"] = None if unseen is None else _measured_apart(run, self.hold_out, *unseen)
        return row

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a run's row, unless another process has."""
        self.out.mkdir(parents=True, exist_ok=True)
        with _alone(self.out / ".rows.lock"):
            if row["identity"] not in {known.get("identity") for known in self.rows}:
                result.add(self.out / ROWS, row)

    def run(
        self,
        planned: Sequence[Planned],
        reporter: Reporter | None = None,
        told: Callable[[Planned, str], None] | None = None,
    ) -> None:
        """Do all that is not done, in this process, one after the other.

        Args:
            planned: what `plan` gave.
            reporter: is told how each run gets on.
            told: is called with a run and "running", "done" or "skipped".
        """
        for one in planned:
            if one.done:
                if told:
                    told(one, "skipped")
                continue
            if told:
                told(one, "running")
            self.add(self.do(one, reporter))
            if told:
                told(one, "done")

    def _task(self, task: str, shots: int | None) -> tuple[Scenario, Answers]:
        options = {} if self.lists is None or shots is None else {"lists": self.lists}
        found = read_task(task, self.data, shots=shots, **options)  # type: ignore[arg-type]
        return found.scenario, found.answers


def hold_out(
    scenario: Scenario, answers: Answers, share: float
) -> tuple[tuple[Scenario, Answers], tuple[Scenario, Answers] | None]:
    """The task without a share of its target's pictures, and the task with these alone; None where the share is zero.

    The pictures are chosen by a digest of their names: the same for every method and seed, and no label takes part.

    Raises:
        UserError: accuracy is measured on other pictures than the target's already.
    """
    if not share:
        return (scenario, answers), None
    if getattr(answers, "images", None) is not None:
        raise UserError("this task is measured on a test part that adaptation never sees: leave --hold-out out")
    drawn = [
        int(hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8], 16) for name in scenario.target.names
    ]
    order = np.argsort(drawn, kind="stable")
    count = max(1, round(share * len(order)))
    apart, rest = np.sort(order[:count]), np.sort(order[count:])
    seen, unseen = ((scenario.keep(target=part), answers.select(part)) for part in (rest, apart))
    return seen, unseen


def row_of(run: Run, job: Job, *, identity: str = "", command: str = "") -> dict[str, Any]:
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
        "task": job.name,
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
        "seconds": round(found["seconds"], 1),
        "images_per_second": round(float(np.median(rates[1:] if len(rates) > 1 else rates))),
        "hda": hda.__version__,
        "commit": _commit(),
        "torch": found["versions"]["torch"],
        "versions": {**found["versions"], "python": sys.version.split()[0], "numpy": np.__version__},
        "fingerprint": run.description["fingerprint"],
        "identity": identity,
        "settings": dict(job.settings),
        "command": command,
        "table": job.table,
    }


def estimate(planned: Sequence[Planned], rows: Sequence[Mapping[str, Any]], device: str) -> float | None:
    """Seconds that what is left may take, from the rows of runs alike on this device; None where there are none.

    A run begun already counts whole: how far it is, its folder knows.
    """
    total = 0.0
    for one in planned:
        if one.done:
            continue
        options = one.job.options
        alike = [
            row["seconds"]
            for row in rows
            if row.get("device") == device
            and row.get("backbone") == options.get("backbone", FitSettings().backbone)
            and ("steps" not in options or row.get("steps") == int(options["steps"]))
        ]
        same = [row["seconds"] for row in rows if row.get("device") == device and row["method"] == one.job.method]
        known = [seconds for seconds in same if seconds in alike] or alike
        if not known:
            return None
        total += float(np.median(known))
    return total


def _measured_apart(run: Run, share: float, scenario: Scenario, answers: Answers) -> dict[str, Any]:
    found = evaluate(run.predict(scenario.target).labels, answers)
    return {"share": share, "images": found.images, "accuracy": round(found.accuracy, 3)}


def _slug(job: Job) -> str:
    words = "-".join([job.method, *([job.variant] if job.variant else []), job.name.replace("->", "-"), str(job.seed)])
    shots = f"-{job.shots}shot" if job.shots else ""
    return re.sub(r"[^\w.,+=-]+", "-", words + shots).strip("-")


@cache
def _digest(weights: str) -> str:
    path = Path(weights)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else weights


@cache
def _commit() -> str:
    """The commit of the package's own checkout; empty where it is installed without one."""
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
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip()


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


class _alone:  # noqa: N801 - reads as a statement
    """Within: no other process is, waited for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        while True:
            self.lock = locked(self.path, "busy")
            try:
                self.lock.__enter__()
            except UserError:
                time.sleep(0.02)
            else:
                return

    def __exit__(self, *error: Any) -> None:
        self.lock.__exit__(*error)
