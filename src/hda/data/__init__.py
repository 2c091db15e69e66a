"""Images on disk become a scenario: who is source, who is target, and which target labels may be seen."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hda.data.images import Images, LabelledImages, from_arrays, read_labelled, read_unlabelled
    from hda.data.scenario import Answers, Scenario

__all__ = ["Answers", "Images", "LabelledImages", "Scenario", "from_arrays", "read_labelled", "read_unlabelled"]


def __getattr__(name: str) -> Any:
    """Modules are imported when first asked for: numpy takes longer than `hda --help` may."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "scenario" if name in ("Answers", "Scenario") else "images"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
