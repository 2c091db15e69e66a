"""The bound on the target's risk, term by term, and whether H is k (F - F*) on both domains (Cui et al., NeurIPS 2020).

    risk_T(F) <= risk_S(F) + [risk_S(F*) + risk_T(F*)] + | d_S(F, F*) - d_T(F, F*) |

with the risk of a function its distance from the truth, d its distance from the ideal F*, both means over a domain. If
H = k (F - F*) holds on both domains with one k, then G - F* = (1 - k) (F - F*), and the last term of G is (1 - k) times
that of F. Whether it holds is a question to a trained H: `proportion` asks it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
ALIKE = 0.1  # two values of k no farther apart than this count as one
LEFT = 0.25  # share of H's squares that k (F - F*) may leave unexplained where it counts as proportional


class Pair(NamedTuple):
    """Scores of source and of target, (rows, classes) each."""

    source: Array
    target: Array


@dataclass(frozen=True)
class Terms:
    """The bound of one function; risks and distances are means over a domain."""

    source_risk: float
    target_risk: float
    ideal_risk: float  # of F*, source and target together
    source_distance: float  # from F*
    target_distance: float

    @property
    def discrepancy(self) -> float:
        return abs(self.source_distance - self.target_distance)

    @property
    def bound(self) -> float:
        return self.source_risk + self.ideal_risk + self.discrepancy

    def as_dict(self) -> dict[str, float]:
        return asdict(self) | {"discrepancy": self.discrepancy, "bound": self.bound}


@dataclass(frozen=True)
class Proportion:
    """The k with which k (F - F*) comes nearest to H, and the share of H's squares that it leaves unexplained."""

    k: float
    residual: float


@dataclass(frozen=True)
class Study:
    """Of one trained head: the bounds of F and of G, and k on each domain."""

    f: Terms
    g: Terms
    source: Proportion
    target: Proportion
    both: Proportion

    @property
    def factor(self) -> float:
        """What the theory multiplies the discrepancy with: |1 - k|, of both domains' k."""
        return abs(1.0 - self.both.k)

    @property
    def ratio(self) -> float:
        """What it is multiplied with in fact: the discrepancy of G over that of F."""
        return self.g.discrepancy / self.f.discrepancy if self.f.discrepancy > 0 else float("nan")

    def fails(self) -> list[str]:
        """Where the assumption fails, a sentence each; none where it holds."""
        said = []
        if abs(self.source.k - self.target.k) > ALIKE:
            said.append(
                f"k is {signless(self.source.k)} on the source and {signless(self.target.k)} on the target, not the same."
            )
        for name, found in (("source", self.source), ("target", self.target)):
            if found.residual > LEFT:
                said.append(f"On the {name} k (F - F*) leaves {found.residual:.0%} of H's squares unexplained.")
            if not 0 < found.k <= 1:
                said.append(f"On the {name} k is {signless(found.k)}, not between 0 and 1.")
        return said

    def as_dict(self) -> dict[str, Any]:
        parts = {name: asdict(getattr(self, name)) for name in ("source", "target", "both")}
        ratio = self.ratio if np.isfinite(self.ratio) else None
        terms = {"f": self.f.as_dict(), "g": self.g.as_dict()}
        return terms | {"k": parts, "factor": self.factor, "ratio": ratio, "fails": self.fails()}


def study(f: Pair, h: Pair, ideal: Pair, truth: Pair) -> Study:
    """What the theory says of a head, and what is measured of it.

    Args:
        f: scores of the fundament.
        h: of the heuristics' sum; G is the difference.
        ideal: of F*.
        truth: the scores that risks are distances from.
    """
    f, h, ideal, truth = (Pair(*map(centred, part)) for part in (f, h, ideal, truth))
    g = Pair(f.source - h.source, f.target - h.target)
    gaps = Pair(f.source - ideal.source, f.target - ideal.target)
    return Study(
        terms(f, ideal, truth),
        terms(g, ideal, truth),
        proportion(h.source, gaps.source),
        proportion(h.target, gaps.target),
        proportion(np.concatenate(h), np.concatenate(gaps)),
    )


def terms(found: Pair, ideal: Pair, truth: Pair) -> Terms:
    """The terms of a function's bound."""
    return Terms(
        distance(found.source, truth.source),
        distance(found.target, truth.target),
        distance(ideal.source, truth.source) + distance(ideal.target, truth.target),
        distance(found.source, ideal.source),
        distance(found.target, ideal.target),
    )


def proportion(h: Array, gap: Array) -> Proportion:
    """Least squares of H on F - F*, without an intercept, over all rows and classes.

    Args:
        h: (rows, classes), the heuristics' sum.
        gap: (rows, classes), F - F*.
    """
    h, gap = np.asarray(h, np.float64), np.asarray(gap, np.float64)
    size = float((gap * gap).sum())
    k = float((h * gap).sum()) / size if size > 0 else 0.0
    whole = float((h * h).sum())
    left = h - k * gap
    return Proportion(k, float((left * left).sum()) / whole if whole > 0 else 0.0)


def distance(a: Array, b: Array) -> float:
    """Mean over the rows of half the sum of |a - b|: of probabilities the total variation."""
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).sum(axis=1).mean()) / 2


def centred(scores: Array) -> NDArray[np.float64]:
    """Scores less their mean over the classes: a softmax takes both for the same."""
    whole = np.asarray(scores, np.float64)
    found: NDArray[np.float64] = whole - whole.mean(axis=1, keepdims=True)
    return found


def probabilities(scores: Array) -> NDArray[np.float64]:
    """Softmax over the classes."""
    whole = np.exp(np.asarray(scores, np.float64) - np.max(scores, axis=1, keepdims=True))
    found: NDArray[np.float64] = whole / whole.sum(axis=1, keepdims=True)
    return found


def signless(k: float) -> str:
    """Two decimals, and no minus before a zero."""
    return f"{round(k, 2) + 0.0:.2f}"


def estimated_ideal(features: Pair, labels: tuple[NDArray[np.int64], NDArray[np.int64]], classes: int) -> Pair:
    """F*, estimated: a linear classifier on the features that sees the labels of both domains, as F* is defined.

    Each half of the rows gets its scores from a classifier that was trained on the other half.

    Args:
        features: (rows, width) of each domain.
        labels: of each domain, all known.
        classes: how many there are; one that is not among the labels gets the lowest score of each row.
    """
    from sklearn.linear_model import LogisticRegression

    rows, truth = np.concatenate(features).astype(np.float64), np.concatenate(labels)
    rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)
    half = np.random.default_rng(0).permutation(len(rows)) % 2
    scores = np.empty((len(rows), classes))
    for side in (0, 1):
        judge = LogisticRegression(C=0.1, tol=1e-3, max_iter=2000).fit(rows[half != side], truth[half != side])
        found = np.log(judge.predict_proba(rows[half == side]) + 1e-12)
        part = np.repeat(found.min(axis=1, keepdims=True), classes, axis=1)
        part[:, judge.classes_] = found
        scores[half == side] = part
    split = len(features.source)
    return Pair(scores[:split], scores[split:])
