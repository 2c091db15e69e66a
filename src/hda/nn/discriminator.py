"""The domain discriminator."""

from __future__ import annotations

from torch import Tensor, nn

from hda.nn.heads import kaiming_linear


class DomainDiscriminator(nn.Module):
    """Which domain is it: three layers, ReLU and dropout after each hidden one, Kaiming-normal, zero biases.

    Args:
        inputs: what a row has (for HDAN as many class probabilities as there are classes).
        domains: how many there are; two share one output.
        width: of the hidden layers.
        dropout: after each hidden layer.
    """

    def __init__(self, inputs: int, domains: int, width: int = 1024, dropout: float = 0.5) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            kaiming_linear(inputs, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            kaiming_linear(width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            kaiming_linear(width, 1 if domains == 2 else domains),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the domains: (rows, inputs) -> (rows, 1) for two domains, else (rows, domains)."""
        logits: Tensor = self.layers(x)
        return logits
