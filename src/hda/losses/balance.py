"""Every class should be predicted about as often."""

from __future__ import annotations

import torch
from torch import Tensor


def class_balance(logits: Tensor, inside: float = 1e-6) -> Tensor:
    """Binary cross-entropy between the mean prediction and the uniform one, summed over classes (French et al., 2018).

    Args:
        logits: (rows, classes).
        inside: added inside the logarithms.
    """
    mean = logits.softmax(dim=1).mean(dim=0)
    uniform = 1.0 / logits.shape[1]
    return -(uniform * torch.log(mean + inside) + (1.0 - uniform) * torch.log(1.0 - mean + inside)).sum()
