"""The demo: from typed digits to handwritten ones, without a download, in about a minute on two cores.

The settings are the paper's, its schedules stretched to a run of 600 steps. Only the learning rate is another, for a network
that starts from random values: of 0.01, 0.03 and 0.1 the one with which both methods read typed digits best that they were
not trained on (99.9 and 99.8 %). No target label was used to choose it.
"""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import hda
from hda.analysis.curves import mean_deviation
from hda.analysis.embedding import tsne
from hda.data import augment
from hda.data.digits import digits
from hda.data.images import Images, Location
from hda.engine import files
from hda.engine.evaluate import predicting
from hda.engine.fit import fit
from hda.engine.reporter import Reporter
from hda.engine.run import Run
from hda.errors import UserError
from hda.report.demo import HDAN, PLAIN, demo_page

STEPS = 600
STRETCH = 6002 / STEPS  # the paper's schedules are made for its 6,002 iterations
SETTINGS: dict[str, Any] = {
    "backbone": "small",
    "weights": "none",
    "augment": "affine",
    "steps": STEPS,
    "batch": 64,
    "lr": 0.03,
    "decay": 0.001 * STRETCH,
    "log_every": 10,
    "evaluate_every": 100,
    "checkpoint_every": STEPS,
}
METHODS: dict[str, dict[str, Any]] = {
    PLAIN: {"method": "source-only"},
    HDAN: {"method": "hdan", "reversal_horizon": 10_000.0 / STRETCH, "discriminator_width": 256},
}
SEEDS = (0, 1, 2)
SHOWN = 64  # pictures of each domain in the report
MARK = "demo.json"  # what tells a demo's folder from others: only such a one is replaced


@dataclass(frozen=True)
class Outcome:
    """What the demo came to: target accuracy at the last step in percent, one a seed."""

    source_only: tuple[float, ...]
    hdan: tuple[float, ...]
    seconds: float
    report: Path

    def as_dict(self) -> dict[str, Any]:
        parts = {"source_only": mean_deviation(self.source_only), "hdan": mean_deviation(self.hdan)}
        found: dict[str, Any] = {name: {"mean": mean, "std": std} for name, (mean, std) in parts.items()}
        return found | {"seconds": self.seconds, "report": str(self.report)}


def demo(
    out: Location = "runs/demo", *, seeds: Sequence[int] = SEEDS, reporter: Reporter | None = None, **settings: Any
) -> Outcome:
    """Train source-only and HDAN on typed digits, measure both on handwritten ones, and draw `report.html`.

    Args:
        out: the demo's folder. An earlier demo there is replaced; any other folder is refused.
        seeds: each method is trained once with each.
        reporter: is told how the runs get on.
        **settings: other settings than the demo's own, as `hda.fit` takes them.

    Raises:
        UserError: `out` exists and is not a demo's.
    """
    reporter, out, started = reporter or Reporter(), Path(out), time.perf_counter()
    _make_room(out)
    scenario, answers = digits()
    for note in scenario.notes:
        reporter.note(note)
    scenario = dataclasses.replace(scenario, notes=())
    common = SETTINGS | settings
    runs: dict[str, list[Run]] = {name: [] for name in METHODS}
    turns = [(seed, name, of_method) for seed in seeds for name, of_method in METHODS.items()]
    for number, (seed, name, of_method) in enumerate(turns, 1):
        reporter.note(f"{name}, seed {seed} ({number} of {len(turns)}):")
        options = common | of_method | {"seed": seed, "out": out / f"{of_method['method']}-{seed}"}
        runs[name].append(fit(scenario, evaluate=answers, reporter=reporter, **options))
    reporter.note("drawing the report")
    pictures = {"source": scenario.sources[0].images, "target": scenario.target}
    planes, labels = _planes({name: found[0] for name, found in runs.items()}, pictures, scenario, answers)
    accuracies = {name: tuple(_accuracy(run) for run in found) for name, found in runs.items()}
    seconds = round(time.perf_counter() - started, 1)
    page = demo_page(
        source_only=runs[PLAIN],
        hdan=runs[HDAN],
        source_pictures=_array(pictures["source"].select(range(SHOWN))),
        target_pictures=_array(pictures["target"].select(range(SHOWN))),
        planes=planes,
        plane_labels=labels,
        seconds=seconds,
        settings=common,
        facts={
            "hda": hda.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "device": (runs[HDAN][0].result or {})["device"],
            "threads": str(torch.get_num_threads()),
        },
    )
    report = out / "report.html"
    files.write_text(report, page)
    outcome = Outcome(accuracies[PLAIN], accuracies[HDAN], seconds, report)
    files.write_json(out / MARK, outcome.as_dict())
    return outcome


def _make_room(out: Path) -> None:
    """An empty folder with the demo's mark, in the place of an earlier demo."""
    if out.exists() and not (out / MARK).is_file():
        raise UserError(f"{out} exists and is not an earlier demo: give another --out or remove it first")
    try:
        if out.exists():
            files.remove(out)
        out.mkdir(parents=True)
        files.write_json(out / MARK, {})
    except OSError as error:
        raise UserError(f"{out} cannot be made ({error.strerror}): give another --out") from None


def _planes(
    runs: dict[str, Run], pictures: dict[str, Images], scenario: hda.Scenario, answers: hda.Answers
) -> tuple[dict[str, Any], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Features of both domains in the plane, by method, and the classes to colour them by."""
    planes = {
        name: tsne(*(_features(run, images) for images in pictures.values()), limit=400) for name, run in runs.items()
    }
    return planes, (scenario.sources[0].labels, answers.labels)


def _features(run: Run, images: Images) -> NDArray[np.float32]:
    method, fit = run.method(), run.settings.fit
    view = augment.evaluation(fit.augment, method.backbone.size, method.backbone.mean, method.backbone.std)
    with predicting(method):
        features: NDArray[np.float32] = method.features(view(torch.from_numpy(_array(images)))).numpy()
    return features


def _array(images: Images) -> NDArray[np.uint8]:
    arrays = [images.array(index) for index in range(len(images))]
    return np.stack([array for array in arrays if array is not None])


def _accuracy(run: Run) -> float:
    return float((run.result or {})["target_accuracy"])
