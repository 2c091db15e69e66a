"""How often a classifier wavers between two classes."""

from __future__ import annotations

import torch
from torch import Tensor

from hda.losses.entropy import entropy

_SMALLEST = 1e-12  # what a class that nothing speaks for is divided by


def class_confusion(logits: Tensor, temperature: float = 2.5) -> Tensor:
    """Minimum class confusion (Jin et al., ECCV 2020): the share of confusion in the classes' correlation, mean.

    Rows weigh 1 + exp(-entropy), without a gradient, normalised to a mean of one; each class's correlations are
    normalised to a sum of one, and those with other classes summed.

    Args:
        logits: (rows, classes).
        temperature: what the logits are divided by.
    """
    scaled = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    p = scaled.softmax(dim=1)
    weights = (1.0 + torch.exp(-entropy(scaled))).detach()
    weights = weights / weights.mean()
    correlation = (weights[:, None] * p).T @ p
    confusion = correlation / correlation.sum(dim=1, keepdim=True).clamp_min(_SMALLEST)
    return (confusion.sum() - confusion.diagonal().sum()) / logits.shape[1]
