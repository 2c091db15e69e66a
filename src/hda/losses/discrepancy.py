"""How much two classifiers disagree."""

from __future__ import annotations

from torch import Tensor


def classifier_discrepancy(first: Tensor, second: Tensor) -> Tensor:
    """Mean absolute difference of two classifiers' probabilities (Saito et al., CVPR 2018).

    Args:
        first: (rows, classes) logits.
        second: (rows, classes) logits.
    """
    return (first.softmax(dim=1) - second.softmax(dim=1)).abs().mean()
