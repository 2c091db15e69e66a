"""Heads: from a backbone's features to class scores."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hda.nn.reversal import reverse_gradient


class Heuristic(NamedTuple):
    """The three answers of a heuristic head, (rows, classes) each: g = f - h."""

    g: Tensor  # transferable: predictions come from it
    f: Tensor  # fundament
    h: Tensor  # the sum of all heuristics


class HeuristicHead(nn.Module):
    """G(x) = F(x) - sum of H^k(x), each of them one linear layer (Cui et al., NeurIPS 2020).

    Weights are Kaiming-normal for a leaky slope a, with deviation sqrt(2 / ((1 + a^2) width)), biases zero. H^k has
    a = k, for k = 0 .. M-1: Gaussians of different widths. F has a = 100: near zero, so that G = -H at the start, which is
    the similarity constraint.

    >>> head = HeuristicHead(2048, classes=65, heuristics=3)
    >>> g, f, h = head(torch.rand(8, 2048))
    >>> g.shape
    torch.Size([8, 65])

    Args:
        width: features a row has.
        classes: number of classes.
        heuristics: M, how many heuristic subnetworks; 0 leaves the fundament alone.
        fundament_slope: the fundament's a; 0 is the paper's "w.o. init".
    """

    def __init__(self, width: int, classes: int, heuristics: int = 3, fundament_slope: float = 100.0) -> None:
        super().__init__()
        self.classes, self.count = classes, heuristics
        self.fundament = kaiming_linear(width, classes, fundament_slope)
        # All heuristics are one layer, its rows M blocks of `classes`: one product, whatever M is.
        self.heuristics = nn.Linear(width, heuristics * classes) if heuristics else None
        if self.heuristics is not None:
            nn.init.zeros_(self.heuristics.bias)
            for k, block in enumerate(torch.split(self.heuristics.weight, classes)):
                nn.init.kaiming_normal_(block, a=k)

    def forward(self, features: Tensor) -> Heuristic:
        f = self.fundament(features)
        h = self.parts(features).sum(dim=1)
        return Heuristic(f - h, f, h)

    def parts(self, features: Tensor) -> Tensor:
        """The heuristics one by one: (rows, width) -> (rows, M, classes)."""
        if self.heuristics is None:
            return features.new_zeros(len(features), 0, self.classes)
        parts: Tensor = self.heuristics(features).unflatten(1, (self.count, self.classes))
        return parts


class PlainHead(nn.Module):
    """One linear layer, Kaiming-normal, zero bias."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = kaiming_linear(width, classes)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.linear(features)
        return logits


class MLPHead(nn.Module):
    """Two layers with dropout before each: what classifiers that should disagree need more than one layer for.

    Args:
        width: features a row has.
        classes: number of classes.
        hidden: units of the hidden layer.
        dropout: before each layer.
        start: of the weights, "kaiming", Kaiming-normal, or "gaussian", of deviation 0.01, as in MDD's published code: two
            classifiers then begin by saying the same, that they do not know.
    """

    def __init__(
        self,
        width: int,
        classes: int,
        hidden: int = 1000,
        dropout: float = 0.5,
        start: Literal["kaiming", "gaussian"] = "kaiming",
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            kaiming_linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            kaiming_linear(hidden, classes),
        )
        if start == "gaussian":
            for layer in self.layers:
                if isinstance(layer, nn.Linear):
                    nn.init.normal_(layer.weight, std=0.01)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.layers(features)
        return logits


class Narrowed(NamedTuple):
    """What a bottleneck head gives."""

    logits: Tensor  # (rows, classes)
    features: Tensor  # (rows, bottleneck)


class BottleneckHead(nn.Module):
    """A linear layer to `bottleneck` features, then the classifier.

    Args:
        width: features a row has.
        classes: number of classes.
        bottleneck: features of the narrow layer.
        start: of the weights, "gaussian", small, as in DAN's and JAN's published code, or "xavier", as in CDAN's: with it
            features begin several times as large.
    """

    def __init__(
        self, width: int, classes: int, bottleneck: int = 256, start: Literal["gaussian", "xavier"] = "gaussian"
    ) -> None:
        super().__init__()
        linear = xavier_linear if start == "xavier" else nn.Linear
        self.narrow, self.classifier = linear(width, bottleneck), linear(bottleneck, classes)
        if start == "gaussian":
            for layer, std, bias in ((self.narrow, 0.005, 0.1), (self.classifier, 0.01, 0.0)):
                nn.init.normal_(layer.weight, std=std)
                nn.init.constant_(layer.bias, bias)

    def forward(self, features: Tensor) -> Narrowed:
        narrow = self.narrow(features)
        return Narrowed(self.classifier(narrow), narrow)


class CosineHead(nn.Module):
    """A linear layer, then class scores by the direction of its output alone, over a temperature (Saito et al., ICCV 2019).

    The scores are w'z / (|z| T), without a bias; the weights w, the classes' prototypes, are not normalised, as in the
    published code. Starting values are PyTorch's, as there.
    """

    def __init__(self, width: int, classes: int, hidden: int = 512, temperature: float = 0.05) -> None:
        super().__init__()
        self.narrow = nn.Linear(width, hidden)
        self.prototypes = nn.Linear(hidden, classes, bias=False)
        self.temperature = temperature

    def forward(self, features: Tensor) -> Narrowed:
        narrow = self.narrow(features)
        return Narrowed(self.score(narrow), narrow)

    def score(self, narrow: Tensor) -> Tensor:
        """Class logits of the narrow layer's output: (rows, hidden) -> (rows, classes)."""
        logits: Tensor = self.prototypes(F.normalize(narrow, dim=1)) / self.temperature
        return logits

    def opposed(self, features: Tensor, coefficient: Tensor | float = 1.0) -> Tensor:
        """The same logits, whose gradient turns its sign between the prototypes and the narrow layer."""
        return self.score(reverse_gradient(self.narrow(features), coefficient))


def kaiming_linear(inputs: int, outputs: int, slope: float = 0.0) -> nn.Linear:
    """A linear layer, Kaiming-normal for that leaky slope, with a bias of zero."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        nn.init.kaiming_normal_(layer.weight, a=slope)
        nn.init.zeros_(layer.bias)
    return layer


def xavier_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer, Xavier-normal (deviation sqrt(2 / (inputs + outputs))), with a bias of zero."""
    layer = nn.Linear(inputs, outputs)
    with torch.no_grad():
        nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    return layer
