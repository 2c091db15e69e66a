"""The loop: a run's steps, their metrics and checkpoints, stoppable and resumable at any moment."""

from __future__ import annotations

import logging
import math
import time
from pathlib import Path
from typing import Any

import torch

import hda
from hda import backbones
from hda import settings as plain
from hda.batch import Layout
from hda.data import augment
from hda.data.samplers import Sampler
from hda.data.scenario import Scenario
from hda.data.strong import Strong
from hda.engine import checkpoint, files
from hda.engine import run as folder
from hda.engine.device import choose_precision, device_name, set_arithmetic
from hda.engine.distributed import World, distribute
from hda.engine.evaluate import evaluate
from hda.engine.feeder import Feeder, fits
from hda.engine.material import Material
from hda.engine.metrics import Metrics
from hda.engine.predictor import Predictor
from hda.engine.reporter import Reporter
from hda.engine.result import accuracies, chosen
from hda.engine.run import Predictions, Run
from hda.engine.selecting import Selecting
from hda.engine.settings import Settings
from hda.engine.step import Step, kept, prepare
from hda.errors import NotFiniteError, UserError
from hda.methods.base import Method

log = logging.getLogger("hda")


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
        view = augment.evaluation(self.fit.augment, backbone.size, backbone.mean, backbone.std)
        self.predictor = Predictor(step, material, self.resident, view, world)
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
        validator = self.selecting.validator
        predictions, seen = None, self.predictor.seen(validator.needs) if validator else None
        if self.material.answers:
            answers = self.material.answers
            known = seen is not None and answers.images is None
            predict = self.predictor.predictions
            predictions = self.predictor.predictions_of(seen.target) if seen and known else predict(answers.images)
            found = evaluate(predictions.labels, answers)
            record |= {"target_accuracy": found.accuracy, "mean_class_accuracy": found.mean_class_accuracy}
        if self.selecting.active and self.world.first:
            record |= self.selecting.add(self.done, seen, self.step.method.state_dict, self._durable)
        if len(record) > 1:
            self._record(record)
        self.lap = time.perf_counter()
        self.predictions = predictions if self.done == self.steps else None

    def _durable(self) -> int:
        """The step of the last checkpoint on the disk: what a kill now would go back to."""
        self.checkpoints.wait()
        last = checkpoint.latest(self.path / folder.CHECKPOINTS)
        return 0 if last is None else int(last.name.removeprefix("step-"))

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
        predictions = self.predictions or self.predictor.predictions(answers.images if answers else None)
        # With a test part the target's own pictures have been predicted nowhere yet.
        training = self.predictor.predictions() if answers and answers.images else None
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
        scenario = self.material.scenario
        files.write_json(
            self.path / folder.RESULT,
            {
                "task": scenario.name,
                "setting": scenario.setting,
                "method": self.settings.method_class.name,
                **accuracies(predictions, answers),
                **chosen(selected, Run(self.path).curve("target_accuracy")),
                "steps": self.steps,
                "resumed_from": self.resumed_from,
                "seconds": round(self._elapsed(), 3),
                "images": self.material.counts,
                "domains": scenario.domains,
                "notes": [*scenario.notes, *(answers.notes if answers else ())],
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
