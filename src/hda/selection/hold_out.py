"""Which pictures of a source are held out of training, for the validators that need such."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHARE = 0.1  # where a validator needs them and no share is given


def hold_out(labels: NDArray[np.int64], share: float, seed: int, source: int = 0) -> NDArray[np.int64]:
    """Positions of the pictures held out, in order: that share of every class, the same for the same seed.

    A class of at least two pictures gives at least one, and keeps at least one for training.

    Args:
        labels: the class of each picture.
        share: from 0 to below 1.
        seed: the run's.
        source: the number of the source, where there are several.
    """
    held: list[int] = []
    for label in np.unique(labels) if share > 0 else ():
        random = np.random.Generator(np.random.PCG64([seed, source, int(label)]))
        mine = random.permutation(np.flatnonzero(labels == label))
        held += mine[: min(len(mine) - 1, max(1, round(share * len(mine))))].tolist()
    return np.array(sorted(held), dtype=np.int64)
