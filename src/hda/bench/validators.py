"""How good validators are: do they rank checkpoints as true accuracy does, and what does choosing by them cost?

Looks at every checkpoint that runs have kept (`--keep-checkpoints`), where it lies. True accuracy is what the run measured
at the time (`--evaluate`); it is compared with, and shown to no validator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import hda
from hda import backbones
from hda.data import augment
from hda.data.images import Location
from hda.data.scenario import Scenario
from hda.data.tasks import read_origin
from hda.engine.device import choose_device, choose_precision, set_arithmetic
from hda.engine.evaluate import outputs
from hda.engine.lock import locked
from hda.engine.material import Material
from hda.engine.metrics import Metrics, read
from hda.engine.reporter import Reporter
from hda.engine.run import SETTINGS, Run
from hda.engine.selecting import states
from hda.errors import UserError
from hda.registry import registered
from hda.selection import Labelled, Seen, Unlabelled, Validator, best, ranks
from hda.selection.oracle import oracle

SCORES = "validators.jsonl"  # in a run's folder: what was measured of its checkpoints, a line each
FEWEST = 3  # checkpoints between which a rank correlation is worth saying


@dataclass(frozen=True)
class Checkpoint:
    """One state of one run: its true accuracy, and what validators measured of it."""

    run: str
    task: str
    step: int
    target_accuracy: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Row:
    """How one validator did. Correlations are Spearman's, losses are points of accuracy; None where there is too little."""

    validator: str
    checkpoints: int
    runs: int
    correlation: float | None  # among all checkpoints of a task, mean over tasks
    within_runs: float | None  # among the checkpoints of a run, mean over runs
    lost: float | None  # accuracy of the oracle's checkpoint less that of the one chosen, of a task; mean over tasks
    lost_within_runs: float | None  # likewise of a run

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def find(paths: Iterable[Location]) -> list[Path]:
    """The folders of runs: those named, and all below folders named.

    Raises:
        UserError: a path holds none.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        below = sorted(mark.parent for mark in path.rglob(SETTINGS)) if path.is_dir() else []
        if not below:
            raise UserError(f"{path} holds no run: give the folder of one that `hda fit` has written, or one above")
        found |= dict.fromkeys(below)
    return list(found)


def measure(
    path: Path,
    *,
    scenario: Scenario | None = None,
    device: str | None = None,
    reporter: Reporter | None = None,
) -> list[Checkpoint]:
    """Every kept checkpoint of a run, measured by every validator that the run has the pictures for.

    What is measured is noted in the run's folder as it comes, so that nothing is measured twice.

    Args:
        path: the run's folder.
        scenario: its pictures, if they are not where the run says.
        device: auto, cpu, cuda or cuda:N; the run's own if not given.
        reporter: is told how it gets on.

    Raises:
        UserError: the run's pictures are not those that it was trained on.
    """
    run, reporter = Run(path), reporter or Reporter()
    steps, accuracies = run.curve("target_accuracy")
    truth = dict(zip(steps.tolist(), accuracies.tolist(), strict=True))
    kept = {step: state for step, state in states(path).items() if step in truth}
    if not kept:
        return []
    wanted = {cls.name for cls in _measurable(run)}
    found = []
    with locked(path / "lock", f"{path} is being written by another process: wait for it"):
        known = {(record["model"], record["hda"]): record["scores"] for record in read(path / SCORES)}
        digests = {step: _digest(state) for step, state in kept.items()}
        sight = None
        notes = Metrics(path / SCORES, max(kept))
        try:
            for step, state in kept.items():
                scores = known.get((digests[step], hda.__version__), {})
                if not wanted <= scores.keys():
                    sight = sight or Sight(run, scenario, device, reporter)
                    scores = sight.scores(state)
                    notes.add({"step": step, "model": digests[step], "hda": hda.__version__, "scores": scores})
                    reporter.note(f"{path}: step {step} measured by {len(scores)} validators")
                found.append(Checkpoint(str(path), run.description["task"], step, truth[step], scores))
        finally:
            notes.close()
    return found


class Sight:
    """A run's pictures, to show its checkpoints to validators."""

    def __init__(self, run: Run, scenario: Scenario | None, device: str | None, reporter: Reporter) -> None:
        self.run = run
        scenario = scenario or _scenario(run)
        if scenario.fingerprint() != run.description["fingerprint"]:
            raise UserError(f"the pictures are not those that {run.path} was trained on: put them back as they were")
        origin = run.description["origin"]
        settings = run.settings.resolve(scenario)
        self.material = Material.read(scenario, None, settings, bool(origin.get("skip_broken")), reporter)
        self.device = choose_device(device or settings.fit.device, fall_back=device is None)
        self.precision = choose_precision(settings.fit.precision, self.device)
        set_arithmetic(self.precision)
        self.batch = 512 if self.device.type == "cuda" else 128

    def scores(self, state: Path) -> dict[str, float]:
        """What each validator says of the weights in a file, by the names of its measures."""
        seen = self.see(state)
        return {cls.name: cls().score(seen) for cls in _measurable(self.run)}

    def see(self, state: Path) -> Seen:
        """All that any validator needs to see of the weights in a file."""
        material, fit = self.material, self.run.settings.fit
        method = self.run.method(state).to(self.device)
        backbones.use_precision(method, self.precision)
        backbone = method.backbone
        view = augment.evaluation(fit.augment, backbone.size, backbone.mean, backbone.std)

        def look(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            def pictures(start: int, stop: int) -> Tensor:
                found = np.empty((stop - start, material.edge, material.edge, 3), dtype=np.uint8)
                material.bank.gather(rows[start:stop], found)
                return torch.from_numpy(found).to(self.device)

            features, logits = outputs(method, pictures, len(rows), view, self.batch)
            return features.cpu().numpy(), logits.cpu().numpy()

        starts = material.bank.starts
        target, sources = np.arange(starts[-2], starts[-1]), int(starts[len(material.scenario.sources)])
        trained = material.trained_on[material.trained_on < sources]
        held = material.held_out
        return Seen(
            Unlabelled(*look(target)),
            Labelled(*look(trained), material.labels[trained]),
            Labelled(*look(held), material.labels[held]) if len(held) else None,
        )


def compare(checkpoints: Sequence[Checkpoint]) -> list[Row]:
    """How each validator did over the checkpoints that it could measure, from the least lost to the most.

    Checkpoints are compared within a task only. Beside the validators stands "last iteration": choosing nothing.
    """
    rows = [row for cls in _validators() if (row := _row(cls(), checkpoints)) is not None]
    rows.sort(key=lambda row: (row.lost is None, row.lost))
    return [*rows, *_last(checkpoints)]


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rank correlation; None for fewer than three values or where one of the two is constant."""
    if len(first) < FEWEST:
        return None
    a, b = (ranks(values) - (len(values) + 1) / 2 for values in (first, second))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else None


def _row(judge: Validator, checkpoints: Sequence[Checkpoint]) -> Row | None:
    names = _measures(judge)
    mine = [checkpoint for checkpoint in checkpoints if all(name in checkpoint.scores for name in names)]
    if not mine:
        return None

    def correlation(group: list[Checkpoint]) -> float | None:
        return spearman(judge.values([c.scores for c in group]), np.array([c.target_accuracy for c in group]))

    def lost(group: list[Checkpoint]) -> float:
        return _lost(group, best(judge, [c.scores for c in group]))

    tasks, runs = list(_groups(mine, lambda c: c.task)), list(_groups(mine, lambda c: c.run))
    return Row(
        judge.name,
        len(mine),
        len(runs),
        _mean(map(correlation, tasks)),
        _mean(map(correlation, runs)),
        _mean(map(lost, tasks)),
        _mean(map(lost, runs)),
    )


def _last(checkpoints: Sequence[Checkpoint]) -> Iterator[Row]:
    """What is lost by taking the last iteration of a run: nothing is chosen among runs."""
    runs = list(_groups(checkpoints, lambda c: c.run))
    if runs:
        lost = _mean(_lost(group, int(np.argmax([checkpoint.step for checkpoint in group]))) for group in runs)
        yield Row("last iteration", len(checkpoints), len(runs), None, None, None, lost)


def _lost(group: Sequence[Checkpoint], chosen: int) -> float:
    accuracies = [checkpoint.target_accuracy for checkpoint in group]
    return accuracies[oracle(accuracies)] - accuracies[chosen]


def _groups(checkpoints: Sequence[Checkpoint], key: Callable[[Checkpoint], str]) -> Iterator[list[Checkpoint]]:
    for name in dict.fromkeys(map(key, checkpoints)):
        yield [checkpoint for checkpoint in checkpoints if key(checkpoint) == name]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _validators() -> list[type[Validator]]:
    return list(registered("selection").values())


def _measurable(run: Run) -> list[type[Validator]]:
    """Those that say something of a checkpoint alone, from pictures that the run has: held-out ones not every run."""
    held = bool(run.settings.fit.source_hold_out)
    return [cls for cls in _validators() if not cls.relative and (held or "held_out" not in cls.needs)]


def _measures(judge: Validator) -> list[str]:
    return [member.name for member in getattr(judge, "members", (judge,))]


def _scenario(run: Run) -> Scenario:
    origin = run.description["origin"]
    if not (origin.get("source") or origin.get("task")):
        raise UserError(f"{run.path} was trained on pictures in memory: give them to hda.bench.validators.measure")
    # No answers are asked for, so nothing about them is: validators see none.
    return read_origin({**origin, "evaluate": False, "strict": False}, run.settings.fit.seed)[0]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
