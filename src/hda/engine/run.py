"""A run's folder, and what can be done with it: read its curves, predict, evaluate."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

import hda
from hda import backbones
from hda.data import augment, pixels
from hda.data.images import Images, Location, read_labelled, read_unlabelled
from hda.engine import checkpoint, files, metrics, selecting
from hda.engine.device import choose_device, choose_precision, set_arithmetic
from hda.engine.evaluate import Evaluation, probabilities, rows_of, score
from hda.engine.settings import Settings
from hda.errors import UserError, unknown
from hda.methods.base import Method

SETTINGS = "settings.json"
METRICS = "metrics.jsonl"
RESULT = "result.json"
PREDICTIONS = "predictions.csv"
TEST_PREDICTIONS = "test-predictions.csv"
MODEL = "model.safetensors"
CHECKPOINTS = "checkpoints"


class Prediction(NamedTuple):
    """What a model says of one picture."""

    path: str
    label: str
    confidence: float  # 0 to 1


@dataclass(frozen=True, eq=False)
class Predictions(Sequence[Prediction]):
    """Predictions in the order of the pictures' names."""

    paths: tuple[str, ...]
    probabilities: NDArray[np.float32]  # (pictures, classes)
    classes: tuple[str, ...]
    broken: tuple[str, ...] = ()  # "path (reason)" of each picture that was left out

    @property
    def labels(self) -> NDArray[np.int64]:
        """(pictures,) numbers into `classes`."""
        labels: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return labels

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> Prediction: ...

    @overload
    def __getitem__(self, index: slice) -> Predictions: ...

    def __getitem__(self, index: int | slice) -> Prediction | Predictions:
        if isinstance(index, slice):
            return Predictions(self.paths[index], self.probabilities[index], self.classes)
        row = self.probabilities[index]
        return Prediction(self.paths[index], self.classes[int(row.argmax())], float(row.max()))

    def __iter__(self) -> Iterator[Prediction]:
        return (self[index] for index in range(len(self)))

    def as_csv(self) -> str:
        """Lines of path, predicted class, confidence, under a header."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("path", "class", "confidence"))
        writer.writerows((path, label, f"{confidence:.6f}") for path, label, confidence in self)
        return text.getvalue()

    def write(self, path: Location) -> None:
        files.write_text(Path(path), self.as_csv())


class Run:
    """A run, finished or not, read from its folder.

    >>> run = hda.Run("runs/drawings")  # doctest: +SKIP
    >>> for path, label, confidence in run.predict("new-drawings"):  # doctest: +SKIP
    ...     print(path, label, confidence)
    """

    def __init__(self, path: Location) -> None:
        self.path = Path(path)
        try:
            self.description: dict[str, Any] = json.loads((self.path / SETTINGS).read_text(encoding="utf-8"))
            self.classes = tuple(self.description["classes"])
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"{self.path} is not a run's folder: give one that `hda fit` has written") from None
        _check_description(self.description, self.path / SETTINGS)

    def __repr__(self) -> str:
        accuracy = (self.result or {}).get("target_accuracy")
        outcome = "unfinished" if self.result is None else "finished" if accuracy is None else f"{accuracy:.1f} %"
        return f"<run {self.path}: {self.settings.method_class.name} on {self.description['task']}, {outcome}>"

    @cached_property
    def settings(self) -> Settings:
        try:
            return Settings.from_dict(self.description["settings"])
        except UserError as error:  # not the user's of today: another version's
            wrong = str(error).partition(" (known")[0].partition(": ")[0]
            raise UserError(
                f"{self.path / SETTINGS} was written by hda {self.description['hda']} and is not for hda "
                f"{hda.__version__} ({wrong}): use that version, or train again"
            ) from error

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`."""
        return metrics.read(self.path / METRICS)

    @property
    def result(self) -> dict[str, Any] | None:
        """What the run came to; None until it is finished."""
        path = self.path / RESULT
        if not path.exists():
            return None
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            result["target_accuracy"], result["steps"]
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{path} is damaged: remove it, then `hda fit --resume` writes it anew") from None
        return result

    def curve(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Steps and values of one measured quantity."""
        points = [(record["step"], record[name]) for record in self.records if name in record]
        return np.array([s for s, _ in points], dtype=np.int64), np.array([v for _, v in points], dtype=np.float64)

    def method(self, checkpoint: str | Path = "last") -> Method:
        """The trained method on the CPU, ready to predict; of an unfinished run, as its last checkpoint has it.

        Args:
            checkpoint: "last", or "selected" for the state that `--select` has chosen, or a file of weights.
        """
        weights = self._weights(checkpoint)
        return build(self.settings, self.description["backbone"], self.classes, self.description["domains"], weights)

    def predict(
        self,
        pictures: Location | Images,
        *,
        root: Location | None = None,
        device: str | None = None,
        batch: int = 256,
        checkpoint: str = "last",
        skip_broken: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Predictions:
        """Predict the class of every picture.

        Args:
            pictures: a folder, a `.tar`, a list file or one image; or a set of images.
            root: where a list's paths start.
            device: auto, cpu, cuda or cuda:N; the run's own if not given.
            batch: pictures at once.
            checkpoint: "last", or "selected" for the state that `--select` has chosen.
            skip_broken: leave out pictures that cannot be read, instead of stopping at the first.
            progress: called with (done, of).

        Raises:
            UserError: there are no such pictures, or one cannot be read.
        """
        images = pictures if isinstance(pictures, Images) else read_unlabelled(pictures, root)
        fit = self.settings.fit
        on = choose_device(device or fit.device, fall_back=device is None)
        precision = choose_precision(fit.precision, on)
        set_arithmetic(precision)
        method = self.method(checkpoint).to(on)
        backbones.use_precision(method, precision)
        view = augment.evaluation(fit.augment, method.backbone.size, method.backbone.mean, method.backbone.std)
        edge = augment.store_size(fit.augment, method.backbone.size)
        kept: list[int] = []
        parts = []
        broken: list[str] = []
        for rows, array in pixels.stream(images, edge, chunk=batch, skip_broken=skip_broken, broken=broken):
            chunk = torch.from_numpy(array).to(on)
            parts.append(probabilities(method, rows_of(chunk), len(chunk), view, batch).cpu().numpy())
            kept.extend(int(row) for row in rows)
            if progress:
                progress(int(rows[-1]) + 1, len(images))
        if progress:
            progress(len(images), len(images))
        names = tuple(images.names[row] for row in kept)
        return Predictions(names, np.concatenate(parts), self.classes, tuple(broken))

    def evaluate(
        self,
        pictures: Location,
        *,
        root: Location | None = None,
        device: str | None = None,
        checkpoint: str = "last",
        skip_broken: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Evaluation:
        """Compare predictions with the names of the pictures' class folders (or a list's labels), matched by name.

        Pictures of classes that the model does not know are left out.

        Args:
            pictures: a folder or a `.tar` of class folders, or a list file of `path label` lines.
            root: where a list's paths start.
            device: auto, cpu, cuda or cuda:N; the run's own if not given.
            checkpoint: "last", or "selected" for the state that `--select` has chosen.
            skip_broken: leave out pictures that cannot be read, instead of stopping at the first.
            progress: called with (done, of).

        Raises:
            UserError: the pictures have no labels, none of a class that the model knows, or one cannot be read.
        """
        labelled = read_labelled(pictures, root, complete=False)
        number = {name: index for index, name in enumerate(self.classes)}
        table = np.array([number.get(name, -1) for name in labelled.classes], dtype=np.int64)
        labels = table[labelled.labels]
        if (labels < 0).all():
            raise UserError(
                f"no class of {pictures} ({_list(labelled.classes)}) is among the run's ({_list(self.classes)}): "
                "name its folders or labels as the run does"
            )
        known = labelled.select(np.flatnonzero(labels >= 0))
        predictions = self.predict(
            known.images, device=device, checkpoint=checkpoint, skip_broken=skip_broken, progress=progress
        )
        answer = dict(zip(known.images.names, labels[labels >= 0], strict=True))
        answers = np.array([answer[name] for name in predictions.paths], dtype=np.int64)
        strange = [name for name in labelled.classes if name not in number]
        left_out = [*predictions.broken]
        if strange:
            left_out.append(f"{int((labels < 0).sum()):,} images of classes that the run lacks ({_list(strange)})")
        return replace(score(predictions.labels, answers, len(self.classes)), left_out=tuple(left_out))

    def _weights(self, which: str | Path) -> dict[str, torch.Tensor]:
        path = which if isinstance(which, Path) else self._last() if which == "last" else self._selected(which)
        try:
            return load_file(path)
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path} is damaged ({error}): restore it or train again") from None

    def _last(self) -> Path:
        if (self.path / MODEL).exists():
            return self.path / MODEL
        last = checkpoint.latest(self.path / CHECKPOINTS)
        if last is None:
            raise UserError(f"{self.path} has no checkpoint yet: let `hda fit` go on with it (--resume)")
        return last / checkpoint.MODEL

    def _selected(self, which: str) -> Path:
        if which != "selected":
            raise unknown("checkpoint", which, ("last", "selected"))
        path = selecting.selected(self.path, self.records)
        if path is None:
            raise UserError(
                f"{self.path} has no selected checkpoint: it was begun without --select, or has not come to one yet; "
                "give --checkpoint last"
            )
        return path


_DESCRIBED = {
    "hda": str,
    "task": str,
    "setting": str,
    "settings": dict,
    "backbone": dict,
    "classes": list,
    "domains": int,
    "images": dict,
    "fingerprint": str,
    "origin": dict,
}


def _check_description(description: dict[str, Any], path: Path) -> None:
    """Insist that a run's description holds what `hda fit` writes there.

    Raises:
        UserError: something of it is missing, or is of another kind.
    """
    parts = {"settings": ("fit", "method", "recipe"), "backbone": ("name", "size", "mean", "std", "strides")}
    wrong = [name for name, kind in _DESCRIBED.items() if not isinstance(description.get(name), kind)]
    wrong += [part for name in parts if name not in wrong for part in parts[name] if part not in description[name]]
    if wrong:
        raise UserError(f"{path} is damaged (it does not say {wrong[0]!r}): restore it, or train again")


def _list(names: Sequence[str], most: int = 5) -> str:
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])


def build(
    settings: Settings,
    backbone: dict[str, Any],
    classes: Sequence[str],
    domains: int,
    weights: dict[str, torch.Tensor],
) -> Method:
    """A method with given weights.

    Raises:
        UserError: the weights do not fit, or are not finite.
    """
    cls = settings.method_class
    with torch.random.fork_rng(devices=[]):  # the values it is made with are overwritten: nobody's numbers pay for them
        method = cls(backbones.rebuild(backbone), len(classes), domains, cls.Settings(**settings.method))
    for name, tensor in weights.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise UserError(f"the weights {name!r} hold a value that is not finite: train again with a lower --lr")
    try:
        method.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise UserError(f"the weights do not fit the run's settings ({reason}): is the folder whole?") from None
    return method.eval()
