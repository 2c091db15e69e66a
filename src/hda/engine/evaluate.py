"""Predictions of a method, and their comparison with the answers: the only place that sees target labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hda.data.scenario import Answers
from hda.methods.base import Method

Batches = Callable[[int, int], Tensor]  # (start, stop) -> uint8 pictures on the device


@dataclass(frozen=True)
class Evaluation:
    """How well predictions agree with the answers, in percent."""

    accuracy: float
    mean_class_accuracy: float
    images: int
    confusion: np.ndarray  # (classes, classes): row is the answer, column the prediction
    left_out: tuple[str, ...] = ()  # what was not scored, and why, in a few words each

    @property
    def per_class(self) -> np.ndarray:
        """Accuracy of each class in percent; NaN for a class without an image."""
        with np.errstate(invalid="ignore"):
            share: np.ndarray = 100.0 * np.diag(self.confusion) / self.confusion.sum(axis=1)
        return share


@contextmanager
def predicting(method: Method) -> Iterator[None]:
    """The method as it predicts: evaluation mode, no gradients, never the compiled training graph."""
    training = method.training
    method.eval()
    try:
        with torch.inference_mode(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        method.train(training)


def rows_of(pictures: Tensor) -> Batches:
    """Pictures on the device, as `probabilities` asks for them."""
    return lambda start, stop: pictures[start:stop]


def probabilities(method: Method, batches: Batches, count: int, view: Callable[[Tensor], Tensor], batch: int) -> Tensor:
    """Class probabilities of `count` pictures: (count, classes), on the method's device."""
    with predicting(method):
        parts = []
        for start in range(0, count, batch):
            pictures = batches(start, min(count, start + batch))
            parts.append(method(view(pictures)).float().softmax(dim=1))
        return torch.cat(parts)


def outputs(
    method: Method, batches: Batches, count: int, view: Callable[[Tensor], Tensor], batch: int
) -> tuple[Tensor, Tensor]:
    """Features and class logits of `count` pictures, (count, width) and (count, classes), on the method's device."""
    with predicting(method):
        features, logits = [], []
        for start in range(0, count, batch):
            features.append(method.features(view(batches(start, min(count, start + batch)))))
            logits.append(method.classify(features[-1]).float())
        return torch.cat(features).float(), torch.cat(logits)


def evaluate(predicted: np.ndarray, answers: Answers) -> Evaluation:
    """Compare predicted class numbers with the answers; an answer of -1 is left out."""
    return score(predicted, answers.labels, len(answers.classes))


def score(predicted: np.ndarray, labels: np.ndarray, classes: int) -> Evaluation:
    scored = labels >= 0
    confusion = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(confusion, (labels[scored], predicted[scored]), 1)
    present = confusion.sum(axis=1) > 0
    right = np.diag(confusion)
    return Evaluation(
        accuracy=100.0 * float(right.sum()) / int(confusion.sum()),
        mean_class_accuracy=100.0 * float(np.mean(right[present] / confusion.sum(axis=1)[present])),
        images=int(confusion.sum()),
        confusion=confusion,
    )
