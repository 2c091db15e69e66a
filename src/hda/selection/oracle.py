"""The oracle: it looks at target labels, so it is no validator, and nothing it says may choose anything.

It is what validators are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hda.data.scenario import Answers
from hda.selection.base import Seen


class Oracle:
    """True accuracy on the target in percent, by the answers."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers

    def score(self, seen: Seen) -> float:
        known = self.answers.labels >= 0
        return 100.0 * float(np.mean(seen.target.predicted[known] == self.answers.labels[known]))


def oracle(accuracies: Sequence[float]) -> int:
    """Which of several models is best by true accuracy: the first of the best."""
    return int(np.argmax(accuracies))
