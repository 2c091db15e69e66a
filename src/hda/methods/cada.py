"""Certainty-attended domain adaptation: features that make the discriminator sure count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hda.batch import Batch, Losses, Progress
from hda.losses import attenuated_cross_entropy, cross_entropy
from hda.methods.base import Method, Reference
from hda.nn import BayesianDiscriminator, certainty_attention, reversal_coefficient, reverse_gradient
from hda.settings import at_least, between, setting


class CADA(Method):
    """Certainty based Attention for Domain Adaptation (Kurmi et al., CVPR 2019).

    A Bayesian discriminator, behind a gradient reversal, tells source from target and how sure it is of it. Features that
    make it sure, by the gradient of its uncertainty, count up to twice for the classifier. Both learn how noisy
    their logits are. CADA-P attends by predictive uncertainty, CADA-A by aleatoric.
    """

    name = "cada"
    reference = Reference(
        title="Attending to Discriminative Certainty for Domain Adaptation",
        authors="Vinod Kumar Kurmi, Shanu Kumar, Vinay P. Namboodiri",
        venue="CVPR 2019",
        url="https://arxiv.org/abs/1906.03502",
        deviations="the published code is of CADA-A; CADA-P, the default, takes the entropy of the mean probabilities of its "
        "dropout samples; both domain losses are means of the sides', half the code's sum; the aleatoric loss is Kendall and "
        "Gal's, where the code's sign would reward noise; plain labels, where the code smooths them; the attention's gradient "
        "is exact, where the code divides by it; classification is the mean over the rows, where the code sums them; the "
        "reversal opens over 10,000 updates, where the code's is full after the first epoch; layers start with PyTorch's "
        "values, where the code's are Xavier's; predictions take one pass without dropout, over the attended features, "
        "where the code's test leaves the attention out",
        reported={"Office-Home, mean of 12 (table 1)": 70.2, "Art->Clipart (table 1)": 56.9},
    )

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        uncertainty: Literal["predictive", "aleatoric"] = setting(
            "predictive", "what the attention follows: CADA-P or -A"
        )
        transfer_weight: float = setting(1.0, "weight of the adversarial alignment")
        aleatoric_weight: float = setting(0.2, "weight of the aleatoric losses of classifier and discriminator")
        dropout_samples: int = setting(10, "samples of the discriminator's dropout that the uncertainty is taken over")
        noise_samples: int = setting(100, "samples of the noise on the logits in the aleatoric losses")
        bottleneck: int = setting(256, "features of the narrow layer")
        hidden: int = setting(128, "hidden units of the classifier")
        head_dropout: float = setting(0.5, "dropout in the classifier")
        discriminator_width: int = setting(1024, "units in each hidden layer of the domain discriminator")
        discriminator_dropout: float = setting(0.5, "dropout after each hidden layer of the domain discriminator")
        reversal_horizon: float = setting(10_000.0, "updates in which the gradient reversal comes to full strength")

        def __post_init__(self) -> None:
            at_least(0, transfer_weight=self.transfer_weight, aleatoric_weight=self.aleatoric_weight)
            at_least(1, dropout_samples=self.dropout_samples, noise_samples=self.noise_samples)
            at_least(1, bottleneck=self.bottleneck, hidden=self.hidden, discriminator_width=self.discriminator_width)
            at_least(1, reversal_horizon=self.reversal_horizon)
            between(0, 1, head_dropout=self.head_dropout, discriminator_dropout=self.discriminator_dropout)

    def build(self, width: int, classes: int, domains: int) -> None:
        s = self.settings
        self.narrow = nn.Sequential(nn.Linear(width, s.bottleneck), nn.ReLU())
        self.hidden = nn.Sequential(nn.Linear(s.bottleneck, s.hidden), nn.ReLU(), nn.Dropout(s.head_dropout))
        self.scores, self.scale = nn.Linear(s.hidden, classes), nn.Linear(s.hidden, 1)
        self.discriminator = BayesianDiscriminator(s.bottleneck, s.discriminator_width, s.discriminator_dropout)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s = self.settings
        features = self.narrow(self.embed(batch))
        hidden = self._attended(features[batch.labelled])
        logits, variance = self.scores(hidden), F.softplus(self.scale(hidden)[:, 0])
        strength = reversal_coefficient(progress.iteration, s.reversal_horizon)
        told, spread = self.discriminator(reverse_gradient(features, strength))
        transfer, doubted = [], []
        for rows, side in ((batch.labelled, 1), (batch.target, 0)):
            sides = torch.full_like(batch.domains[rows], side)
            transfer.append(cross_entropy(told[rows], sides))
            doubted.append(self._aleatoric(told[rows], spread[rows], sides))
        return Losses(
            classification=cross_entropy(logits, batch.labels),
            aleatoric=s.aleatoric_weight * self._aleatoric(logits, variance, batch.labels),
            transfer=s.transfer_weight * torch.stack(transfer).mean(),
            transfer_aleatoric=s.transfer_weight * s.aleatoric_weight * torch.stack(doubted).mean(),
        ).watching(domain_variance=spread.mean())

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.scores(self._attended(self.narrow(features)))
        return logits

    def _attended(self, features: Tensor) -> Tensor:
        s = self.settings
        doubt = self.discriminator.doubt(features, s.dropout_samples if self.training else 1, s.uncertainty)
        hidden: Tensor = self.hidden(features * certainty_attention(features, doubt))
        return hidden

    def _aleatoric(self, logits: Tensor, variance: Tensor, labels: Tensor) -> Tensor:
        noise = torch.randn(self.settings.noise_samples, *logits.shape, device=logits.device, dtype=logits.dtype)
        return attenuated_cross_entropy(logits, variance, labels, noise)
