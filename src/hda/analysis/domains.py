"""How well two domains can be told apart by a representation: domain accuracy, and the proxy A-distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 8  # pictures of each domain, below which nothing is measured
FOLDS = 2


def domain_accuracy(source: NDArray[np.floating], target: NDArray[np.floating], *, seed: int = 0) -> float:
    """Percent of rows whose domain a linear classifier tells that was trained on other rows.

    A logistic regression on standardised columns, trained on each half in turn and measured on the other; the larger
    domain is thinned at random to the size of the smaller, so that guessing gives 50 %.

    Args:
        source: (rows, width).
        target: (rows, width), of the same width.
        seed: of the thinning and of the halves.

    Raises:
        ValueError: a domain has fewer than 8 rows.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    count = min(len(source), len(target))
    if count < FEWEST:
        raise ValueError(f"domains are told apart with at least {FEWEST} rows of each, got {count}")
    random = np.random.default_rng(seed)
    parts = [np.asarray(part, np.float64)[random.permutation(len(part))[:count]] for part in (source, target)]
    rows, domains = np.concatenate(parts), np.repeat([0, 1], count)
    right = 0
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(rows, domains):
        middle, spread = rows[train].mean(axis=0), rows[train].std(axis=0)
        scaled = (rows - middle) / np.where(spread > 0, spread, 1.0)
        judge = LogisticRegression(C=0.1, tol=1e-3, max_iter=2000).fit(scaled[train], domains[train])
        right += int((judge.predict(scaled[test]) == domains[test]).sum())
    return 100.0 * right / len(rows)


def proxy_distance(accuracy: float) -> float:
    """The proxy A-distance 2 (1 - 2 error) (Ben-David et al., NeurIPS 2006) from a domain accuracy in percent.

    2 where the domains are told apart without an error, 0 where no better than by guessing.
    """
    return 2.0 * (1.0 - 2.0 * (1.0 - accuracy / 100.0))
