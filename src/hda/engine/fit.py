"""The loop: everything between a scenario and a finished run folder, stoppable and resumable at any moment."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import hda
from hda import backbones
from hda import settings as plain
from hda.batch import Layout
from hda.data import augment, pixels
from hda.data.images import Images, Location
from hda.data.samplers import Sampler
from hda.data.scenario import Answers, Scenario
from hda.data.strong import Strong
from hda.engine import checkpoint, files
from hda.engine import run as folder
from hda.engine.device import choose_device, choose_precision, enough_memory, set_arithmetic
from hda.engine.distributed import World, distribute, joined
from hda.engine.evaluate import Evaluation, evaluate, outputs, probabilities
from hda.engine.feeder import Bank, Feeder, fits
from hda.engine.lock import locked
from hda.engine.metrics import Metrics
from hda.engine.place import place
from hda.engine.reporter import Reporter
from hda.engine.run import Predictions, Run
from hda.engine.selecting import Selecting, rows_held_out
from hda.engine.settings import Settings
from hda.engine.step import Step, build_method, kept, prepare, random_numbers
from hda.engine.watch import watch
from hda.errors import NotFiniteError, UserError
from hda.methods.base import Method
from hda.selection import Labelled, Seen, Unlabelled
from hda.selection.oracle import oracle

log = logging.getLogger("hda")

REVISION = 1  # of everything here and below that decides a run's numbers: raised when they change, and only then


def fit(
    scenario: Scenario,
    *,
    out: Location | None = None,
    evaluate: Answers | None = None,
    resume: bool = False,
    skip_broken: bool = False,
    origin: dict[str, Any] | None = None,
    reporter: Reporter | None = None,
    **options: Any,
) -> Run:
    """Train a method on a scenario; the run's folder holds everything that came of it.

    The options most often given are `method` ("hdan"), `steps`, `batch` (pictures of each source in a step), `lr`, `seed`,
    `backbone` and `weights` (a timm or torchvision name; "pretrained", "none" or a file), `size` (edge of the pictures that
    the network sees, in pixels) and `device` ("auto", "cpu", "cuda"). Batch, steps and schedules that are not
    given are the paper's. `hda fit --help` lists all options with their defaults, `hda fit --method NAME --help` those of
    one method.

    >>> scenario = hda.Scenario.read(source="photos", target="labelled-drawings")  # doctest: +SKIP
    >>> answers = hda.Answers.read("labelled-drawings", scenario)  # doctest: +SKIP
    >>> run = hda.fit(scenario, evaluate=answers, method="mcd", steps=1000, size=128, seed=1)  # doctest: +SKIP
    >>> run.result["target_accuracy"]  # percent, at the last step  # doctest: +SKIP

    Args:
        scenario: whose pictures, and which labels, training may see (`Scenario.read`).
        out: the run's folder, which must not exist yet; `runs/<method>-<task>-<seed>` if not given.
        evaluate: the true labels of the target, or of its test part (`Answers.read`), for measuring alone: training never
            sees them.
        resume: go on with the run in `out` from its last checkpoint, exactly as if it had never stopped.
        skip_broken: leave out pictures that cannot be read, instead of stopping at the first.
        origin: plain data about where the scenario came from, kept with the settings.
        reporter: is told how the run gets on; without one nothing is printed.
        **options: every setting of the run (`FitSettings`), of its method and of its recipe, by name.

    Returns:
        The finished run.

    Raises:
        UserError: an option, a picture or a weights file is wrong; nothing half-written is left.
    """
    _check_kinds(scenario, evaluate)
    here = place()
    reporter = (reporter if here.first else None) or Reporter()
    settings = Settings.given(**options).resolve(scenario)
    if scenario.setting not in settings.method_class.supports:
        known = ", ".join(sorted(settings.method_class.supports))
        raise UserError(
            f"method {settings.fit.method!r} does not know the setting {scenario.setting}: it works for {known}"
        )
    if evaluate is not None:
        _check_answers(evaluate, scenario)
    path = Path(out) if out is not None else default_folder(settings, scenario)
    device = choose_device(settings.fit.device, place=here)
    if not here.alone:
        watch().remedy = f"`hda fit --resume --out {path}` goes on with it"
    room = enough_memory(device, "give a smaller --batch, --size or --backbone")
    with joined(device) as world, contextlib.ExitStack() as held, random_numbers(device, settings.fit.seed), room:
        begun, finished = world.from_first(lambda: _look(path, settings, scenario, resume, reporter))
        if finished:
            return Run(path)
        world.share(settings.layout(scenario))
        for note in (*scenario.notes, *(evaluate.notes if evaluate else ())):
            reporter.note(note)
        method = _new_method(settings, scenario)  # first: what is wrong with it is told before many pictures are read
        if begun:
            _check_weights(Run(path), method)
        material = Material.read(scenario, evaluate, settings, skip_broken, reporter)

        def take() -> bool:
            """Take hold of the run's folder; whether another process has finished it since we looked."""
            if not begun:
                _create(path, settings, scenario, material, method, origin)
            busy = f"{path} is being written by another process: wait for it or give another --out"
            held.enter_context(locked(path / "lock", busy))
            if _finished(path, reporter):
                return True
            files.remove_drafts(path)
            files.remove_drafts(path / folder.CHECKPOINTS)
            return False

        if not world.from_first(take):
            try:
                Training(path, settings, material, method, device, reporter, world).run()
            except Exception as error:
                if not begun and world.first and not isinstance(error, NotFiniteError):
                    _remove_if_bare(path)
                if "more than 1 value per channel" in str(error):  # PyTorch's batch norm, of a group of rows
                    raise UserError(
                        "a batch norm sees a single value of a domain: give a larger --batch, --target-batch or --size"
                    ) from None
                raise
    return Run(path)


