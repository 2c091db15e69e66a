"""The margin disparity discrepancy: how far an auxiliary classifier can leave the classifier on the target alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def margin_disparity(logits: Tensor, auxiliary: Tensor, labelled: slice, target: slice, margin: float) -> Tensor:
    """What the auxiliary classifier minimises, and the features before it maximise (Zhang et al., ICML 2019).

    The margin times its cross-entropy with the classifier's decisions on the labelled rows (agree there), plus the mean of
    -log(1 - p(decision)) on the target (disagree there). log(1 - p) is taken as a difference of two log-sum-exps, so that
    a sure auxiliary leaves it finite.

    Args:
        logits: (rows, classes), the classifier's; only its decisions count, no gradient flows.
        auxiliary: (rows, classes), the auxiliary classifier's logits; at least two classes.
        labelled: the rows of the source side.
        target: the rows of the target.
        margin: gamma = exp(rho), how much more the labelled rows count.
    """
    decisions = logits.detach().argmax(dim=1)
    agreement = F.cross_entropy(auxiliary[labelled], decisions[labelled])
    return margin * agreement - _log_of_the_others(auxiliary[target], decisions[target]).mean()


def _log_of_the_others(logits: Tensor, decisions: Tensor) -> Tensor:
    """log(1 - p(decision)) of each row."""
    others = logits.scatter(1, decisions[:, None], -torch.inf)
    return others.logsumexp(dim=1) - logits.logsumexp(dim=1)
