"""A student should say of a picture what its teacher says of the same picture, seen differently."""

from __future__ import annotations

from torch import Tensor


def consistency(student: Tensor, teacher: Tensor, threshold: float = 0.0) -> Tensor:
    """Mean squared difference of probabilities, over rows of which the teacher is sure (French et al., ICLR 2018).

    Rows below the threshold count as zero, so that the term grows as the teacher becomes sure.

    Args:
        student: (rows, classes) logits.
        teacher: (rows, classes) logits; no gradient flows into them.
        threshold: how much the teacher's best class must exceed for the row to count.
    """
    goal = teacher.detach().softmax(dim=1)
    sure = (goal.amax(dim=1) > threshold).to(goal.dtype)
    return (sure * (student.softmax(dim=1) - goal).square().mean(dim=1)).mean()
