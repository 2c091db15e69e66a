"""What one domain's classifier adds to the other's."""

from __future__ import annotations

from torch import Tensor, nn


class ResidualClassifier(nn.Module):
    """The source's class scores from the target's: f_S = f_T + D(f_T), D two layers near zero (Long et al., 2016)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        first, second = nn.Linear(classes, classes), nn.Linear(classes, classes)
        for layer in (first, second):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)
        self.difference = nn.Sequential(first, nn.ReLU(), second)

    def forward(self, target: Tensor) -> Tensor:
        """The source's logits from the target's: (rows, classes) -> (rows, classes)."""
        logits: Tensor = target + self.difference(target)
        return logits
