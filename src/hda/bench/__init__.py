"""Comparing runs: the paper's tables as grids of runs, result rows, tables drawn from them."""

from hda.bench.grid import Grid, Job

__all__ = ["Grid", "Job"]
