"""The demo's page: what source-only and HDAN make of handwritten digits, after learning from typed ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hda.analysis import curves
from hda.analysis.curves import Band, mean_deviation
from hda.analysis.embedding import Embedding
from hda.report import draw, page

if TYPE_CHECKING:
    from hda.engine.run import Run

PLAIN, HDAN = "source-only", "HDAN"
COLOURS = {PLAIN: "#d98a00", HDAN: "#6a4fb3"}
HALF, THIRD = (4.7, 2.9), (3.4, 2.7)  # inches of a figure that stands beside one other, beside two others


@dataclass(frozen=True)
class DemoFigures:
    """What the demo came to: target accuracies after the last iteration in percent, one a seed."""

    seeds: tuple[int, ...]
    source_only: tuple[float, ...]
    hdan: tuple[float, ...]

    @classmethod
    def of(cls, source_only: Sequence[Run], hdan: Sequence[Run]) -> DemoFigures:
        """The figures of finished and evaluated runs, seed by seed.

        Raises:
            ValueError: the two methods were not run with the same seeds, or a run has no accuracy.
        """
        of = [{_seed(run): _accuracy(run) for run in runs} for runs in (source_only, hdan)]
        seeds = tuple(sorted(of[0]))
        if not seeds or seeds != tuple(sorted(of[1])) or len(seeds) != len(source_only) or len(seeds) != len(hdan):
            raise ValueError("both methods are run once with each seed")
        return cls(seeds, tuple(of[0][seed] for seed in seeds), tuple(of[1][seed] for seed in seeds))

    @property
    def gain(self) -> float:
        """Points between the two means as they are shown, so that the subtraction agrees for who repeats it."""
        return round(mean_deviation(self.hdan)[0], 1) - round(mean_deviation(self.source_only)[0], 1)

    @property
    def headline(self) -> str:
        plain, hdan = mean_deviation(self.source_only)[0], mean_deviation(self.hdan)[0]
        gain = f"{self.gain:+.1f}".replace("-", "\u2212")
        seeds = f"mean of {len(self.seeds)} seeds" if len(self.seeds) > 1 else "one seed"
        return f"HDAN reads {hdan:.1f} % of handwritten digits, source-only {plain:.1f} %: {gain} points, {seeds}"

    @property
    def rows(self) -> list[list[str]]:
        """Method, mean, deviation, and the accuracy of each seed; then the difference, seed by seed."""
        gains = tuple(b - a for a, b in zip(self.source_only, self.hdan, strict=True))
        return [_row(PLAIN, self.source_only), _row(HDAN, self.hdan), _row("difference", gains, "{:+.1f}")]


def demo_page(
    *,
    source_only: Sequence[Run],
    hdan: Sequence[Run],
    source_pictures: NDArray[np.uint8],
    target_pictures: NDArray[np.uint8],
    planes: Mapping[str, Embedding],
    plane_labels: tuple[ArrayLike, ArrayLike] | None = None,
    seconds: float,
    settings: Mapping[str, Any],
    facts: Mapping[str, str],
) -> str:
    """The whole page as HTML.

    Args:
        source_only: finished runs, one a seed.
        hdan: finished runs with the same seeds.
        source_pictures: some pictures of the source, (n, height, width, 3).
        target_pictures: some of the target, likewise.
        planes: by method, the features of both domains in the plane.
        plane_labels: class numbers of all rows of the features of source and target, to colour the planes by class too.
        seconds: what the demo took altogether.
        settings: what both methods were run with.
        facts: versions, the device and whatever else there is to say, by name.
    """
    figures = DemoFigures.of(source_only, hdan)
    images = hdan[0].description["images"]
    last = _last(hdan)
    made = page.Page(
        figures.headline,
        f"Both methods learn to read from {images['source']:,} typed digits with their labels. HDAN also sees the "
        f"{images['target']:,} handwritten ones, without labels. The handwritten digits are what both are measured on.",
    )
    made.add(
        "Result",
        page.table(("method", "mean", "deviation", *(f"seed {seed}" for seed in figures.seeds)), figures.rows),
        page.paragraph(
            f"Percent of the handwritten digits read rightly after the last iteration ({last:,}), not at the best one.",
            "The deviation is the sample standard deviation over the seeds."
            if len(figures.seeds) > 1
            else "One seed has no deviation.",
        ),
    )
    made.add(
        "The pictures",
        page.beside(
            page.figure(
                draw.samples(source_pictures, 8, title="typed digits"),
                "Source: typed digits, drawn in the fonts that come with matplotlib, at random sizes and slants.",
            ),
            page.figure(
                draw.samples(target_pictures, 8, title="handwritten digits"),
                "Target: handwritten digits, those that come with scikit-learn.",
            ),
        ),
    )
    made.add(
        "Accuracy",
        page.figure(
            _compare(source_only, hdan, "target_accuracy", "target accuracy (%)", size=(6.6, 3.3)),
            f"Accuracy on the handwritten digits while training. {_over(figures.seeds)} "
            f"The result is the right end, iteration {last:,}.",
        ),
    )
    made.add("Losses", page.beside(*_losses(source_only, hdan)), page.paragraph(_over(figures.seeds)))
    made.add(
        "The three constraints",
        page.paragraph(
            "HDAN's answer is G = F \u2212 H: what the fundament F says of a picture, less what the heuristics H say. "
            "Three constraints keep G and H apart."
        ),
        page.beside(*_constraints(hdan)),
    )
    made.add("The features", *_planes(planes, plane_labels))
    made.add(
        "What was run",
        page.beside(page.settings_table(settings.items()), page.table(("fact", "value"), _facts(facts, seconds))),
    )
    made.add(
        "How to read the numbers",
        page.paragraph(
            "Every accuracy in the table is that of the last iteration. No iteration, seed or setting was picked by "
            "its accuracy on the target.",
            "The labels of the handwritten digits are used to measure alone: nothing is trained or tuned on them.",
        ),
    )
    return made.html()


def _facts(facts: Mapping[str, str], seconds: float) -> list[tuple[str, str]]:
    return [*((name, page.local(fact)) for name, fact in facts.items()), ("time altogether", page.duration(seconds))]


def _losses(source_only: Sequence[Run], hdan: Sequence[Run]) -> list[str]:
    classification = _compare(source_only, hdan, "classification", "classification loss", floor=0.0, size=HALF)
    transfer = _alone(hdan, "transfer", "transfer loss", size=HALF)
    return [
        page.figure(classification, "Classification: cross-entropy on the typed digits, with their labels."),
        page.figure(
            transfer,
            "Transfer: how well a discriminator tells typed from handwritten by HDAN's answers. The features are "
            "trained against it, so it need not fall.",
        ),
    ]


def _constraints(hdan: Sequence[Run]) -> list[str]:
    similarity, independence = _shared(hdan, "similarity"), _shared(hdan, "independence")
    measure = "heuristic" if any("heuristic" in record for record in hdan[0].records) else "termination"
    termination = _shared(hdan, measure)
    ylabel = "mean |H|" if measure == "heuristic" else "termination loss"
    return [
        page.figure(
            _alone(hdan, "similarity", "mean |cos(G, H)|", floor=0.0, size=THIRD),
            "Similarity: at the start F is near zero, so G = \u2212H and |cos(G, H)| is 1; training is to part "
            f"the two.{_ends(similarity)}",
        ),
        page.figure(
            _alone(hdan, "independence", "gap of kurtosis", floor=0.0, size=THIRD),
            "Independence: the gap between the non-Gaussianity (kurtosis) of the transferable G and of the fundament "
            f"F; a small gap stands for G and H being independent.{_ends(independence)}",
        ),
        page.figure(
            _alone(hdan, measure, ylabel, floor=0.0, size=THIRD),
            "Termination: the heuristics are penalised for their size and should shrink toward zero, as they do in a "
            f"heuristic search that nears its goal.{_ends(termination)}",
        ),
    ]


def _planes(planes: Mapping[str, Embedding], labels: tuple[ArrayLike, ArrayLike] | None) -> list[str]:
    drawn = [
        page.figure(draw.plane(embedding, labels, title=f"t-SNE of the features of {name}"), f"{name}.")
        for name, embedding in planes.items()
    ]
    note = (
        "The features before the classifier, in the plane by t-SNE: source blue, target red. Where a method has "
        "aligned the two, both colours share their clusters. Distances between clusters mean little in such a picture."
    )
    if labels is not None:
        note += " The panels by class show the true classes, which no training saw for the target."
    return [page.beside(*drawn), page.paragraph(note)]


# Curves of several runs.


def _shared(runs: Sequence[Run], name: str) -> Band:
    return curves.band([curves.read(run.records, name) for run in runs])


def _compare(source_only: Sequence[Run], hdan: Sequence[Run], name: str, ylabel: str, **how: Any) -> str:
    lines = {HDAN: _shared(hdan, name), PLAIN: _shared(source_only, name)}
    return draw.curves(lines, ylabel, colours=COLOURS, **how)


def _alone(hdan: Sequence[Run], name: str, ylabel: str, **how: Any) -> str:
    return draw.curves({HDAN: _shared(hdan, name)}, ylabel, colours=COLOURS, **how)


def _ends(band: Band) -> str:
    """What was measured first and last, in a sentence."""
    if not len(band.steps):
        return ""
    first, last = band.mean[0], band.mean[-1]
    return f" Measured: {first:.3g} at iteration {band.steps[0]:,}, {last:.3g} at iteration {band.steps[-1]:,}."


def _over(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return "One seed."
    return f"Lines are means over {len(seeds)} seeds, bands their standard deviation."


# What a run says of itself.


def _last(runs: Sequence[Run]) -> int:
    return int((runs[0].result or {})["steps"])


def _seed(run: Run) -> int:
    return int(run.description["settings"]["fit"]["seed"])


def _accuracy(run: Run) -> float:
    accuracy = (run.result or {}).get("target_accuracy")
    if accuracy is None:
        raise ValueError(f"{run.path.name} has no target accuracy: finish it, with the answers to measure on")
    return float(accuracy)


def _row(name: str, values: Sequence[float], how: str = "{:.1f}") -> list[str]:
    mean, deviation = mean_deviation(values)
    return [name, how.format(mean), f"{deviation:.1f}" if len(values) > 1 else "\u2013", *map(how.format, values)]
