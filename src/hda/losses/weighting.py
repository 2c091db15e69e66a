"""How much each row counts among its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def shares(values: Tensor, groups: Sequence[slice]) -> Tensor:
    """Values divided by their group's sum and the number of groups, so that all of them sum to one: (rows,) -> (rows,).

    With equal values the weighted sum of a loss is the mean over the groups of their means, however unequal they are. The
    normaliser carries no gradient.

    Args:
        values: (rows,), positive.
        groups: slices that cover the rows in order.
    """
    return torch.cat([values[group] / (len(groups) * values[group].sum().detach()) for group in groups])
