"""What a kind of head is: it makes the module, reads what comes out of it, and adds the constraints that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from hda.batch import Batch, Losses
from hda.nn import reverse_gradient


class Scores(NamedTuple):
    """What a head makes of a batch's features, as an alignment sees it."""

    logits: Tensor  # (rows, classes): predictions come from these
    features: Tensor  # (rows, width): the backbone's, a narrower layer's, or the scores that are to transfer


class Head:
    """A kind of head. One file, one subclass: settings, `build`, and, if it is not a single layer, `read` and `terms`.

    It is no module itself: `build` makes one (a method may hold several of a kind), whose output `read` understands.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    revision: ClassVar[int] = 1  # raised when its numbers change: so is that of every method which has it

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        pass

    def __init__(self, settings: Any = None) -> None:
        self.settings: Any = self.Settings() if settings is None else settings

    def build(self, width: int, classes: int) -> nn.Module:
        """A module from features, (rows, width), to what `read` understands."""
        raise NotImplementedError

    def width(self, width: int, classes: int) -> int:
        """How wide the features are that `read` gives, from the backbone's width and the number of classes."""
        return width

    def read(self, out: Any, features: Tensor) -> Scores:
        """The scores in a module's output.

        Args:
            out: what the module made of the features.
            features: (rows, width), the backbone's.
        """
        return Scores(out, features)

    def opposed(self, head: nn.Module, features: Tensor, coefficient: Tensor | float = 1.0) -> Tensor:
        """Class logits whose gradient turns its sign where the classifier begins: what comes before it is its adversary.

        Args:
            head: a module that `build` made.
            features: (rows, width), the backbone's.
            coefficient: what the reversed gradient is multiplied with.
        """
        return self.read(head(reverse_gradient(features, coefficient)), features).logits

    def terms(self, out: Any, batch: Batch) -> Losses:
        """Losses of the head's own, besides classification."""
        return Losses()
