"""Heuristic Domain Adaptation's head: transferable = fundament - heuristic, and its three constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from hda.batch import Batch, Losses
from hda.heads.base import Head, Scores
from hda.losses import independence, similarity, termination
from hda.nn import HeuristicHead
from hda.settings import at_least, between, setting


class Heuristic(Head):
    """G(x) = F(x) - H(x), with the constraints of Heuristic Domain Adaptation (Cui et al., NeurIPS 2020).

    Similarity is given by the initialisation, termination is a loss; similarity and independence are measured, and losses
    where they are given a weight. The paper takes the discrepancy on the classification responses: an alignment on features
    sees G, too, for of the backbone's features H is no part, and would learn nothing of the domains.
    """

    name = "heuristic"
    summary = "G = F - H, with H held small: HDA's"
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings(Head.Settings):
        heuristics: int = setting(3, "M, how many heuristic subnetworks (0: the fundament alone, no heuristics at all)")
        fundament_slope: float = setting(
            100.0, "the fundament starts near zero with the leaky slope 100; 0 is table 2's 'w.o. init'"
        )
        termination_weight: float = setting(
            1.0, "weight of the size of H (0: table 2's 'w.o. range', H still subtracted)"
        )
        termination_norm: Literal["l1", "l2"] = setting("l1", "size of H: absolute or squared values")
        termination_scale: Literal["code", "text"] = setting(
            "code", "the code takes the mean over classes, and half of it with a labelled target; the text the sum"
        )
        similarity_weight: float = setting(0.0, "weight of |cos(G, H)| as a loss; it is always measured")
        independence_weight: float = setting(0.0, "weight of the kurtosis gap as a loss; it is always measured")
        independence_of: Literal["fundament", "heuristic"] = setting(
            "fundament", "whose gap to G is the loss: F (the paper's section 3) or H (its discussion of the figure)"
        )
        kurtosis_over: Literal["classes", "data"] = setting(
            "classes", "the code takes the kurtosis over a row's classes, the text over the data"
        )
        aligned_layer: Literal["transferable", "backbone"] = setting(
            "transferable", "what alignments on features see: G, or the backbone's features, which H has no part in"
        )

        def __post_init__(self) -> None:
            at_least(0, heuristics=self.heuristics, termination_weight=self.termination_weight)
            between(-1e6, 1e6, fundament_slope=self.fundament_slope)  # its square is still a number
            at_least(0, similarity_weight=self.similarity_weight, independence_weight=self.independence_weight)

    def build(self, width: int, classes: int) -> nn.Module:
        return HeuristicHead(width, classes, self.settings.heuristics, self.settings.fundament_slope)

    def width(self, width: int, classes: int) -> int:
        return classes if self.settings.aligned_layer == "transferable" else width

    def read(self, out: Any, features: Tensor) -> Scores:
        return Scores(out.g, out.g if self.settings.aligned_layer == "transferable" else features)

    def terms(self, out: Any, batch: Batch) -> Losses:
        s, (g, f, h) = self.settings, out
        losses = Losses(termination=s.termination_weight * self._termination(h, batch))
        like = similarity(g, h)
        apart = {
            "fundament": independence(g, f, s.kurtosis_over),
            "heuristic": independence(g, h, s.kurtosis_over),
        }
        if s.similarity_weight:
            losses["similarity_loss"] = s.similarity_weight * like
        if s.independence_weight:
            losses["independence_loss"] = s.independence_weight * apart[s.independence_of]
        return losses.watching(
            similarity=like,
            independence=apart["fundament"],
            independence_heuristic=apart["heuristic"],
            heuristic=h.abs().mean(),
        )

    def _termination(self, h: Tensor, batch: Batch) -> Tensor:
        s = self.settings
        if s.termination_scale == "text":
            return termination(h, s.termination_norm, "sum")
        factor = 0.5 if batch.layout.labelled_target else 1.0
        return factor * termination(h, s.termination_norm, "mean")
