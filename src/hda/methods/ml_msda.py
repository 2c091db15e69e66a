"""Mutual learning: a network for each source with the target, and one for all sources, agree on the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hda.batch import Batch, Progress
from hda.losses import domain_means, domain_rows, entropy, jensen_shannon
from hda.methods.base import Losses, Method, Reference
from hda.nn import (
    BottleneckHead,
    DomainDiscriminator,
    MultilinearMap,
    mixed,
    reversal_coefficient,
    reverse_gradient,
)
from hda.settings import at_least, between, setting


class Answer(NamedTuple):
    """What a subnetwork says of every row."""

    logits: Tensor  # (rows, classes)
    domain: Tensor  # (rows,) positive for a source


class Subnetwork(nn.Module):
    """A bottleneck, a classifier, and a discriminator conditional on what the classifier says (Long et al., 2018)."""

    def __init__(self, width: int, classes: int, bottleneck: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.head = BottleneckHead(width, classes, bottleneck)
        self.join = MultilinearMap(bottleneck, classes)
        self.discriminator = DomainDiscriminator(self.join.width, 2, hidden, dropout)

    def forward(self, features: Tensor, reversal: Tensor) -> Answer:
        logits, narrow = self.head(features)
        joint = self.join(narrow, logits.detach().softmax(dim=1))
        return Answer(logits, self.discriminator(reverse_gradient(joint, reversal))[:, 0])


class MLMSDA(Method):
    """Mutual Learning Network for Multi-Source Domain Adaptation (Li et al., 2020).

    Each source and the target train a branch, all sources and the target the guidance: conditional adversarial networks
    that learn their sources' labels, that their discriminator cannot tell source from target, and to be sure of the
    target. What a branch says of the target and what the guidance says learn to agree. Predictions are the mean of the
    probabilities of guidance and branches.
    """

    name = "ml-msda"
    reference = Reference(
        title="Mutual Learning Network for Multi-Source Domain Adaptation",
        authors="Zhenpeng Li, Zhen Zhao, Yuhong Guo, Haifeng Shen, Jieping Ye",
        venue="arXiv 2020",
        url="https://arxiv.org/abs/2003.12944",
        deviations=(
            "branches and guidance share the whole backbone and part at a bottleneck each, for a network for every source "
            "does not fit into memory; there is no published code, and the weights of the terms and how predictions are "
            "averaged are ours; so is the target's entropy, which the paper's abstract does not name "
            "(`--entropy-weight 0` leaves it out); the discriminators' map of features and classes is random where it would "
            "be wide, as CDAN's"
        ),
        reported={"DomainNet, mean of 6 (table 3)": 44.3, "DomainNet, Clipart (table 3)": 61.4},
    )
    supports = frozenset({"msda"})

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        transfer_weight: float = setting(1.0, "weight of the adversarial alignment of each subnetwork")
        mutual_weight: float = setting(1.0, "weight of agreement between guidance and branches on the target")
        entropy_weight: float = setting(0.1, "weight of the target's entropy in each subnetwork")
        bottleneck: int = setting(256, "features of each subnetwork's narrow layer")
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminators")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminators")
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight, mutual_weight=self.mutual_weight)
            at_least(0, entropy_weight=self.entropy_weight)
            at_least(1, bottleneck=self.bottleneck, discriminator_width=self.discriminator_width)
            at_least(1, reversal_horizon=self.reversal_horizon)
            between(0, 1, discriminator_dropout=self.discriminator_dropout)

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.subnetworks = nn.ModuleList(  # the guidance, then a branch a source
            Subnetwork(width, classes, s.bottleneck, s.discriminator_width, s.discriminator_dropout)
            for _ in range(domains)
        )

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s, features = self.settings, self.embed(batch)
        reversal = reversal_coefficient(progress.iteration, s.reversal_horizon)
        answers = [subnetwork(features, reversal) for subnetwork in self.subnetworks]
        branches = domain_rows(batch.domains[batch.source] - 1, self.domains - 1)
        rows = torch.cat([torch.ones_like(branches[:1]), branches])  # of the source rows, whose each subnetwork learns
        target = [answer.logits[batch.target] for answer in answers]
        agreement = torch.stack([jensen_shannon(target[0], branch) for branch in target[1:]])
        return Losses(
            classification=self._classification(answers, rows, batch),
            transfer=s.transfer_weight * self._discrimination(answers, rows, batch),
            mutual=s.mutual_weight * agreement.mean(),
            entropy=s.entropy_weight * torch.stack([entropy(logits).mean() for logits in target]).sum(),
        )

    def classify(self, features: Tensor) -> Tensor:
        heads = [cast(Subnetwork, subnetwork).head for subnetwork in self.subnetworks]
        return mixed(torch.stack([head(features).logits for head in heads], dim=1))

    def _classification(self, answers: list[Answer], rows: Tensor, batch: Batch) -> Tensor:
        each = [F.cross_entropy(a.logits[batch.source], batch.labels, reduction="none") for a in answers]
        return domain_means(torch.stack(each, dim=1), rows).diagonal().sum()

    def _discrimination(self, answers: list[Answer], rows: Tensor, batch: Batch) -> Tensor:
        """The discriminators' loss, half of each for either side; a branch without a source row has its target alone."""
        told = torch.stack([answer.domain for answer in answers], dim=1)
        of_source = domain_means(F.softplus(-told[batch.source]), rows).diagonal()
        of_target = F.softplus(told[batch.target]).mean(dim=0)
        return (of_source + of_target).sum() / 2
