"""Self-ensembling: a student agrees with its own moving average on differently seen target pictures."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hda.batch import Batch, Progress
from hda.losses import class_balance, consistency, cross_entropy
from hda.methods.base import Losses, Method, Reference
from hda.nn import Averaged, PlainHead
from hda.settings import at_least, between, setting


class SE(Method):
    """Self-ensembling for visual domain adaptation (French et al., ICLR 2018).

    The teacher, an average of the student, sees a second view of each target picture; where it is sure, the student
    learns to say the same. As far as it is sure, the student also learns to predict every class equally often.
    Predictions are the teacher's.
    """

    name = "se"
    reference = Reference(
        title="Self-ensembling for visual domain adaptation",
        authors="Geoffrey French, Michal Mackiewicz, Mark Fisher",
        venue="ICLR 2018",
        url="https://arxiv.org/abs/1706.05208",
        deviations=(
            "weights and confidence are those of the authors' code for photographs, where their code for digits has 3, "
            "0.005 and 0.968; augmentation, optimiser and schedule are the recipe's; no layer is fixed, the classification "
            "has one softmax where that code has two, and the last teacher predicts, not the one that was sure most often"
        ),
    )
    views = 2
    revision = 2

    @dataclass(frozen=True, kw_only=True)
    class Settings:
        consistency_weight: float = setting(10.0, "weight of agreeing with the teacher and of the balance")
        confidence: float = setting(0.9, "how sure the teacher must be of a row for it to count")
        teacher_momentum: float = setting(0.99, "how much of itself the teacher keeps at each step")
        balance_weight: float = setting(
            0.01, "weight, beside the agreement, of predicting every class equally often on the target"
        )

        def __post_init__(self) -> None:
            at_least(0, consistency_weight=self.consistency_weight, balance_weight=self.balance_weight)
            between(0, 1, confidence=self.confidence, teacher_momentum=self.teacher_momentum)

    def build(self, width: int, classes: int, domains: int) -> None:
        self.head = PlainHead(width, classes)
        self.teacher_backbone, self.teacher_head = Averaged(self.backbone), Averaged(self.head)

    def losses(self, batch: Batch, progress: Progress) -> Losses:
        s = self.settings
        logits = self.head(self.embed(batch))
        student = logits[batch.target]
        teacher = self.classify(self.embed(batch, batch.target, view=1, network=self.teacher_backbone))
        sure = (teacher.softmax(dim=1).amax(dim=1) > s.confidence).to(student.dtype).mean()  # part of the target's rows
        losses = Losses(
            classification=cross_entropy(logits[batch.labelled], batch.labels),
            consistency=s.consistency_weight * consistency(student, teacher, s.confidence),
            balance=s.consistency_weight * s.balance_weight * sure * class_balance(student),
        )
        return losses.watching(sure=sure)

    def after_step(self, progress: Progress) -> None:
        self.teacher_backbone.follow(self.backbone, self.settings.teacher_momentum)
        self.teacher_head.follow(self.head, self.settings.teacher_momentum)

    def features(self, images: Tensor) -> Tensor:
        features: Tensor = self.teacher_backbone(images)
        return features

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.teacher_head(features)
        return logits
