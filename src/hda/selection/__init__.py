"""Choosing a model or its settings without target labels: one validator, one file.

>>> from hda.selection import Labelled, Seen, Unlabelled, validator
>>> score = validator("infomax").score  # of a `Seen`: features and logits, no target label among them
"""

from __future__ import annotations

from hda.errors import unknown
from hda.registry import registered
from hda.selection.base import Labelled, Seen, Unlabelled, Validator, best, ranks

__all__ = ["Labelled", "Seen", "Unlabelled", "Validator", "best", "ranks", "validator"]


def validator(name: str) -> Validator:
    """The validator of that name.

    Raises:
        UserError: there is none; the sentence names the nearest.
    """
    known = registered("selection")
    if name not in known:
        raise unknown("validator", name, known)
    found: Validator = known[name]()
    return found
