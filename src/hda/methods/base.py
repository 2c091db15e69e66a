"""What a method is: a backbone, a head, and losses that are a pure function of a batch and the progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor, nn

from hda.backbones import Backbone
from hda.batch import Batch, Losses, Network, Progress

__all__ = ["Losses", "Method", "Phase", "Reference"]

LossFunction = Callable[[Batch, Progress], Losses]


@dataclass(frozen=True)
class Phase:
    """One optimisation within a step: what is minimised, which parts of the method move, how often."""

    name: str
    losses: LossFunction
    updates: tuple[str, ...] = ("",)  # prefixes of parameter names; "" is every trainable parameter
    repeat: int = 1


@dataclass(frozen=True)
class Reference:
    """Where a method comes from."""

    title: str
    authors: str
    venue: str
    url: str = ""
    deviations: str = "none"
    reported: Mapping[str, float] = field(default_factory=dict)  # accuracies in percent, by what and where


class Method(nn.Module):
    """A domain adaptation method. One file, one subclass: settings, `build`, `losses`.

    The engine hands `losses` a batch without target labels and minimises the sum of what it returns. Precision, graphs,
    per-domain batch statistics, saving and schedules of the optimiser are the engine's.
    """

    name: ClassVar[str]
    reference: ClassVar[Reference]
    supports: ClassVar[frozenset[str]] = frozenset({"uda", "msda", "ssda"})
    revision: ClassVar[int] = 1  # raised when the method's numbers change, so that results are told apart
    optimisations: ClassVar[int] = 1  # phases of a step
    improves: ClassVar[tuple[str, ...]] = ()  # of its losses, those that fall while it adapts, besides classification
    lowers: ClassVar[tuple[str, ...]] = ()  # of `hda.testing.MEASURES`, those lower than with classification alone
    views: ClassVar[int] = 1  # how many augmentations of each picture a batch carries
    strong_views: ClassVar[int] = 0  # how many of them, the last ones, are varied strongly (`hda.data.strong`)
    rows: ClassVar[str] = "all"  # "labelled": the method never looks at the unlabelled target, so it is not loaded

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        pass

    def __init__(self, backbone: Backbone, classes: int, domains: int, settings: Any = None) -> None:
        super().__init__()
        self.settings: Any = self.Settings() if settings is None else settings
        self.backbone = backbone
        self.classes = classes
        self.domains = domains
        self.build(backbone.width, classes, domains)

    def build(self, width: int, classes: int, domains: int) -> None:
        """Create the heads and discriminators.

        Args:
            width: features a picture has after the backbone.
            classes: number of classes.
            domains: number of domains, the target and (in SSDA) the labelled target each counted as one.
        """
        raise NotImplementedError

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        """The named, weighted loss terms of a batch; what a method of a single phase defines."""
        raise NotImplementedError

    def classify(self, features: Tensor) -> Tensor:
        """Class logits from features, (rows, width) -> (rows, classes): what predictions are made from."""
        raise NotImplementedError

    def phases(self) -> Sequence[Phase]:
        """The optimisations of one step, in order."""
        return (Phase("step", self.losses),)

    def after_step(self, progress: Progress) -> None:
        """What follows the updates of a step without a gradient, such as averaging a teacher."""

    def embed(self, batch: Batch, rows: slice = slice(None), view: int = 0, network: Network | None = None) -> Tensor:
        """Features of some rows of a batch, each domain with its own batch statistics: (rows, width).

        The only way from a batch's pictures to features: several processes share the pictures among them, each passes
        its own through the network, and all get the features of every row.

        Args:
            batch: whose pictures.
            rows: which of them.
            view: which of their augmentations.
            network: from pictures, and the sizes of groups with statistics of their own, to features; the backbone if
                not given.
        """
        network = network or self.backbone
        if batch.share is not None:
            return batch.share.through(network, batch.images[view], rows)
        return network(batch.images[view][rows], batch.layout.statistics(rows))

    def features(self, images: Tensor) -> Tensor:
        """Features that predictions are made from: (rows, 3, height, width) -> (rows, width)."""
        features: Tensor = self.backbone(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """Class logits of pictures: (rows, 3, height, width) -> (rows, classes)."""
        return self.classify(self.features(images))
