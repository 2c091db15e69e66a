"""A model as validators see it: random features, and logits and labels that have to do with them."""

import numpy as np
import pytest

from hda.selection import Labelled, Seen, Unlabelled

CLASSES, WIDTH = 4, 6


@pytest.fixture
def make_seen():
    """Called with how far the model knows the target (0 to 1) and the domains differ: what validators see of it."""

    def make(skill: float = 0.7, shift: float = 0.5, seed: int = 0, rows: tuple[int, int, int] = (40, 30, 50)) -> Seen:
        random = np.random.default_rng(seed)
        centres = 3 * random.normal(size=(CLASSES, WIDTH))

        def part(count: int, shift: float, skill: float) -> tuple[np.ndarray, ...]:
            labels = random.integers(CLASSES, size=count)
            features = centres[labels] + random.normal(size=(count, WIDTH)) + shift
            told = np.where(random.random(count) < skill, labels, random.integers(CLASSES, size=count))
            logits = 2 * np.eye(CLASSES)[told] + 0.5 * random.normal(size=(count, CLASSES))
            return features.astype(np.float32), logits.astype(np.float32), labels

        source, held = Labelled(*part(rows[0], 0, 1)), Labelled(*part(rows[1], 0, 0.9))
        return Seen(Unlabelled(*part(rows[2], shift, skill)[:2]), source, held)

    return make


@pytest.fixture
def softmax():
    """Class probabilities, by hand."""
    return lambda logits: np.array([[np.exp(x) / sum(map(np.exp, row)) for x in row] for row in logits.astype(float)])
