"""How much likelier a picture of the source is in the target: importance weights from a classifier of domains."""

from __future__ import annotations

import warnings

import numpy as np

from hda.selection.base import Floats, Labelled, Seen, shuffled, standardised

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # C of the classifier: the higher, the freer
ODDS = 30.0  # what log odds are held within, so that weights stay numbers


def weights(seen: Seen, held_out: Labelled, source: Labelled) -> Floats:
    """Density of the target over that of the source at each held-out picture's features: (held out,).

    A logistic regression tells the features of the target from those of the source that was trained on; by Bayes' rule
    the ratio of densities is its odds times the ratio of the counts. The regression's strength is the one that is best
    on a fifth of the rows.
    """
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([source.features, seen.target.features])
    is_target = np.repeat([0, 1], [len(source), len(seen.target)])
    order = shuffled(both)
    rows, labels = standardised(both[order], both[order]), is_target[order]

    def fitted(strength: float, upto: int) -> LogisticRegression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: the strengths are compared as they are
            return LogisticRegression(C=strength, max_iter=200).fit(rows[:upto], labels[:upto])

    known = _most(labels)
    strength = max(STRENGTHS, key=lambda c: _likelihood(fitted(c, known), rows[known:], labels[known:]))
    odds = fitted(strength, len(rows)).decision_function(standardised(held_out.features, both[order]))
    found: Floats = np.exp(np.clip(odds, -ODDS, ODDS)) * len(source) / len(seen.target)
    return found


def losses(held_out: Labelled) -> Floats:
    """Cross-entropy of each held-out picture: (held out,)."""
    found: Floats = -held_out.log_probabilities[np.arange(len(held_out)), held_out.labels]
    return found


def _most(labels: np.ndarray) -> int:
    """Four fifths of the rows, or as many as it takes for both domains to be among them."""
    both = max(int(np.argmax(labels == domain)) for domain in (0, 1)) + 1
    return max(both, len(labels) * 4 // 5)


def _likelihood(model: object, rows: np.ndarray, labels: np.ndarray) -> float:
    odds = model.decision_function(rows) if len(rows) else np.zeros(0)  # type: ignore[attr-defined]
    return -float(np.logaddexp(0.0, np.where(labels == 1, -odds, odds)).sum())
