"""Comparing runs: the paper's tables as grids of runs, result rows, tables drawn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hda.bench.grid import Grid, Job

__all__ = ["Grid", "Job"]


def __getattr__(name: str) -> Any:
    """Import them when they are asked for: they bring PyTorch, and the names of the tables need none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'hda.bench' has no attribute {name!r}")
    from hda.bench import grid

    return getattr(grid, name)
