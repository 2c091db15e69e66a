"""What an alignment is: a module that says how far apart source and target are, as losses that bring them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from hda.batch import Batch, Losses, Progress
from hda.settings import at_least, setting

if TYPE_CHECKING:
    from hda.methods.aligned import Aligned
    from hda.methods.base import Phase


@dataclass(frozen=True)
class Place:
    """Where an alignment is put: what it needs to know to make its modules."""

    width: int  # of the features that it sees
    classes: int
    domains: int  # the target, its labelled part if any, every source
    head: Callable[[], nn.Module]  # makes another head of the method's kind, with random values of its own
    # The class scores in what such a head made of the backbone's features
    read: Callable[[Any, Tensor], Tensor] = field(default=lambda out, features: out)


@dataclass(frozen=True)
class Seen:
    """What an alignment looks at: a batch that has been through backbone and head."""

    logits: Tensor  # (rows, classes); G where the head is heuristic
    features: Tensor  # (rows, width)
    inputs: Tensor  # (rows, backbone's width): what a second head takes
    batch: Batch
    progress: Progress

    def labelled(self, x: Tensor) -> Tensor:
        """The rows whose labels are known: source and labelled target."""
        return x[self.batch.labelled]

    def target(self, x: Tensor) -> Tensor:
        """The rows of the unlabelled target."""
        return x[self.batch.target]


class Alignment(nn.Module):
    """A discrepancy between domains and what it needs to learn. One file, one subclass: settings, `of`, `terms`.

    `forward` may take what comes naturally, so that the module serves in a loop of one's own; `terms` calls it with what a
    method has seen.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    supports: ClassVar[frozenset[str]] = frozenset({"uda", "msda", "ssda"})
    revision: ClassVar[int] = 1  # raised when its numbers change: so is that of every method which has it
    optimisations: ClassVar[int] = 1  # phases of a step, where `phases` gives them
    rows: ClassVar[str] = "all"  # "labelled": it never looks at the unlabelled target, so that is not loaded

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        transfer_weight: float = setting(1.0, "weight of the alignment")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        """The alignment with these settings, in that place."""
        return cls()

    def terms(self, seen: Seen) -> Losses:
        """The named losses of a batch, before `transfer_weight`."""
        raise NotImplementedError

    def phases(self, method: Aligned) -> Sequence[Phase] | None:
        """The optimisations of a step, where one does not do; they take the place of the method's own."""
        return None

    def classify(self, logits: Tensor, inputs: Tensor, read: Callable[[Any], Tensor]) -> Tensor:
        """Logits to predict from, where those of the method's head are not all.

        Args:
            logits: (rows, classes), the head's.
            inputs: (rows, width): the backbone's features, for a second head.
            read: takes the logits from a head's output.
        """
        return logits


class NoAlignment(Alignment):
    """None: the head learns from the labelled rows alone."""

    name = "none"
    summary = "no alignment: the labelled rows alone"
    rows = "labelled"

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        pass

    def terms(self, seen: Seen) -> Losses:
        return Losses()
