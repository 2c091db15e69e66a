"""Recipes: which optimiser moves what, how fast, and for how long. One file each."""
