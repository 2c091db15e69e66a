"""How the heuristics of a head stand to its answer and to each other: sizes and cosines, as in the paper's figures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def sizes(parts: Array) -> NDArray[np.float64]:
    """Mean |H^k| over rows and classes, (M,).

    Args:
        parts: (rows, M, classes), the heuristics one by one.
    """
    found: NDArray[np.float64] = np.abs(parts).mean(axis=(0, 2), dtype=np.float64)
    return found


def to_transferable(g: Array, parts: Array) -> NDArray[np.float64]:
    """Mean over the rows of cos(G, H^k), (M,).

    Args:
        g: (rows, classes), the transferable.
        parts: (rows, M, classes), the heuristics one by one.
    """
    found: NDArray[np.float64] = np.einsum("rc,rmc->rm", _unit(g), _unit(parts)).mean(axis=0)
    return found


def to_each_other(parts: Array) -> NDArray[np.float64]:
    """Mean over the rows of cos(H^k, H^k'), (M, M): ones on the diagonal.

    Args:
        parts: (rows, M, classes), the heuristics one by one.
    """
    unit = _unit(parts)
    found: NDArray[np.float64] = np.einsum("rmc,rnc->rmn", unit, unit).mean(axis=0)
    return found


def _unit(x: Array) -> NDArray[np.float64]:
    """Each row divided by its length; a row of zeros stays one."""
    whole = x.astype(np.float64)
    length = np.linalg.norm(whole, axis=-1, keepdims=True)
    found: NDArray[np.float64] = np.divide(whole, length, out=np.zeros_like(whole), where=length > 0)
    return found
