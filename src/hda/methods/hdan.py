"""Heuristic Domain Adaptation Network: transferable = fundament - heuristic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from hda.alignments import EntropyConditionedAdversary
from hda.batch import Batch, Progress
from hda.losses import cross_entropy, independence, similarity, termination
from hda.methods.base import Losses, Method, Reference
from hda.nn import HeuristicHead
from hda.settings import at_least, between, setting


class HDAN(Method):
    """Heuristic Domain Adaptation Network (Cui et al., NeurIPS 2020): G(x) = F(x) - H(x)."""

    name = "hdan"
    reference = Reference(
        title="Heuristic Domain Adaptation",
        authors="Shuhao Cui, Xuan Jin, Shuhui Wang, Yuan He, Qingming Huang",
        venue="NeurIPS 2020",
        url="https://arxiv.org/abs/2011.14540",
        deviations="none: where text and code differ the code is the default and the text a setting",
    )

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        heuristics: int = setting(3, "M, how many heuristic subnetworks (0: the fundament alone, no heuristics at all)")
        fundament_slope: float = setting(
            100.0, "the fundament starts near zero with the leaky slope 100; 0 is table 2's 'w.o. init'"
        )
        transfer_weight: float = setting(1.0, "weight of the adversarial alignment")
        transfer_scale: Literal["code", "text"] = setting(
            "code",
            "the published code halves it with one source and takes 2/3 with a labelled target; the text does not",
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
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminator")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminator")
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")

        def __post_init__(self) -> None:
            at_least(0, heuristics=self.heuristics)
            at_least(0, transfer_weight=self.transfer_weight, termination_weight=self.termination_weight)
            at_least(0, similarity_weight=self.similarity_weight, independence_weight=self.independence_weight)
            at_least(1, discriminator_width=self.discriminator_width, reversal_horizon=self.reversal_horizon)
            between(0, 1, discriminator_dropout=self.discriminator_dropout)

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.head = HeuristicHead(width, classes, s.heuristics, s.fundament_slope)
        self.align = EntropyConditionedAdversary(
            classes, domains, s.discriminator_width, s.discriminator_dropout, s.reversal_horizon, s.transfer_scale
        )

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s = self.settings
        g, f, h = self.head(self.embed(batch))
        losses = Losses(
            classification=cross_entropy(g[batch.labelled], batch.labels),
            transfer=s.transfer_weight * self.align(g, batch.domains, batch.groups, progress.iteration),
            termination=s.termination_weight * self._termination(h, batch),
        )
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

    def classify(self, features: Tensor) -> Tensor:
        g: Tensor = self.head(features).g
        return g

    def _termination(self, h: Tensor, batch: Batch) -> Tensor:
        s = self.settings
        if s.termination_scale == "text":
            return termination(h, s.termination_norm, "sum")
        factor = 0.5 if batch.layout.labelled_target else 1.0
        return factor * termination(h, s.termination_norm, "mean")
