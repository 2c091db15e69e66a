"""The paper's figures, and some more, of one run or many: drawn, told in a sentence, with the numbers behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hda.analysis import calibration, changes, curves, domains, heuristics
from hda.analysis.curves import Curve, mean_deviation
from hda.analysis.embedding import tsne
from hda.report import draw
from hda.report.draw import Drawing
from hda.report.subject import Subject, sentence

NEAR = 0.1  # cosines up to here count as near 0
FAST = 0.5  # what has lost this share of its beginning has fallen fast
ROUNDING = 1e-5  # watched figures below are rounding of single precision alone
PANELS = 4  # runs whose features are drawn in the plane
EXAMPLES = 12  # pictures of a kind
SIDE = (4.2, 2.9)  # inches of a figure that stands beside another
Groups = Mapping[str, Sequence[Subject]]


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures with a caption each; the word tells it from the figure's other drawings."""

    word: str
    title: str
    pictures: tuple[NDArray[np.uint8], ...]
    captions: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Figure:
    """One figure: drawings by a word that tells them apart; without any, the sentence says why there is none."""

    name: str
    title: str
    sentence: str
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    numbers: Any = None
    galleries: tuple[Gallery, ...] = ()

    def files(self) -> dict[str, Drawing]:
        """Drawings by the names that their files get."""
        drawn = dict(self.drawings) | {
            gallery.word: draw.gallery(gallery.pictures, gallery.captions, title=gallery.title)
            for gallery in self.galleries
            if gallery.pictures
        }
        stems = {word: f"{self.name}-{draw.stem(word)}" if len(drawn) > 1 else self.name for word in drawn}
        return {stems[word]: drawing for word, drawing in drawn.items()}


def figures(subjects: Sequence[Subject]) -> list[Figure]:
    """Every figure there is of these runs, in the order of the paper."""
    groups = grouped(subjects)
    return [make(groups) for make in EVERY]


def grouped(subjects: Iterable[Subject]) -> dict[str, list[Subject]]:
    """Runs that differ in their seed alone, together."""
    groups: dict[str, list[Subject]] = {}
    for subject in subjects:
        groups.setdefault(subject.label, []).append(subject)
    return groups


def domain_accuracy(groups: Groups) -> Figure:
    """A classifier of the domain on G, and one on H: the paper finds more of the domain in H."""
    name, title = "domain-accuracy", "Domain accuracy on G and on H"
    seen, why = _with_heuristics(groups)
    if not seen:
        return Figure(name, title, why)
    read: dict[str, Callable[[Any], Any]] = {"G": lambda part: part.g, "H": lambda part: part.heuristic}
    bars, failed = _told_apart(seen, read)
    if not bars:
        return Figure(name, title, failed)
    sentences = []
    for label, found in bars.items():
        g, h = found["G"][0], found["H"][0]
        verdict = "higher on H, as in the paper" if h > g else "not higher on H, other than in the paper"
        sentences.append(f"{label}: {g:.1f} % on G and {h:.1f} % on H, {verdict}.")
    lead = "How often a linear classifier tells the domain, on pictures it was not trained on; guessing gives 50 %."
    told = " ".join([lead, *sentences])
    drawing = draw.columns(bars, "domain accuracy (%)", title=title, floor=0, line=50, size=SIDE)
    return Figure(name, title, told, {"": drawing}, _plain(bars))


def proxy_distance(groups: Groups) -> Figure:
    """The proxy A-distance between the domains in features, F, G and H."""
    name, title = "proxy-distance", "Proxy A-distance on features, F, G and H"
    seen, why = _seen(groups)
    if not seen:
        return Figure(name, title, why)
    read: dict[str, Callable[[Any], Any]] = {
        "features": lambda part: part.features,
        "F": lambda part: part.f,
        "G": lambda part: part.g,
        "H": lambda part: None if part.h is None else part.heuristic,
    }
    bars, failed = _told_apart(seen, read, domains.proxy_distance)
    if not bars:
        return Figure(name, title, failed)
    without = [label for label, found in bars.items() if "H" not in found]
    note = f" {_listed(without)}: without heuristics, so G alone stands beside the features." if without else ""
    told = f"2 (1 - 2 error) of a linear classifier of the domain: 2 where domains are told apart, 0 by guessing.{note}"
    drawing = draw.columns(bars, "proxy A-distance", title=title, size=SIDE)
    return Figure(name, title, told, {"": drawing}, _plain(bars))


