"""Kinds of heads: what stands between features and class scores, with the constraints it comes with. One file each."""
