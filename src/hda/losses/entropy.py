"""How sure a prediction is, and how much its row should weigh for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def entropy(logits: Tensor, inside: float = 1e-5) -> Tensor:
    """Entropy of softmax(logits): (rows, classes) -> (rows,).

    Args:
        logits: (rows, classes).
        inside: added to the probabilities inside the logarithm, as the published code does.
    """
    p = logits.softmax(dim=1)
    return -(p * (p + inside).log()).sum(dim=1)


def entropy_weights(entropies: Tensor, groups: Sequence[slice]) -> Tensor:
    """exp(-entropy), normalised so that the weights of each group sum to one: (rows,) -> (rows,).

    The entropy conditioning of Heuristic Domain Adaptation (Cui et al., NeurIPS 2020): sure rows align first. It is not
    the 1 + exp(-entropy) of CDAN+E. The normaliser carries no gradient.

    Args:
        entropies: (rows,).
        groups: slices that cover the rows in order: the sources, the labelled target if any, the target.
    """
    weights = torch.exp(-entropies)
    return torch.cat([weights[group] / weights[group].sum().detach() for group in groups])