def heuristic_sizes(groups: Groups) -> Figure:
    """Mean |H^k|: each heuristic keeps to a range of its own."""
    name, title = "heuristic-size", "Mean |H\u1d4f|"
    seen, why = _with_heuristics(groups)
    if not seen:
        return Figure(name, title, why)
    drawings, numbers, how = _each_heuristic(seen, "mean |H\u1d4f|", lambda found: heuristics.sizes(found.h), floor=0)
    ends = [f"{label}: {', '.join(f'{v:.3g}' for v in numbers[label]['end'])}" for label in numbers]
    return Figure(
        name, title, f"{how} At the end, one heuristic after the other: {'; '.join(ends)}.", drawings, numbers
    )


def cosine_to_g(groups: Groups) -> Figure:
    """cos(G, H^k): near 0 in the paper."""
    name, title = "cosine-g-h", "cos(G, H\u1d4f)"
    seen, why = _with_heuristics(groups)
    if not seen:
        return Figure(name, title, why)
    measure = lambda found: heuristics.to_transferable(found.g, found.h)  # noqa: E731 - a name for what is measured
    drawings, numbers, how = _each_heuristic(seen, "cos(G, H\u1d4f)", measure)
    told = []
    for label, found in numbers.items():
        far = max(found["end"], key=abs)
        verdict = "near 0, as in the paper" if abs(far) <= NEAR else "not near 0, other than in the paper"
        told.append(f"{label}: the one farthest from 0 is {far:.3f} at the end, {verdict} (near is within {NEAR}).")
    return Figure(name, title, f"{how} {' '.join(told)}", drawings, numbers)


def cosine_between(groups: Groups) -> Figure:
    """cos(H^k, H^k'): at most 0 in the paper."""
    name, title = "cosine-h-h", "cos(H\u1d4f, H\u1d4f')"
    seen, why = _with_heuristics(groups)
    several = {label: found for label, found in seen.items() if _domains(found[0]).heuristics > 1}
    if not several:
        return Figure(name, title, why or "There is a single heuristic, so none to compare it with.")
    drawings, numbers, told = {}, {}, []
    for label, subjects in several.items():
        square = np.mean([heuristics.to_each_other(_domains(subject).h) for subject in subjects], axis=0)
        names = [f"H{_sup(k)}" for k in range(len(square))]
        drawings[label] = draw.matrix(square, names, title=f"{title} of {label}")
        numbers[label] = square.tolist()
        largest = float(square[np.triu_indices(len(square), 1)].max())
        verdict = "at most 0, as in the paper" if largest <= 0 else "above 0, other than in the paper"
        told.append(f"{label}: the largest between two heuristics is {largest:.3f}, {verdict}.")
    return Figure(name, title, f"Mean over pictures of both domains, at the end. {' '.join(told)}", drawings, numbers)


def similarity(groups: Groups) -> Figure:
    """The watched cosine along training."""
    return _watched(
        groups,
        "similarity",
        "Cosine similarity along training",
        {"similarity": "mean |cos(G, H)|"},
        {"similarity": ("it falls fast from 1, where G = -H", FAST)},
    )


def non_gaussianity(groups: Groups) -> Figure:
    """The watched gaps of kurtosis along training."""
    names = {"independence": "gap between G and F", "independence_heuristic": "gap between G and H"}
    claims = {"independence_heuristic": ("it grows smaller and smaller", 0.0)}
    lead = "Gaps of kurtosis, which stands for non-Gaussianity."
    return _watched(groups, "non-gaussianity", "Non-Gaussianity along training", names, claims, lead)


def plane(groups: Groups) -> Figure:
    """t-SNE of the features, source blue and target red."""
    name, title = "tsne", "t-SNE of the features"
    seen, why = _seen(groups)
    if not seen:
        return Figure(name, title, why)
    drawings = {}
    for label, subjects in list(seen.items())[:PANELS]:
        found = _domains(subjects[0])
        embedding = tsne(found.source.features, found.target.features, limit=400)
        drawings[label] = draw.plane(embedding, title=f"t-SNE of the features of {label}")
    more = f" Of {len(seen)} kinds of runs the first {PANELS} are shown." if len(seen) > PANELS else ""
    told = f"Source blue, target red; of several seeds the first. Distances between clusters mean little.{more}"
    return Figure(name, title, told, drawings)


