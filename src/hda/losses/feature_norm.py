"""The size of features, enlarged little by little."""

from __future__ import annotations

import torch
from torch import Tensor


def feature_norm_step(features: Tensor, step: float = 1.0) -> Tensor:
    """Mean squared distance of each row's norm from what it is plus `step` (Xu et al., ICCV 2019, stepwise).

    The goal carries no gradient, so that the value is always step^2, and the gradient lets every norm grow.

    Args:
        features: (rows, width).
        step: how much larger each norm should be.
    """
    norms: Tensor = torch.linalg.vector_norm(features.to(torch.promote_types(features.dtype, torch.float32)), dim=1)
    return (norms - (norms.detach() + step)).square().mean()
