"""What a run's result says of accuracy: after the last step, at the state chosen, and at the oracle's."""

from __future__ import annotations

from typing import Any

import numpy as np

from hda.data.scenario import Answers
from hda.engine.evaluate import evaluate
from hda.engine.run import Predictions
from hda.selection.oracle import oracle


def accuracies(predictions: Predictions, answers: Answers | None) -> dict[str, Any]:
    """Of all pictures, of each class that has any, and of those that other splits of the target test on, too."""
    if answers is None:
        return {"target_accuracy": None, "mean_class_accuracy": None, "per_class": None}
    found = evaluate(predictions.labels, answers)
    of_class = zip(answers.classes, found.per_class, strict=True)
    said: dict[str, Any] = {
        "target_accuracy": found.accuracy,
        "mean_class_accuracy": found.mean_class_accuracy,
        "per_class": {name: float(share) for name, share in of_class if np.isfinite(share)},
    }
    if answers.common is None or not len(rows := np.flatnonzero(answers.common & (answers.labels >= 0))):
        return said
    common = evaluate(predictions.labels[rows], answers.select(rows))
    return said | {"common_accuracy": common.accuracy, "common_images": common.images}


def chosen(selected: dict[str, Any] | None, curve: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """What the validator chose, and what the oracle would have: the result is the last iteration's all the same.

    Args:
        selected: what the validator says of its choice, if there is one.
        curve: steps, and the accuracy at each.
    """
    steps, measured = curve
    at = dict(zip(steps.tolist(), measured.tolist(), strict=True))
    found: dict[str, Any] = {"selected": selected and {**selected, "target_accuracy": at.get(selected["step"])}}
    if at:
        best = oracle(measured.tolist())
        found["oracle"] = {"step": int(steps[best]), "target_accuracy": float(measured[best])}
    return found
