"""A discriminator that knows how sure it is, and what its certainty tells of the features."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Uncertainty = Literal["predictive", "aleatoric"]

_OUT = -1000.0  # score of a feature that has no part in the attention


class Doubt(NamedTuple):
    """How unsure a discriminator is of each row, and why."""

    uncertainty: Tensor  # (rows,)
    gradient: Tensor  # (rows, inputs), of the uncertainty with respect to the features


class _Pass(NamedTuple):
    """What a discriminator computes, (samples, rows, ...) each, for its losses and for gradients by hand."""

    open_first: Tensor  # slopes of the hidden layers: ReLU's times dropout's
    open_second: Tensor
    logits: Tensor
    scale: Tensor  # (samples, rows); the variance is its softplus


class BayesianDiscriminator(nn.Module):
    """Source or target, with the variance of the logits as a second output (Kurmi et al., CVPR 2019).

    Dropout is on while it learns, so that samples of it are samples of a posterior. Layers start as PyTorch's do.

    >>> discriminator = BayesianDiscriminator(256)
    >>> logits, variance = discriminator(torch.rand(8, 256))
    >>> doubt = discriminator.doubt(torch.rand(8, 256), samples=10)

    Args:
        inputs: features a row has.
        width: of the hidden layers.
        dropout: after each hidden layer.
    """

    def __init__(self, inputs: int, width: int = 1024, dropout: float = 0.5) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, width), nn.Linear(width, width)
        self.logits, self.scale = nn.Linear(width, 2), nn.Linear(width, 1)
        self.dropout = dropout

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, (rows, 2), the second the source's, and their variance, (rows,), of one sample."""
        out = self._pass(x, 1)
        return out.logits[0], F.softplus(out.scale[0])

    @torch.no_grad()
    def doubt(self, x: Tensor, samples: int = 1, kind: Uncertainty = "predictive") -> Doubt:
        """The uncertainty of each row and its gradient, computed by hand: it serves where nothing is recorded, too.

        Args:
            x: (rows, inputs).
            samples: of the dropout; without dropout, as in evaluation mode, they are all the same.
            kind: "predictive", the entropy of the mean probabilities; "aleatoric", the mean variance.
        """
        out = self._pass(x, samples)
        if kind == "aleatoric":
            uncertainty = F.softplus(out.scale).mean(dim=0)
            by_second = out.scale.sigmoid()[:, :, None] / samples * self.scale.weight
        else:
            p = out.logits.softmax(dim=2)
            log_mean = p.mean(dim=0).clamp_min(torch.finfo(p.dtype).tiny).log()
            uncertainty = -(p.mean(dim=0) * log_mean).sum(dim=1)
            slope = -(1.0 + log_mean)
            by_second = p * (slope - (p * slope).sum(dim=2, keepdim=True)) / samples @ self.logits.weight
        by_first = (by_second * out.open_second) @ self.second.weight
        return Doubt(uncertainty, ((by_first * out.open_first) @ self.first.weight).sum(dim=0))

    def _pass(self, x: Tensor, samples: int) -> _Pass:
        first = self.first(x)
        first, open_first = self._hidden(first.expand(samples, *first.shape))
        second, open_second = self._hidden(self.second(first))
        return _Pass(open_first, open_second, self.logits(second), self.scale(second)[:, :, 0])

    def _hidden(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """What a hidden layer passes on, and its slope."""
        slope = F.dropout((before > 0).to(before.dtype), self.dropout, self.training)
        return before * slope, slope


def certainty_attention(features: Tensor, doubt: Doubt) -> Tensor:
    """How much more each feature should count where the discriminator is sure: (rows, width), from 1 to 2.

    1 + (1 - uncertainty) softmax(a), where a is feature times minus the uncertainty's gradient, over the features where
    that is positive: those that make the discriminator sure (Kurmi et al., CVPR 2019). It carries no gradient.

    Args:
        features: (rows, width).
        doubt: of a discriminator, on these features.
    """
    score = features.detach() * -doubt.gradient
    attention = torch.where(score > 0, score, _OUT).softmax(dim=1)
    return 1.0 + (attention * (1.0 - doubt.uncertainty)[:, None]).clamp(0.0, 1.0)
