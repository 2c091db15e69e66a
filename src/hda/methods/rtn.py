"""Residual transfer network: the source's classifier is the target's and a learnt difference."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hda.batch import Batch, Progress
from hda.losses import cross_entropy, entropy, tensor_mmd
from hda.methods.base import Losses, Method, Reference
from hda.nn import BottleneckHead, ResidualClassifier, reversal_coefficient
from hda.settings import at_least, setting


class RTN(Method):
    """Residual Transfer Network (Long et al., NeurIPS 2016): f_S(x) = f_T(x) + D(f_T(x)).

    The source learns its labels through f_S; f_T, which predictions are made from, is to be sure of the target; bottleneck
    features and f_T's scores, multiplied with each other, are matched between the domains. A labelled target learns
    through f_T.
    """

    name = "rtn"
    reference = Reference(
        title="Unsupervised Domain Adaptation with Residual Transfer Networks",
        authors="Mingsheng Long, Han Zhu, Jianmin Wang, Michael I. Jordan",
        venue="NeurIPS 2016",
        url="https://arxiv.org/abs/1602.04433",
        deviations=(
            "weights, the entropy's growth and five kernels in place of one are those of the authors' published model; that "
            "shrinks the product of the layers by max pooling, here it is matched whole as in the text; the bottleneck is "
            "without ReLU and 256 wide, not 128; the entropy counts every class, where that model leaves out probabilities "
            "below 0.001; all pairs are compared without bias; optimiser and schedule are the recipe's"
        ),
        reported={"DomainNet, mean of 6 (table 3)": 31.1},
    )

    improves = ("transfer",)
    lowers = ("gap",)

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        bottleneck: int = setting(256, "features of the narrow layer")
        mmd_weight: float = setting(1.0, "weight of the discrepancy of multiplied features and scores")
        entropy_weight: float = setting(0.1, "weight of the target's entropy at full strength")
        entropy_horizon: float = setting(2_000.0, "updates in which the entropy's weight comes to full strength")
        kernels: int = setting(5, "Gaussian kernels that are summed, the middle one as wide as the mean distance")
        kernel_factor: float = setting(2.0, "how much wider each kernel is than the one before")

        def __post_init__(self) -> None:
            at_least(0, mmd_weight=self.mmd_weight, entropy_weight=self.entropy_weight)
            at_least(1, bottleneck=self.bottleneck, kernels=self.kernels, kernel_factor=self.kernel_factor)
            at_least(1, entropy_horizon=self.entropy_horizon)

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = BottleneckHead(width, classes, self.settings.bottleneck)
        self.residual = ResidualClassifier(classes)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s, out = self.settings, self.head(self.embed(batch))
        labelled = torch.cat([self.residual(out.logits[batch.source]), out.logits[batch.labelled_target]])
        source, target = (
            [layer[rows] for layer in (out.features, out.logits)] for rows in (batch.labelled, batch.target)
        )
        strength = s.entropy_weight * reversal_coefficient(progress.iteration, s.entropy_horizon)
        return Losses(
            classification=cross_entropy(labelled, batch.labels),
            transfer=s.mmd_weight * tensor_mmd(source, target, s.kernels, s.kernel_factor),
            entropy=strength * entropy(out.logits[batch.target]).mean(),
        )

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.head(features).logits
        return logits