def classes(groups: Groups) -> Figure:
    """Gains and losses of each class against source-only, with examples."""
    name, title = "classes", "Gains and losses by class"
    pairs, why = _pairs(groups)
    if not pairs:
        return Figure(name, title, why)
    drawings, numbers, told = {}, {}, []
    galleries: list[Gallery] = []
    for before, after in pairs:
        names, labels = after.run.classes, after.labels
        assert labels is not None
        found = changes.changes(_predicted(before), _predicted(after), labels, len(names))
        order = [int(row) for row in np.argsort(-found.gains, kind="stable") if np.isfinite(found.gains[row])]
        if len(order) > 80:
            order = [*order[:30], *order[-30:]]
        gains = {names[row]: float(found.gains[row]) for row in order}
        key = after.label
        drawings[key] = draw.differences(
            gains, f"points over {before.label}", title=f"{title}: {key} over {before.label}"
        )
        numbers[key] = {"over": before.label, "gains": gains, "won": len(found.won), "lost": len(found.lost)}
        told.append(
            f"{key} (seed {after.seed}) over {before.label} (seed {before.seed}): {len(found.won):,} pictures newly right, "
            f"{len(found.lost):,} newly wrong; {sum(g > 0 for g in gains.values())} classes gain, "
            f"{sum(g < 0 for g in gains.values())} lose."
        )
        if len(galleries) < 2:
            galleries += [
                _changed(after, before, found.won, "right", f"Right with {key}, wrong with {before.label}"),
                _changed(after, before, found.lost, "wrong", f"Wrong with {key}, right with {before.label}"),
            ]
    return Figure(name, title, " ".join(told), drawings, numbers, tuple(galleries))


def mistakes(groups: Groups) -> Figure:
    """Wrong predictions, the surest first."""
    name, title = "mistakes", "Mistakes that a model is surest of"
    known = [subject for found in groups.values() for subject in found[:1] if subject.labels is not None]
    if not known:
        return Figure(name, title, _reasons(groups, "unanswered"))
    subject = next((s for s in known if s.method != "source-only"), known[0])
    labels = subject.labels
    assert labels is not None
    rows = changes.mistaken(_predicted(subject), labels)
    pictures, captions = _examples(
        subject,
        rows,
        lambda row: f"{_class(subject, labels[row])}\ntaken for {_class(subject, _predicted(subject).classes[row])}",
    )
    many = int((labels >= 0).sum())
    wrong = f"{len(rows):,} of {many:,} pictures are wrong"
    told = f"{subject.label}, seed {subject.seed}: {wrong}, the surest {len(pictures)} shown."
    gallery = Gallery("", f"Mistakes of {subject.label}", pictures, captions)
    return Figure(name, title, told, {}, {"label": subject.label, "wrong": len(rows), "of": many}, (gallery,))


def most_moved(groups: Groups) -> Figure:
    """Pictures whose predicted class is another one than before; needs no labels."""
    name, title = "moved", "Pictures that moved most"
    pairs, why = _pairs(groups, answered=False)
    if not pairs:
        return Figure(name, title, why)
    told, galleries, numbers = [], [], {}
    for before, after in pairs[:2]:
        rows = changes.moved(_predicted(before), _predicted(after))
        share = 100.0 * len(rows) / len(after.names)
        gallery = _changed(after, before, rows, after.label, f"Moved from {before.label} to {after.label}")
        told.append(
            f"{after.label} and {before.label} disagree on {len(rows):,} pictures ({share:.1f} %); shown are those that "
            "both are surest of."
        )
        galleries.append(gallery)
        numbers[after.label] = {"from": before.label, "moved": len(rows), "percent": share}
    return Figure(name, title, " ".join(told), {}, numbers, tuple(galleries))


def confidence(groups: Groups) -> Figure:
    """Reliability of the predictions' confidences, and the expected calibration error."""
    name, title = "calibration", "Confidence calibration"
    found, numbers, told = {}, {}, []
    for label, subjects in groups.items():
        known = [subject for subject in subjects if subject.labels is not None]
        rows = [subject.labels >= 0 for subject in known if subject.labels is not None]
        if not known or not any(row.any() for row in rows):
            continue
        sure = np.concatenate([_predicted(s).confidence[row] for s, row in zip(known, rows, strict=True)])
        right = np.concatenate([(_predicted(s).classes == s.labels)[row] for s, row in zip(known, rows, strict=True)])
        of = found[label] = calibration.reliability(sure, right)
        side = "too sure" if of.surplus > 0 else "too little sure"
        told.append(f"{label}: expected calibration error {of.error:.1f} %, {side} by {abs(of.surplus):.1f} points.")
        numbers[label] = {"error": of.error, "surplus": of.surplus, "counts": of.counts.tolist()}
    if not found:
        return Figure(name, title, _reasons(groups, "unanswered"))
    lead = "Accuracy on the target over confidence, in 15 bins; dots are as large as their bins are full."
    return Figure(name, title, f"{lead} {' '.join(told)}", {"": draw.reliability(found, title=title)}, numbers)


