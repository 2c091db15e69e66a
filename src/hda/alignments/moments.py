"""Moment matching: the features of all domains should have the same moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hda.alignments.base import Alignment, Place, Seen
from hda.batch import Losses
from hda.losses import moment_distance
from hda.settings import at_least, setting


class Moments(Alignment):
    """The moment distance of M3SDA (Peng et al., ICCV 2019): between each source and the target, and between sources.

    A labelled target counts as one more source.
    """

    name = "moments"
    summary = "distance of the first moments of every domain's features: M3SDA's"

    @dataclass(frozen=True, kw_only=True)
    class Settings(Alignment.Settings):
        transfer_weight: float = setting(0.0005, "weight of the moment distance")
        orders: int = setting(2, "the highest moment that is matched")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight)
            at_least(1, orders=self.orders)

    def __init__(self, domains: int, orders: int = 2) -> None:
        super().__init__()
        self.domains, self.orders = domains, orders

    @classmethod
    def of(cls, place: Place, settings: Any) -> Alignment:
        return cls(place.domains, settings.orders)

    def terms(self, seen: Seen) -> Losses:
        return Losses(transfer=moment_distance(seen.features, seen.batch.domains, self.domains, self.orders))
