"""A picture of features in the plane: t-SNE of two domains together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """Points in the plane, and which rows of the features they stand for."""

    source: NDArray[np.float32]  # (n, 2)
    target: NDArray[np.float32]  # (m, 2)
    source_rows: NDArray[np.int64]
    target_rows: NDArray[np.int64]


def tsne(
    source: NDArray[np.floating],
    target: NDArray[np.floating],
    *,
    limit: int = 500,
    perplexity: float = 30.0,
    seed: int = 0,
) -> Embedding:
    """Embed the features of two domains in one plane (van der Maaten and Hinton, 2008), as the paper's figure does.

    Args:
        source: (rows, width) features.
        target: (rows, width) features, of the same width.
        limit: rows of each domain at most; more are thinned evenly at random.
        perplexity: how many neighbours count, lowered where there are few rows.
        seed: of the thinning and of t-SNE.
    """
    from sklearn.manifold import TSNE

    random = np.random.default_rng(seed)
    rows = [np.sort(random.permutation(len(part))[:limit]) for part in (source, target)]
    features = np.concatenate([source[rows[0]], target[rows[1]]]).astype(np.float32)
    perplexity = min(perplexity, max(1.0, (len(features) - 1) / 3))
    points = TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(features)
    split = len(rows[0])
    return Embedding(points[:split], points[split:], rows[0], rows[1])
