"""The bound of a run on real pictures: an estimate, since the ideal F* is not known there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hda.analysis.bound import Pair, Study, estimated_ideal, probabilities, proportion, study, terms
from hda.errors import UserError
from hda.report.subject import Subject

FEWEST = 20  # labelled pictures of each domain


@dataclass(frozen=True)
class Estimate:
    """The bound, of class probabilities, and k, of class scores."""

    of_probabilities: Study
    of_scores: Study
    source_pictures: int
    target_pictures: int
    ideal_accuracy: tuple[float, float]  # of the estimated F*, on source and on target, in percent

    def as_dict(self) -> dict[str, Any]:
        counts: dict[str, Any] = {"source_pictures": self.source_pictures, "target_pictures": self.target_pictures}
        counts |= {"ideal_accuracy": self.ideal_accuracy}
        return {"probabilities": self.of_probabilities.as_dict(), "scores": self.of_scores.as_dict()} | counts


def estimate(subject: Subject) -> Estimate:
    """Estimate F* from the labels of both domains, and measure the terms and k with it.

    Raises:
        UserError: the run has no heuristics, no answers, or too few pictures.
    """
    found, name = subject.domains, subject.run.path
    if found is None:
        raise UserError(subject.unseen)
    if not found.heuristics or found.source.f is None or found.target.f is None:
        raise UserError(f"{name} has no heuristic head, so it has neither F nor H: give a run of hdan")
    if subject.target_labels is None or subject.source_labels is None:
        raise UserError(
            subject.unanswered or f"{name} is measured on pictures that it was not trained on: its F* is unknown"
        )
    known = subject.target_labels >= 0
    labels = (subject.source_labels, subject.target_labels[known])
    if min(map(len, labels)) < FEWEST:
        raise UserError(f"{name} has fewer than {FEWEST} labelled pictures of a domain here: give more --pictures")
    classes = len(subject.run.classes)
    f = Pair(found.source.f, found.target.f[known])
    h = Pair(found.source.heuristic, found.target.heuristic[known])
    ideal = estimated_ideal(Pair(found.source.features, found.target.features[known]), labels, classes)
    truth = Pair(*(np.eye(classes)[part] for part in labels))
    one, other = (100.0 * float((s.argmax(axis=1) == part).mean()) for s, part in zip(ideal, labels, strict=True))
    of_scores = study(f, h, ideal, ideal)
    return Estimate(_bound(f, h, ideal, truth), of_scores, len(labels[0]), len(labels[1]), (one, other))


def _bound(f: Pair, h: Pair, ideal: Pair, truth: Pair) -> Study:
    """The terms in class probabilities, where risks have labels to be measured against."""
    g = Pair(f.source - h.source, f.target - h.target)
    sure_f, sure_g, sure_ideal = (Pair(*map(probabilities, scores)) for scores in (f, g, ideal))
    gaps = Pair(*(a - b for a, b in zip(sure_f, sure_ideal, strict=True)))
    less = Pair(*(a - b for a, b in zip(sure_f, sure_g, strict=True)))
    return Study(
        terms(sure_f, sure_ideal, truth),
        terms(sure_g, sure_ideal, truth),
        proportion(less.source, gaps.source),
        proportion(less.target, gaps.target),
        proportion(np.concatenate(less), np.concatenate(gaps)),
    )
