"""The plain head: one linear layer."""

from __future__ import annotations

from torch import nn

from hda.heads.base import Head
from hda.nn import PlainHead


class Plain(Head):
    """One linear layer from the backbone's features to class scores."""

    name = "plain"
    summary = "one linear layer"

    def build(self, width: int, classes: int) -> nn.Module:
        return PlainHead(width, classes)
