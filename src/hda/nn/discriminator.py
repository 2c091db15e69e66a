"""The domain discriminator."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from hda.nn.heads import kaiming_linear


class DomainDiscriminator(nn.Module):
    """Which domain is it: three layers, ReLU and dropout after each hidden one.

    Args:
        inputs: what a row has (for HDAN as many class probabilities as there are classes).
        domains: how many there are; two share one output.
        width: of the hidden layers.
        dropout: after each hidden layer.
        linear: makes a layer with its starting values; Kaiming-normal with zero biases, as in HDAN's published code.
    """

    def __init__(
        self,
        inputs: int,
        domains: int,
        width: int = 1024,
        dropout: float = 0.5,
        linear: Callable[[int, int], nn.Linear] = kaiming_linear,
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            linear(inputs, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            linear(width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            linear(width, 1 if domains == 2 else domains),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the domains: (rows, inputs) -> (rows, 1) for two domains, else (rows, domains)."""
        logits: Tensor = self.layers(x)
        return logits


class Bridged(NamedTuple):
    """What a bridged discriminator gives."""

    logits: Tensor  # of the domains, the bridge taken away
    bridge: Tensor  # of the same shape


class BridgedDiscriminator(nn.Module):
    """A domain discriminator with a bridge to it: logits = D(x) - bridge(x), one hidden trunk (Cui et al., CVPR 2020).

    Args:
        inputs: what a row has.
        domains: how many there are; two share one output.
        width: of the hidden layers.
        dropout: after each hidden layer.
    """

    def __init__(self, inputs: int, domains: int, width: int = 1024, dropout: float = 0.5) -> None:
        super().__init__()
        *trunk, last = DomainDiscriminator(inputs, domains, width, dropout).layers
        self.trunk, self.last = nn.Sequential(*trunk), last
        self.bridge = kaiming_linear(width, 1 if domains == 2 else domains)

    def forward(self, x: Tensor) -> Bridged:
        """(rows, inputs) -> two of (rows, 1) for two domains, else of (rows, domains)."""
        hidden = self.trunk(x)
        bridge = self.bridge(hidden)
        return Bridged(self.last(hidden) - bridge, bridge)