def _look(path: Path, settings: Settings, scenario: Scenario, resume: bool, reporter: Reporter) -> tuple[bool, bool]:
    """Whether the run in that folder is begun, and whether it is finished.

    Raises:
        UserError: it is another run's, or in the way.
    """
    if resume and (path / folder.SETTINGS).exists():
        _check_same(Run(path), settings, scenario)
        return True, _finished(path, reporter)
    if path.exists():
        remedy = "give another --out" if resume else "give another --out, or --resume to go on with it"
        raise UserError(f"{path} exists: {remedy}")
    _check_place(path, scenario)
    if resume:
        reporter.note(f"{path} does not exist yet: the run starts at its beginning")
    return False, False


def default_folder(settings: Settings, scenario: Scenario) -> Path:
    """Where a run goes whose folder nobody named."""
    words = f"{settings.method_class.name}-{scenario.name}-{settings.fit.seed}"
    return Path("runs") / re.sub(r"[^\w.,+-]+", "-", words.replace("->", "-")).strip("-")


@dataclass(frozen=True)
class Material:
    """A scenario's pictures, decoded: what the loop is fed with."""

    scenario: Scenario
    answers: Answers | None
    bank: Bank  # all sources, the labelled target, the target
    edge: int
    held_out: np.ndarray  # rows of the bank that are pictures of a source held out of training
    test: Bank | None = None  # the target's test part, where there is one: never in the bank

    @classmethod
    def read(
        cls, scenario: Scenario, answers: Answers | None, settings: Settings, skip_broken: bool, reporter: Reporter
    ) -> Material:
        """Decode every picture at the edge that the run's augmentation starts from."""
        size = settings.fit.size or backbones.size_of(settings.fit.backbone)
        edge = augment.store_size(settings.fit.augment, size)

        def load(images: Images) -> pixels.Pixels:
            progress = reporter.reading(images.name, len(images))
            loaded = pixels.load(images, edge, skip_broken=skip_broken, progress=progress)
            for path in loaded.broken:
                reporter.note(f"left out: {path}")
            return loaded

        sources = [load(source.images) for source in scenario.sources]
        labelled = load(scenario.labelled.images) if scenario.labelled else None
        target = load(scenario.target)
        kept = scenario.keep([p.kept for p in sources], labelled.kept if labelled else None, target.kept)
        _check_classes(scenario, kept)
        arrays = [*(p.array for p in sources), *([labelled.array] if labelled else []), target.array]
        held = rows_held_out(kept, settings.fit.source_hold_out or 0.0, settings.fit.seed)
        if settings.fit.source_hold_out and not len(held):
            raise UserError("no picture of the source can be held out: every class has a single one, give more")
        test = load(answers.images) if answers and answers.images else None
        found = answers.select((test or target).kept) if answers else None
        return cls(kept, found, Bank(arrays), edge, held, Bank([test.array]) if test else None)

    @property
    def labels(self) -> np.ndarray:
        """The labels that may be seen: of all sources, then of the labelled target."""
        parts = [source.labels for source in self.scenario.sources]
        if self.scenario.labelled:
            parts.append(self.scenario.labelled.labels)
        return np.concatenate(parts)

    @property
    def counts(self) -> dict[str, int]:
        scenario = self.scenario
        counts = {
            "source": sum(len(source) for source in scenario.sources),
            "labelled": len(scenario.labelled) if scenario.labelled else 0,
            "target": len(scenario.target),
            **({"held_out": len(self.held_out)} if len(self.held_out) else {}),
        }
        return counts if self.test is None else counts | {"test": len(self.test)}

    @property
    def trained_on(self) -> np.ndarray:
        """Rows of the bank that training may draw, in order."""
        return np.setdiff1d(np.arange(len(self.bank)), self.held_out, assume_unique=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many pictures of each source training may draw."""
        starts = self.bank.starts[: len(self.scenario.sources) + 1]
        return tuple(int(size) for size in np.diff(np.searchsorted(self.trained_on, starts)))


class Training:
    """One run under way, in its locked folder."""

    def __init__(
        self,
        path: Path,
        settings: Settings,
        material: Material,
        method: Method,
        device: torch.device,
        reporter: Reporter,
        world: World = World(),  # noqa: B008 - frozen, and alone
    ) -> None:
        self.path, self.settings, self.material, self.reporter = path, settings, material, reporter
        self.fit, self.world = settings.fit, world
        scenario, layout = material.scenario, settings.layout(material.scenario)
        self.steps = self.fit.steps or 0
        self.precision = choose_precision(self.fit.precision, device)
        set_arithmetic(self.precision)
        backbone = method.backbone
        self.view = augment.evaluation(self.fit.augment, backbone.size, backbone.mean, backbone.std)
        self.device = device
        self.resident = material.bank.to(device) if fits(material.bank, device, self.fit.resident) else None
        self.sampler = Sampler(
            material.sizes,
            len(scenario.labelled) if scenario.labelled else 0,
            len(scenario.target) if layout.target else 0,
            layout,
            self.fit.seed,
            self.fit.mixing,
            rows=material.trained_on if len(material.held_out) else None,
        )
        self.selecting = Selecting(path, self.fit.select, self.fit.keep_checkpoints)
        self.shape = _shape(settings, scenario, method, layout, material.edge, device)
        self.share = world.share(layout)
        step = kept.take(self.shape)
        if step is not None:
            step.restart(method.state_dict())
        else:
            weak = augment.training(self.fit.augment, backbone.size, backbone.mean, backbone.std)
            vary, strong = (one if self.share is None else self.share.varying(one) for one in (weak, Strong(weak)))
            step = Step(
                method.to(device),
                settings.build_recipe(scenario.setting),
                vary,
                layout,
                self.steps,
                material.edge,
                device,
                strong=strong,
                share=self.share,
            )
        self.step = step
        backbones.use_precision(step.method, self.precision)
        self.done = 0  # updates
        self.summed = 0  # updates since the last line of metrics
        self.seconds = 0.0  # spent on this run by earlier processes
        self.resumed_from: int | None = None
        self.predictions: Predictions | None = None

    def run(self) -> None:
        """Train to the end from wherever the folder stands, and write the result."""
        last = checkpoint.latest(self.path / folder.CHECKPOINTS) if self.world.first else None
        resuming = (self.path / folder.METRICS).exists() and self.world.first
        self._restore(last)
        self.metrics = Metrics(self.path / folder.METRICS, self.done) if self.world.first else None
        if resuming:
            self.resumed_from = self.done
            self.selecting.restore(Run(self.path).records, self.done)
            self._record({"step": self.done, "event": "resumed"})
            self.reporter.note(f"resumed at step {self.done}")
        self.checkpoints = checkpoint.Writer(self.path / folder.CHECKPOINTS)
        self.started = self.lap = time.perf_counter()
        self.reporter.begin(self.done, self.steps)
        try:
            self._train()
            self._finish()
        finally:
            self.reporter.end()
            if self.metrics:
                self.metrics.close()
            self.checkpoints.close()

    def _train(self) -> None:
        if self.done == self.steps:
            return
        mode = prepare(self.step, graph=self.fit.graph and self.world.alone, compile=self._compiles())
        kept.keep(self.shape, self.step)
        log.info("steps run on %s in %s, %s", self.device, self.precision, mode)
        own = slice(None)
        if self.share is not None:
            distribute(self.step, self.fit.sync_batch_norm)
            own = self.share.own
            if self.device.type == "cuda" and self.fit.graph:
                log.info("%d processes take each step together, without a CUDA graph", self.world.place.size)
        feeder = Feeder(self.sampler, self.material.bank, self.material.labels, self.device, self.resident, own)
        try:
            while self.done < self.steps:
                feeder.feed(self.step)
                self.step.run()
                self.done += 1
                self.summed += 1
                self.reporter.advance(self.done)
                last = self.done == self.steps
                if last or self.done == 1 or self.done % self.fit.log_every == 0:
                    self._log()
                if (self.material.answers or self.selecting.active) and (
                    last or self.done % self.fit.evaluate_every == 0
                ):
                    self._evaluate()
                if last or self.done % self.fit.checkpoint_every == 0:
                    self._checkpoint(feeder.state)
        finally:
            feeder.close()

    def _compiles(self) -> bool:
        if self.fit.sync_batch_norm and not self.world.alone:
            return False  # a compiled network cannot exchange anything on its way
        return self.steps >= 1000 if self.fit.compile is None else self.fit.compile

    def _log(self) -> None:
        values = self.step.measured(self.summed)
        now = time.perf_counter()
        rate = self.summed * self.step.layout.rows / (now - self.lap)
        self.lap, self.summed, count = now, 0, self.summed
        bad = [name for name, value in values.items() if not math.isfinite(value)]
        if bad:
            raise NotFiniteError(
                f"{bad[0]} is no longer finite within the {count} steps to step {self.done}: give a lower --lr, "
                "or --precision fp32 if it is bf16"
            )
        timing = {"seconds": round(self._elapsed(), 3), "images_per_second": round(rate, 1)}
        self._record({"step": self.done, **values, **timing})

    def _evaluate(self) -> None:
        self.world.even_out(self.step.method)
        record: dict[str, Any] = {"step": self.done}
        predictions, seen = None, self._see() if self.selecting.validator else None
        if self.material.answers:
            answers = self.material.answers
            known = seen is not None and answers.images is None
            predictions = self._predictions(seen.target) if seen and known else self._predict(answers.images)
            found = evaluate(predictions.labels, answers)
            record |= {"target_accuracy": found.accuracy, "mean_class_accuracy": found.mean_class_accuracy}
        if self.selecting.active and self.world.first:
            record |= self.selecting.add(self.done, seen, self.step.method.state_dict, self._durable)
        if len(record) > 1:
            self._record(record)
        self.lap = time.perf_counter()
        self.predictions = predictions if self.done == self.steps else None

    def _see(self) -> Seen:
        """What the validator needs to see of the method as it is now."""
        assert self.selecting.validator is not None
        material, needs = self.material, self.selecting.validator.needs
        ends = [int(material.bank.starts[i]) for i in (len(material.scenario.sources), -2, -1)]

        def labelled(rows: np.ndarray) -> Labelled:
            return Labelled(*self._outputs(rows), material.labels[rows])

        trained = material.trained_on
        return Seen(
            Unlabelled(*self._outputs(np.arange(ends[1], ends[2]))),
            labelled(trained[trained < ends[0]]) if "source" in needs else None,
            labelled(material.held_out) if "held_out" in needs else None,
        )

    def _outputs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features and logits of those pictures of the bank."""
        bank = self.material.bank

        def look(own: slice) -> tuple[Tensor, Tensor]:
            mine = rows[own]

            def pictures(start: int, stop: int) -> Tensor:
                if self.resident is not None:
                    return self.resident[torch.from_numpy(mine[start:stop]).to(self.device)]
                found = np.empty((stop - start, bank.edge, bank.edge, 3), dtype=np.uint8)
                bank.gather(mine[start:stop], found)
                return torch.from_numpy(found).to(self.device)

            return outputs(self.step.method, pictures, len(mine), self.view, self._batch)

        features, logits = self.world.in_parts(len(rows), look)
        if not (np.isfinite(features).all() and np.isfinite(logits).all()):
            raise NotFiniteError(f"predictions are no longer finite after step {self.done}: give a lower --lr")
        return features, logits

    def _predictions(self, target: Unlabelled) -> Predictions:
        found = torch.from_numpy(target.logits).softmax(dim=1).numpy()
        return Predictions(self.material.scenario.target.names, found, self.material.scenario.classes)

    def _durable(self) -> int:
        """The step of the last checkpoint on the disk: what a kill now would go back to."""
        self.checkpoints.wait()
        last = checkpoint.latest(self.path / folder.CHECKPOINTS)
        return 0 if last is None else int(last.name.removeprefix("step-"))

    @property
    def _batch(self) -> int:
        """Pictures at once that are looked at and not trained on."""
        return 512 if self.device.type == "cuda" else 128

    def _predict(self, test: Images | None = None) -> Predictions:
        """Class probabilities of every picture of the target, or of its test part, as the method is now."""
        target = test or self.material.scenario.target
        bank = self.material.bank if test is None else self.material.test
        assert bank is not None
        first = len(bank) - len(target)

        def pictures(start: int, stop: int) -> Tensor:
            if self.resident is not None and test is None:
                return self.resident[first + start : first + stop]
            return torch.from_numpy(bank.part(first + start, first + stop)).to(self.device)

        def look(own: slice) -> tuple[Tensor]:
            def shifted(start: int, stop: int) -> Tensor:
                return pictures(own.start + start, own.start + stop)

            return (probabilities(self.step.method, shifted, own.stop - own.start, self.view, self._batch),)

        (found,) = self.world.in_parts(len(target), look)
        if not np.isfinite(found).all():
            raise NotFiniteError(f"predictions are no longer finite after step {self.done}: give a lower --lr")
        return Predictions(target.names, found, self.material.scenario.classes)

    def _checkpoint(self, sampler: dict[str, Any]) -> None:
        self.world.even_out(self.step.method)
        if not self.world.first:
            return
        self.checkpoints.save(checkpoint.capture(self.done, self.step, sampler, self.summed, self._elapsed()))

    def _restore(self, last: Path | None) -> None:
        """Go back to that checkpoint, on all processes, if the first has one."""
        saved = None
        if last is not None:
            saved = checkpoint.load(last)
            try:
                checkpoint.restore(saved, self.step)
                self._stand_at(saved.plain)
            except (ValueError, KeyError, TypeError, RuntimeError) as error:
                raise UserError(
                    f"the checkpoint {last} is not one of this run ({error}): begin anew with another --out"
                ) from error
            checkpoint.keep_only(last)
        rest = self.world.from_first(lambda: saved.rest() if saved else None)
        if rest is None:
            return
        self.world.spread(self.step.tensors().values())
        if not self.world.first:
            checkpoint.restore_rest(rest, self.step)
            self._stand_at(rest["plain"])

    def _stand_at(self, plain: dict[str, Any]) -> None:
        """Go on where a checkpoint's plain part says."""
        self.sampler.restore(plain["sampler"])
        self.done, self.summed, self.seconds = plain["step"], plain["summed"], plain["seconds"]

    def _finish(self) -> None:
        answers = self.material.answers
        predictions = self.predictions or self._predict(answers.images if answers else None)
        # With a test part the target's own pictures have been predicted nowhere yet.
        training = self._predict() if answers and answers.images else None
        if not self.world.first:
            return
        self.checkpoints.wait()
        last = checkpoint.latest(self.path / folder.CHECKPOINTS)
        assert last is not None
        files.copy(last / checkpoint.MODEL, self.path / folder.MODEL)
        selected = self.selecting.finish()
        if training:
            predictions.write(self.path / folder.TEST_PREDICTIONS)
        (training or predictions).write(self.path / folder.PREDICTIONS)
        found = evaluate(predictions.labels, answers) if answers else None
        seconds = self._elapsed()
        files.write_json(
            self.path / folder.RESULT,
            {
                "task": self.material.scenario.name,
                "setting": self.material.scenario.setting,
                "method": self.settings.method_class.name,
                "target_accuracy": found.accuracy if found else None,
                "mean_class_accuracy": found.mean_class_accuracy if found else None,
                "per_class": _per_class(found, self.material.scenario.classes) if found else None,
                **_chosen(selected, Run(self.path).curve("target_accuracy")),
                **_on_common(predictions, answers),
                "steps": self.steps,
                "resumed_from": self.resumed_from,
                "seconds": round(seconds, 3),
                "images": self.material.counts,
                "domains": self.material.scenario.domains,
                "notes": [*self.material.scenario.notes, *(answers.notes if answers else ())],
                "device": device_name(self.device),
                "processes": self.world.place.size,
                "precision": self.precision,
                "versions": {"hda": hda.__version__, "torch": torch.__version__},
            },
        )

    def _record(self, record: dict[str, Any]) -> None:
        if self.metrics:
            self.metrics.add(record)
        self.reporter.record(record)

    def _elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self.started


def _per_class(found: Evaluation, classes: Sequence[str]) -> dict[str, float]:
    """Accuracy of each class that has pictures, in percent."""
    return {name: float(share) for name, share in zip(classes, found.per_class, strict=True) if np.isfinite(share)}


def _chosen(selected: dict[str, Any] | None, curve: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """What the validator chose, and what the oracle would have: the result is the last iteration's all the same."""
    steps, accuracies = curve
    at = dict(zip(steps.tolist(), accuracies.tolist(), strict=True))
    found: dict[str, Any] = {"selected": selected and {**selected, "target_accuracy": at.get(selected["step"])}}
    if at:
        best = oracle(accuracies.tolist())
        found["oracle"] = {"step": int(steps[best]), "target_accuracy": float(accuracies[best])}
    return found


def device_name(device: torch.device) -> str:
    """What the device is, in its maker's words."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def _check_kinds(scenario: object, evaluate: object) -> None:
    """Insist on a scenario and answers where a path, a flag or all that `hda.task` gives may have been meant.

    Raises:
        UserError: one is something else.
    """
    if not isinstance(scenario, Scenario):
        remedy = "make one with hda.Scenario.read(source=..., target=...), or take the first of what hda.task gives"
        raise UserError(f"hda.fit takes a Scenario and not a {type(scenario).__name__}: {remedy}")
    if not isinstance(evaluate, Answers | None):
        remedy = "make them with hda.Answers.read(target, scenario)"
        raise UserError(f"evaluate takes Answers and not a {type(evaluate).__name__}: {remedy}")


def _check_answers(answers: Answers, scenario: Scenario) -> None:
    """Insist that answers belong to a scenario, and that no test picture is trained on.

    Raises:
        UserError: they do not, or one is.
    """
    pictures = answers.images or scenario.target
    if (len(answers), answers.classes) != (len(pictures), scenario.classes):
        raise UserError(
            f"the answers are not those of the {len(pictures):,} pictures of {pictures.name}: "
            "give the ones that Answers.read makes for this scenario"
        )
    if answers.images and answers.images.origin is not None:
        places = {answers.images.where(index) for index in range(len(answers))}
        for part in (*(source.images for source in scenario.sources), scenario.target):
            shared = next((place for place in map(part.where, range(len(part))) if place in places), None)
            if shared is not None:
                raise UserError(f"{shared} of {part.name} is a test picture too: give parts that share none")


def _on_common(predictions: Predictions, answers: Answers | None) -> dict[str, Any]:
    """The accuracy on those test pictures that other splits of the target test on, too."""
    if answers is None or answers.common is None:
        return {}
    rows = np.flatnonzero(answers.common & (answers.labels >= 0))
    if not len(rows):
        return {}
    found = evaluate(predictions.labels[rows], answers.select(rows))
    return {"common_accuracy": found.accuracy, "common_images": found.images}


def _new_method(settings: Settings, scenario: Scenario) -> Method:
    fit, cls = settings.fit, settings.method_class

    def make() -> backbones.Backbone:
        backbone = backbones.create(fit.backbone, weights=fit.weights, strides=fit.strides, size=fit.size)
        if fit.size is not None:
            _check_size(backbone, fit.size, usual=backbones.size_of(fit.backbone))
        return backbone

    return build_method(cls, make, len(scenario.classes), scenario.domains, cls.Settings(**settings.method), fit.seed)


def _check_classes(before: Scenario, after: Scenario) -> None:
    """Insist that no class is left without pictures where broken ones are left out.

    Raises:
        UserError: one is, in every source.
    """
    had, has = ({*np.concatenate([part.labels for part in s.sources]).tolist()} for s in (before, after))
    for label in sorted(had - has):
        raise UserError(f"no image of class {before.classes[label]!r} can be read: repair some or remove its folder")


def _check_place(path: Path, scenario: Scenario) -> None:
    """Look whether a run's folder can be made there, long before it is.

    Raises:
        UserError: the nearest thing above that exists is no folder, or is closed to us, or holds the run's own pictures.
    """
    few = [scenario.labelled.images] if scenario.labelled else []
    for images in (*(source.images for source in scenario.sources), *few, scenario.target):
        where = images.origin
        if where is not None and where.is_dir() and path.resolve().is_relative_to(where.resolve()):
            raise UserError(f"{path} would lie among the pictures of {images.name}, as one of them: give another --out")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        reason = "is closed to you" if above.is_dir() else "is no folder"
        raise UserError(f"{path} cannot be made, since {above} {reason}: give another --out")


def _check_size(backbone: backbones.Backbone, size: int, usual: int) -> None:
    """Let a picture of that size through.

    Raises:
        UserError: the backbone does not take it.
    """
    training = backbone.training
    try:
        with torch.inference_mode():
            backbone.eval()(torch.zeros(1, 3, size, size))
    except Exception:  # whatever the layer that it is too small for raises, or memory that it is too large for
        remedy = "give a larger one" if size <= usual else "give a smaller one"
        raise UserError(f"{backbone.name} cannot take pictures of --size {size}: {remedy}") from None
    backbone.train(training)


def _shape(
    settings: Settings, scenario: Scenario, method: Method, layout: Layout, edge: int, device: torch.device
) -> tuple[object, ...]:
    """What two runs must have in common to share a captured step: all that decides it but the weights."""
    free = {"seed", "weights", "mixing", "resident", "log_every", "evaluate_every", "checkpoint_every"}
    free |= {"select", "keep_checkpoints", "source_hold_out"}
    fit = {name: value for name, value in plain.as_dict(settings.fit).items() if name not in free}
    backbone = {name: value for name, value in method.backbone.describe().items() if name != "weights"}
    problem = (scenario.setting, len(scenario.classes), scenario.domains, layout, edge, str(device))
    return (repr((fit, settings.method, settings.recipe, backbone)), *problem)


def _create(
    path: Path,
    settings: Settings,
    scenario: Scenario,
    material: Material,
    method: Method,
    origin: dict[str, Any] | None,
) -> None:
    description = {
        "hda": hda.__version__,
        "task": scenario.name,
        "setting": scenario.setting,
        "settings": settings.as_dict(),
        "backbone": method.backbone.describe(),
        "classes": list(scenario.classes),
        "domains": scenario.domains,
        "images": material.counts,
        "fingerprint": scenario.fingerprint(),
        "origin": origin or {},
    }

    def fill(draft: Path) -> None:
        draft.mkdir()
        files.write_json(draft / folder.SETTINGS, description)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.remove_drafts(path.parent, of=path.name)
        files.write(path, fill)
    except OSError as error:
        if path.exists():  # made by another process since we looked
            raise UserError(f"{path} exists: give another --out, or --resume to go on with it") from None
        raise UserError(f"{path} cannot be made ({error.strerror}): give another --out") from None


def _remove_if_bare(path: Path) -> None:
    """Delete a run's folder if nothing has come of the run: its first step could not be made, and it would be in the way."""
    if not Run(path).records and checkpoint.latest(path / folder.CHECKPOINTS) is None:
        files.remove(path)


def _finished(path: Path, reporter: Reporter) -> bool:
    if Run(path).result is None:
        return False
    reporter.note(f"{path} is finished: nothing is left to do")
    return True


def _check_same(run: Run, settings: Settings, scenario: Scenario) -> None:
    """A run goes on with the settings and pictures that it began with.

    Raises:
        UserError: one of them differs.
    """
    before, now = run.settings.flat(), settings.flat()
    free = ("device", "graph", "compile", "resident")  # where and how fast, not what
    for name, value in now.items():
        if name == "weights" and not {value, before[name]} & {"pretrained", "none"}:
            continue  # a file may have moved: its content counts, see `_check_weights`
        if name not in free and before.get(name) != value:
            option = "--" + name.replace("_", "-")
            old, new = ("auto" if given is None else given for given in (before.get(name), value))
            raise UserError(
                f"{run.path} was begun with {option} {old} and cannot go on with {new}: "
                "leave the option as it was, or give another --out"
            )
    if run.description["classes"] != list(scenario.classes):
        raise UserError(f"the classes are not those that {run.path} was begun with: give another --out for a new run")
    if run.description["fingerprint"] != scenario.fingerprint():
        raise UserError(f"the pictures are not those that {run.path} was begun with: give another --out for a new run")


def _check_weights(run: Run, method: Method) -> None:
    """A run goes on with the backbone, and the weights to start from, that it began with.

    Raises:
        UserError: they differ.
    """
    if run.description["backbone"] != method.backbone.describe():
        raise UserError(f"the weights are not those that {run.path} was begun with: give another --out for a new run")
