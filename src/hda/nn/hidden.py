"""A head whose hidden layer is what alignments see."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from hda.nn.heads import Narrowed, kaiming_linear


class HiddenHead(nn.Module):
    """A hidden layer with ReLU and dropout, which is seen as the features, then the classifier (as in Xu et al., 2019).

    Besides its 1 / (1 - p) dropout multiplies what it keeps by sqrt(1 - p), so that a row's squared norm, and not its
    mean, is on average the same with dropout and without.
    """

    def __init__(self, width: int, classes: int, hidden: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.hidden = kaiming_linear(width, hidden)
        self.classifier = kaiming_linear(hidden, classes)
        self.dropout = dropout

    def forward(self, features: Tensor) -> Narrowed:
        hidden = F.dropout(F.relu(self.hidden(features)), self.dropout, self.training)
        if self.training:
            hidden = hidden * math.sqrt(1.0 - self.dropout)
        return Narrowed(self.classifier(hidden), hidden)