EVERY: tuple[Callable[[Groups], Figure], ...] = (
    domain_accuracy,
    heuristic_sizes,
    cosine_to_g,
    cosine_between,
    similarity,
    non_gaussianity,
    plane,
    proxy_distance,
    classes,
    confidence,
    mistakes,
    most_moved,
)


# Which runs a figure can be drawn of.


def _seen(groups: Groups) -> tuple[dict[str, list[Subject]], str]:
    seen = {label: [s for s in found if s.domains is not None] for label, found in groups.items()}
    return {label: found for label, found in seen.items() if found}, _reasons(groups, "unseen")


def _with_heuristics(groups: Groups) -> tuple[dict[str, list[Subject]], str]:
    seen, why = _seen(groups)
    having = {label: found for label, found in seen.items() if _domains(found[0]).heuristics}
    if seen and not having:
        why = f"No heuristics to show: {_listed(seen)} {'has' if len(seen) == 1 else 'have'} no heuristic head."
    return having, why


def _pairs(groups: Groups, answered: bool = True) -> tuple[list[tuple[Subject, Subject]], str]:
    """A baseline's run and another one on the same pictures, of each kind of runs: source-only if it is there."""
    every = [subject for found in groups.values() for subject in found]
    if len(groups) < 2:
        return [], "There is nothing to compare with: give a run of source-only on the same pictures as well."
    usable = [s for s in every if s.predicted is not None and (not answered or s.labels is not None)]
    if not usable:
        return [], _reasons(groups, "unanswered") if answered else "No run is finished, so there are no predictions."
    pairs = []
    for label in groups:
        of = [subject for subject in usable if subject.label == label]
        for after in of[:1]:
            alike = [s for s in usable if s.label != label and s.names == after.names]
            alike.sort(key=lambda s: (s.method != "source-only", s.seed != after.seed))
            before = alike[0] if alike else None
            if before and (before.method == "source-only" or before is usable[0]) and after.method != "source-only":
                pairs.append((before, after))
    return pairs, "No two of these runs can be compared: they have not predicted the same pictures."


def _reasons(groups: Groups, what: str) -> str:
    """Why something is not there, for each reason once."""
    said = dict.fromkeys(getattr(subject, what) for found in groups.values() for subject in found)
    return " ".join(sentence(words) for words in said if words)


# What several figures share.


def _told_apart(
    groups: Groups, read: Mapping[str, Callable[[Any], Any]], scale: Callable[[float], float] = float
) -> tuple[dict[str, dict[str, tuple[float, float]]], str]:
    """How well the domains are told apart by each representation, mean and deviation over seeds."""
    bars: dict[str, dict[str, tuple[float, float]]] = {}
    for label, subjects in groups.items():
        for what, of in read.items():
            pairs = [tuple(of(part) for part in _domains(subject)) for subject in subjects]
            if any(part is None for pair in pairs for part in pair):
                continue
            try:
                values = [scale(domains.domain_accuracy(*pair)) for pair in pairs]
            except ValueError as error:
                return {}, f"Too few pictures: {error}."
            bars.setdefault(label, {})[what] = mean_deviation(values)
    return bars, ""


def _each_heuristic(
    groups: Groups, ylabel: str, measure: Callable[[Any], NDArray[np.float64]], floor: float | None = None
) -> tuple[dict[str, Drawing], dict[str, Any], str]:
    """A line for each heuristic over the checkpoints kept; bars of the end where there are fewer than two."""
    drawings: dict[str, Drawing] = {}
    numbers: dict[str, Any] = {}
    ends: dict[str, dict[str, tuple[float, float]]] = {}
    for label, subjects in groups.items():
        last = np.stack([measure(_domains(subject)) for subject in subjects])
        names = [f"H{_sup(k)}" for k in range(last.shape[1])]
        numbers[label] = {"end": last.mean(axis=0).tolist()}
        steps = sorted(set.intersection(*(set(subject.along) for subject in subjects)))
        if len(steps) < 2:
            ends[label] = {name: mean_deviation(last[:, k]) for k, name in enumerate(names)}
            continue
        values = np.array([[measure(subject.along[step]) for step in steps] for subject in subjects])
        numbers[label] |= {"steps": steps, "values": values.mean(axis=0).tolist()}
        at = np.array(steps)
        lines = {n: curves.band([Curve(at, run[:, k]) for run in values]) for k, n in enumerate(names)}
        drawings[label] = draw.curves(lines, ylabel, title=f"{ylabel} of {label}", floor=floor, size=SIDE)
    if ends:
        drawings["at the end"] = draw.columns(ends, ylabel, title=f"{ylabel} at the end", size=SIDE)
    over = "Mean over pictures of both domains" + (", at the checkpoints kept." if len(drawings) > bool(ends) else ".")
    return (
        drawings,
        numbers,
        over + (" Curves need a run begun with --keep-checkpoints: bars are the end." if ends else ""),
    )


