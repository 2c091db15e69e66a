"""Comparing runs: the paper's tables as grids of runs, result rows, tables drawn from them."""
