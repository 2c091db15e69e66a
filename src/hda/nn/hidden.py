"""A head whose hidden layer is what alignments see."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hda.nn.heads import Narrowed


class HiddenHead(nn.Module):
    """A hidden layer with batch norm, ReLU and dropout, seen as the features, then the classifier (Xu et al., 2019).

    While training, dropout multiplies what it keeps by sqrt(1 - p) besides its 1 / (1 - p), so that it is a row's squared
    norm, and not its mean, that is on average the same with dropout and without. Starting values are those of the
    published code; its bias before the batch norm, which that takes out again, is left out.
    """

    def __init__(self, width: int, classes: int, hidden: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden, bias=False)
        self.norm = _BatchNorm(hidden)
        self.classifier = nn.Linear(hidden, classes)
        self.dropout = dropout
        for layer in (self.hidden, self.classifier):
            nn.init.normal_(layer.weight, std=0.01)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.01)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, features: Tensor) -> Narrowed:
        hidden = F.dropout(F.relu(self.norm(self.hidden(features))), self.dropout, self.training)
        if self.training:
            hidden = hidden * math.sqrt(1.0 - self.dropout)
        return Narrowed(self.classifier(hidden), hidden)


class _BatchNorm(nn.BatchNorm1d):
    """Batch norm which takes the running statistics where there is one row: that has no spread of its own."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > 1 or not self.training:
            return super().forward(x)
        mean, var = self.running_mean, self.running_var
        assert mean is not None
        assert var is not None
        normalised = (x - mean) * torch.rsqrt(var + self.eps)
        return normalised * self.weight + self.bias
