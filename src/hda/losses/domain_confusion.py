"""A row whose domain cannot be told: what a network wants of its discriminator."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def domain_confusion(logits: Tensor) -> Tensor:
    """-(log D + log(1 - D)) / 2 of each row, least where D is a half (Tzeng et al., 2015; Xu et al., CVPR 2018).

    Args:
        logits: of any shape; D is their sigmoid.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.softplus(logits) - logits / 2