def _watched(
    groups: Groups,
    name: str,
    title: str,
    names: Mapping[str, str],
    claims: Mapping[str, tuple[str, float]],
    lead: str = "",
) -> Figure:
    """What the runs have noted of themselves while training.

    Of some the paper says that they fall: `claims` has its words, and the share of the beginning that is to be lost for
    them to hold.
    """
    drawings, told = {}, []
    numbers: dict[str, Any] = {}
    for key, ylabel in names.items():
        lines = {}
        for label, subjects in groups.items():
            line = lines[label] = curves.of_runs([subject.run.records for subject in subjects], key)
            if len(line.steps):
                numbers.setdefault(key, {})[label] = {"steps": line.steps.tolist(), "mean": line.mean.tolist()}
                if line.mean.max() < ROUNDING:  # over three classes or fewer, kurtosis is the same for every row
                    told.append(f"{label}, {ylabel}: zero throughout, up to rounding, which says nothing.")
                    continue
                said, least = claims.get(key, ("", 0.0))
                verdict = f", {_fallen(line, least)} ({said})" if said else ""
                told.append(f"{label}, {ylabel}: {_course(line)}{verdict}.")
        if any(len(line.steps) for line in lines.values()):
            drawings[ylabel] = draw.curves(lines, ylabel, floor=0, size=SIDE)
    if not drawings:
        which = _listed(groups)
        return Figure(
            name, title, f"Nothing to show: {which} {'has' if len(groups) == 1 else 'have'} no heuristic head."
        )
    return Figure(name, title, " ".join(filter(None, [lead, *told])), drawings, numbers)


def _course(line: curves.Band) -> str:
    """How a quantity went: its two ends, and where it was highest if that was neither."""
    first, last, top = line.mean[0], line.mean[-1], int(line.mean.argmax())
    over = f" over {line.mean[top]:.3g} at iteration {line.steps[top]:,}" if line.mean[top] > max(first, last) else ""
    return f"from {first:.3g}{over} to {last:.3g}"


def _fallen(line: curves.Band, least: float) -> str:
    """Whether a quantity has lost that share of its beginning, as the paper says."""
    first, last = line.mean[0], line.mean[-1]
    if last >= first:
        return "not smaller, other than in the paper"
    if last > (1 - least) * first:
        return f"smaller, but by less than {least:.0%}, other than in the paper"
    return "as in the paper"


def _changed(after: Subject, before: Subject, rows: NDArray[np.int64], word: str, title: str) -> Gallery:
    def caption(row: int) -> str:
        was, now = (_class(after, _predicted(subject).classes[row]) for subject in (before, after))
        return f"{was}\n\u2192 {now}"

    return Gallery(word, title, *_examples(after, rows, caption))


def _examples(
    subject: Subject, rows: NDArray[np.int64], caption: Callable[[int], str]
) -> tuple[tuple[NDArray[np.uint8], ...], tuple[str, ...]]:
    found = [
        (picture, caption(row)) for row in rows[:EXAMPLES].tolist() if (picture := subject.picture(row)) is not None
    ]
    return tuple(picture for picture, _ in found), tuple(words for _, words in found)


def _predicted(subject: Subject) -> changes.Predicted:
    assert subject.predicted is not None
    return subject.predicted


def _domains(subject: Subject) -> Any:
    assert subject.domains is not None
    return subject.domains


def _class(subject: Subject, number: int) -> str:
    name: str = subject.run.classes[number]
    return name


def _sup(k: int) -> str:
    return "".join("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[int(digit)] for digit in str(k + 1))


def _plain(bars: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, Any]:
    return {
        label: {name: {"mean": mean, "std": deviation} for name, (mean, deviation) in found.items()}
        for label, found in bars.items()
    }


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
