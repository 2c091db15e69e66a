"""Cross-entropy of a classifier that predicts how noisy its logits are."""

from __future__ import annotations

import math

from torch import Tensor

_SMALLEST = 1e-8  # variance: the square root's slope stays finite


def attenuated_cross_entropy(logits: Tensor, variance: Tensor, labels: Tensor, noise: Tensor) -> Tensor:
    """-log of the label's mean probability under noise, mean over the rows (Kendall and Gal, NeurIPS 2017).

    A row whose label the logits miss costs less with a larger variance, one whose label they know costs more: so the
    variance learns to be the aleatoric uncertainty.

    Args:
        logits: (rows, classes).
        variance: (rows,) of each logit, not negative.
        labels: (rows,) class numbers.
        noise: (samples, rows, classes), standard normal.
    """
    spread = (variance + _SMALLEST).sqrt()[:, None]
    drawn = (logits + spread * noise).log_softmax(dim=2)
    of_labels = drawn.gather(2, labels.expand(len(noise), -1)[:, :, None])[:, :, 0]
    return (math.log(len(noise)) - of_labels.logsumexp(dim=0)).mean()
