"""What a network is sure of in a picture is the label of the same picture, seen differently."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def pseudo_label(strong: Tensor, weak: Tensor, threshold: float = 0.95) -> Tensor:
    """Cross-entropy of one view with the other view's best class, where that is sure (Sohn et al., NeurIPS 2020).

    Rows below the threshold count as zero, so that the term grows as the network becomes sure.

    Args:
        strong: (rows, classes) logits that learn.
        weak: (rows, classes) logits that teach; no gradient flows into them.
        threshold: the least probability of the best class for which a row counts.
    """
    sure, labels = weak.detach().softmax(dim=1).max(dim=1)
    each = F.cross_entropy(strong.to(torch.promote_types(strong.dtype, torch.float32)), labels, reduction="none")
    counted = (sure >= threshold).to(
        each.dtype
    ) + 0.0 * sure  # the second term is nothing, or no number where sure is none
    return (each * counted).mean()
