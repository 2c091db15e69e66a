"""From a scenario to a finished run: its folder is looked at, made, locked, and trained in."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import torch

import hda
from hda import backbones
from hda.data.images import Location
from hda.data.scenario import Answers, Scenario
from hda.engine import checkpoint, files
from hda.engine import run as folder
from hda.engine.device import choose_device, enough_memory
from hda.engine.distributed import joined
from hda.engine.lock import locked
from hda.engine.material import Material
from hda.engine.place import place
from hda.engine.reporter import Reporter
from hda.engine.run import Run
from hda.engine.settings import Settings
from hda.engine.step import build_method, random_numbers
from hda.engine.training import Training
from hda.engine.watch import watch
from hda.errors import NotFiniteError, UserError
from hda.methods.base import Method

REVISION = 1  # of the engine, of all in it that decides a run's numbers: raised when they change, and only then


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


def _new_method(settings: Settings, scenario: Scenario) -> Method:
    fit, cls = settings.fit, settings.method_class

    def make() -> backbones.Backbone:
        backbone = backbones.create(fit.backbone, weights=fit.weights, strides=fit.strides, size=fit.size)
        if fit.size is not None:
            _check_size(backbone, fit.size, usual=backbones.size_of(fit.backbone))
        return backbone

    return build_method(cls, make, len(scenario.classes), scenario.domains, cls.Settings(**settings.method), fit.seed)


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
