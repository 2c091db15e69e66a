"""The multilinear map of features and class probabilities."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class MultilinearMap(nn.Module):
    """Every feature times every class probability (Long et al., NeurIPS 2018); random projections of both if that is wide.

    Up to `limit` products all of them are taken; beyond, (A f) * (B p) / sqrt(width) with fixed Gaussian A and B, whose
    inner products are in expectation those of the full map.

    >>> join = MultilinearMap(256, 65)
    >>> join(torch.rand(4, 256), torch.rand(4, 65)).shape
    torch.Size([4, 16640])

    Args:
        features: features a row has.
        classes: class probabilities a row has.
        limit: products beyond which the map is random.
        width: of the random map.
    """

    of_features: Tensor  # A and B, where the map is random
    of_classes: Tensor

    def __init__(self, features: int, classes: int, limit: int = 32_768, width: int = 1024) -> None:
        super().__init__()
        self.random = features * classes > limit
        self.width = width if self.random else features * classes
        if self.random:
            self.register_buffer("of_features", torch.randn(features, width))
            self.register_buffer("of_classes", torch.randn(classes, width))

    def forward(self, features: Tensor, probabilities: Tensor) -> Tensor:
        """(rows, features) and (rows, classes) -> (rows, self.width)."""
        if not self.random:
            return (probabilities[:, :, None] * features[:, None, :]).flatten(1)
        projected: Tensor = (features @ self.of_features) * (probabilities @ self.of_classes)
        return projected / math.sqrt(self.width)
