"""Heuristic Domain Adaptation: transferable = fundament - heuristic, G(x) = F(x) - H(x).

>>> import hda
>>> scenario = hda.Scenario.read(source="photos", target="drawings")  # doctest: +SKIP
>>> run = hda.fit(scenario, method="hdan", out="runs/drawings")  # doctest: +SKIP
>>> run.predict("new-drawings")  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hda.data.scenario import Answers, Scenario
    from hda.data.tasks import Task
    from hda.data.tasks import read_task as task
    from hda.engine.fit import fit
    from hda.engine.run import Prediction, Predictions, Run
    from hda.errors import UserError

__version__ = "0.1.0"
__all__ = ["Answers", "Prediction", "Predictions", "Run", "Scenario", "Task", "UserError", "__version__", "fit", "task"]

_HOME = {
    "Answers": "hda.data.scenario",
    "Prediction": "hda.engine.run",
    "Predictions": "hda.engine.run",
    "Run": "hda.engine.run",
    "Scenario": "hda.data.scenario",
    "Task": "hda.data.tasks",
    "UserError": "hda.errors",
    "fit": "hda.engine.fit",
    "task": "hda.data.tasks:read_task",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: PyTorch takes seconds, and `hda --help` needs none of it."""
    if name not in _HOME:
        raise AttributeError(f"module 'hda' has no attribute {name!r}")
    module, _, other = _HOME[name].partition(":")
    return getattr(importlib.import_module(module), other or name)
