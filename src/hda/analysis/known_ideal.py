"""A problem built so that its ideal F* is known, and a head trained on it as HDAN is.

A row has a content u and a style v. The scores of its classes are y = A u + noise, on both domains, and its class is the one
of the highest score. With Gumbel noise the class then follows softmax(A u), so that F*(x) = A u is the ideal for the
cross-entropy on either domain, and, the noise being alike for every class, for the mean of |F - y| as well. On the source
the style repeats the content, louder, and a classifier leans on it; on the target it does so no more, and is shifted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from hda.alignments import EntropyConditionedAdversary
from hda.analysis.bound import Pair, Study, study
from hda.losses import cross_entropy, termination
from hda.nn import HeuristicHead

CONTENT, WIDTH, CLASSES, ROWS = 6, 64, 5, 2000
LOUD, SHIFT = 1.0, 1.0  # of the style
BATCH, RATE = 64, 0.01
MEASURED = (30, 100, 300, 1000)  # updates


@dataclass(frozen=True, eq=False)
class Domain:
    """One domain of the problem."""

    x: NDArray[np.float32]  # (rows, 2 content), what is seen: content and style
    ideal: NDArray[np.float64]  # (rows, classes), F*(x)
    scores: NDArray[np.float64]  # (rows, classes), y: the ideal with its noise

    @property
    def labels(self) -> NDArray[np.int64]:
        """(rows,) the class of the highest score."""
        labels: NDArray[np.int64] = self.scores.argmax(axis=1)
        return labels


def problem(seed: int = 0, rows: int = ROWS, *, fresh: bool = False) -> tuple[Domain, Domain]:
    """Source and target of that many rows each; fresh ones are other rows of the same problem."""
    random = np.random.default_rng(seed)
    weights = 1.2 * random.normal(size=(CONTENT, CLASSES))
    turn = np.linalg.qr(random.normal(size=(CONTENT, CONTENT)))[0]
    random = np.random.default_rng([seed, int(fresh)])
    found = []
    for source in (True, False):
        content = random.normal(size=(rows, CONTENT))
        repeated = content if source else random.normal(size=(rows, CONTENT))
        style = LOUD * repeated @ turn + (0.0 if source else SHIFT) + 0.5 * random.normal(size=(rows, CONTENT))
        ideal = content @ weights
        scores = ideal + random.gumbel(size=ideal.shape)
        found.append(Domain(np.hstack([content, style]).astype(np.float32), ideal, scores))
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a head trained on the problem came to."""

    updates: int
    study: Study
    target_accuracy: float  # percent, of G
    ideal_accuracy: float  # percent, of F*

    def as_dict(self) -> dict[str, Any]:
        accuracies = {"target_accuracy": self.target_accuracy, "ideal_accuracy": self.ideal_accuracy}
        return {"updates": self.updates} | self.study.as_dict() | accuracies


def known_ideal(seed: int = 0, *, heuristics: int = 3, measured: Sequence[int] = MEASURED) -> list[Outcome]:
    """Train features and a heuristic head on the problem, as HDAN is trained, and measure the theory on fresh rows.

    Args:
        seed: of the problem and of the training.
        heuristics: M.
        measured: after how many updates to measure, in order; the last is the end.
    """
    source, target = problem(seed, fresh=True)
    training = _training(*problem(seed), seed, heuristics, measured[-1])
    return [_outcome(done, net, head, source, target) for done, net, head in training if done in measured]


def _outcome(updates: int, net: nn.Module, head: HeuristicHead, source: Domain, target: Domain) -> Outcome:
    parts = [_scores(net, head, domain) for domain in (source, target)]
    f, h = Pair(parts[0][0], parts[1][0]), Pair(parts[0][1], parts[1][1])
    found = study(f, h, Pair(source.ideal, target.ideal), Pair(source.scores, target.scores))
    right = ((f.target - h.target).argmax(axis=1) == target.labels).mean()
    best = (target.ideal.argmax(axis=1) == target.labels).mean()
    return Outcome(updates, found, 100.0 * float(right), 100.0 * float(best))


def _training(
    source: Domain, target: Domain, seed: int, heuristics: int, steps: int
) -> Iterator[tuple[int, nn.Module, HeuristicHead]]:
    """The network after each update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(2 * CONTENT, WIDTH), nn.ReLU())
        head = HeuristicHead(WIDTH, CLASSES, heuristics)
        align = EntropyConditionedAdversary(CLASSES, domains=2, width=64, horizon=steps)
        modules = nn.ModuleList([net, head, align])
        optimiser = torch.optim.SGD(modules.parameters(), RATE, momentum=0.9, nesterov=True, weight_decay=1e-3)
        rows, labels = (torch.from_numpy(part) for part in (np.stack([source.x, target.x]), source.labels))
        domains = torch.tensor([1] * BATCH + [0] * BATCH)
        groups = (slice(0, BATCH), slice(BATCH, 2 * BATCH))
        for step in range(steps):
            drawn = torch.randint(len(labels), (2, BATCH))
            g, _, h = head(net(torch.cat([rows[0, drawn[0]], rows[1, drawn[1]]])))
            loss = cross_entropy(g[:BATCH], labels[drawn[0]]) + termination(h)
            loss = loss + align(g, domains, groups, torch.tensor(float(step)))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            yield step + 1, net, head


def _scores(net: nn.Module, head: HeuristicHead, domain: Domain) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """F and H of every row."""
    with torch.inference_mode():
        _, f, h = head(net(torch.from_numpy(domain.x)))
    return f.numpy(), h.numpy()
