"""The page of several runs, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hda.analysis import curves
from hda.analysis.curves import mean_deviation
from hda.report import draw, page, provenance
from hda.report.figures import Figure, grouped
from hda.report.subject import FREE, Subject, sentence, whole_task

CURVES = {
    "target_accuracy": ("Accuracy on the target", "accuracy (%)"),
    "classification": ("Classification: cross-entropy on the pictures with labels", "loss"),
    "transfer": ("Transfer: what aligns source and target; it need not fall", "loss"),
}
PICTURES = ("mistakes", "moved")
TASKS = 4  # that a headline has room for


def runs_page(subjects: Sequence[Subject], figures: Sequence[Figure]) -> str:
    """The page as HTML.

    Args:
        subjects: the runs, in the order to show them.
        figures: what `hda.report.figures` has drawn of them.
    """
    groups = grouped(subjects)
    made = page.Page(headline(groups), _lead(groups))
    made.add("Result", *_result(groups))
    made.add("Along training", page.beside(*_along(groups)))
    add_figures(made, figures)
    made.add("Settings", *_settings(groups))
    made.add("Where the figures come from", *_provenance(subjects))
    return made.html()


def headline(groups: Mapping[str, Sequence[Subject]]) -> str:
    """What came of the runs, in one sentence."""
    means = {label: mean for label, found in groups.items() if (mean := _mean(found)) is not None}
    tasks = list(dict.fromkeys(whole_task(found[0].run) for found in groups.values()))
    where = f" on {tasks[0]}" if len(tasks) == 1 else ""
    if not means:
        kinds = "1 kind" if len(groups) == 1 else f"{len(groups)} kinds"
        return f"{kinds} of runs{where}, of which no accuracy is known"
    best = max(means, key=lambda label: means[label])
    if len(means) == 1:
        return f"{best} comes to {means[best]:.1f} %{where}"
    if len(tasks) > 1:  # whose accuracies say nothing of each other
        return _by_task(groups, means, tasks)
    plain = [label for label, found in groups.items() if label in means and found[0].method == "source-only"]
    other = plain[0] if plain and plain[0] != best else max((m for m in means if m != best), key=lambda m: means[m])
    points = round(means[best], 1) - round(means[other], 1)
    return f"{best} comes to {means[best]:.1f} %{where}, {points:.1f} points above {other} ({means[other]:.1f} %)"


def _by_task(groups: Mapping[str, Sequence[Subject]], means: Mapping[str, float], tasks: Sequence[str]) -> str:
    """The best of each task, whose label names it."""
    of = {task: [label for label in means if whole_task(groups[label][0].run) == task] for task in tasks}
    best = [max(labels, key=lambda label: means[label]) for labels in of.values() if labels]
    first, *rest = (f"{label} comes to {means[label]:.1f} %" for label in best[:TASKS])
    more = [f"{_count(len(best) - TASKS, 'more task')} below"] if len(best) > TASKS else []
    return "; ".join([first, *rest, *more])


def add_figures(made: page.Page, figures: Sequence[Figure]) -> None:
    """Sections with the figures and with the pictures; what is not drawn is told in a sentence."""
    drawn = [figure for figure in figures if figure.drawings]
    if drawn:
        made.add("Figures", *(_figure(figure) for figure in drawn))
    shown = [figure for figure in figures if figure.name in PICTURES and any(g.pictures for g in figure.galleries)]
    if shown:
        made.add("Mistakes and moves", *(page.part(figure.title, *_galleries(figure)) for figure in shown))
    reasons: dict[str, list[str]] = {}
    for figure in figures:
        if figure not in drawn and figure not in shown:
            reasons.setdefault(figure.sentence, []).append(figure.title)
    if reasons:
        made.add("Not drawn", page.listed(f"{'; '.join(titles)}. {why}" for why, titles in reasons.items()))


def _figure(figure: Figure) -> str:
    several = len(figure.drawings) > 1
    drawn = [page.figure(drawing, word if several else "") for word, drawing in figure.drawings.items()]
    shown = page.beside(*drawn) if several else drawn[0]
    return page.part(figure.title, page.paragraph(figure.sentence), shown, *_shown(figure))


def _galleries(figure: Figure) -> list[str]:
    return [page.paragraph(figure.sentence), *_shown(figure)]


def _shown(figure: Figure) -> list[str]:
    return [page.gallery(gallery.pictures, gallery.captions, gallery.title) for gallery in figure.galleries]


def _lead(groups: Mapping[str, Sequence[Subject]]) -> str:
    runs = sum(map(len, groups.values()))
    counts = ", ".join(f"{label} with {_count(len(found), 'seed')}" for label, found in groups.items())
    return (
        f"{_count(runs, 'run')}: {counts}. Accuracy is that of the last iteration, not of the best one along the way."
    )


def _result(groups: Mapping[str, Sequence[Subject]]) -> list[str]:
    rows = []
    for label, found in groups.items():
        values = [value for subject in found if (value := _accuracy(subject)) is not None]
        mean, deviation = mean_deviation(values) if values else (None, None)
        seconds = [float((subject.run.result or {}).get("seconds", 0)) for subject in found if subject.run.result]
        rows.append(
            (
                label,
                "\u2013" if mean is None else f"{mean:.1f}",
                f"{deviation:.1f}" if len(values) > 1 else "\u2013",
                str(len(found)),
                page.duration(sum(seconds) / len(seconds)) if seconds else "not finished",
            )
        )
    parts = [page.table(("run", "target accuracy %", "deviation", "seeds", "time of one"), rows)]
    without = sorted(
        {subject.unanswered for found in groups.values() for subject in found if _accuracy(subject) is None}
    )
    return [*parts, *(page.paragraph(sentence(words)) for words in without if words)]


def _along(groups: Mapping[str, Sequence[Subject]]) -> list[str]:
    figures = []
    for name, (caption, ylabel) in CURVES.items():
        lines = {}
        for label, found in groups.items():
            lines[label] = curves.of_runs([subject.run.records for subject in found], name)
        if any(len(line.steps) for line in lines.values()):
            bands = " Bands are the deviation over seeds." if any(b.deviation.any() for b in lines.values()) else ""
            drawing = draw.curves(lines, ylabel, title=caption, size=(3.6, 2.7))
            figures.append(page.figure(drawing, f"{caption}.{bands}"))
    return figures or [page.paragraph("No line of metrics is written yet.")]


def _settings(groups: Mapping[str, Sequence[Subject]]) -> list[str]:
    """Those that differ, side by side; then, folded, those that all share."""
    of = {label: found[0].run.settings.flat() for label, found in groups.items()}
    names = list(dict.fromkeys(name for flat in of.values() for name in flat))
    differ = [
        name for name in names if name not in FREE and len({repr(flat.get(name, ...)) for flat in of.values()}) > 1
    ]
    parts = []
    if differ:
        rows = [
            (name, *(page.shown(flat[name]) if name in flat else "\u2013" for flat in of.values())) for name in differ
        ]
        parts.append(page.table(("setting that differs", *of), rows))
    shared = {name: next(flat[name] for flat in of.values() if name in flat) for name in names if name not in differ}
    return [*parts, page.folded("Settings that all share", page.settings_table(shared.items()))]


def _provenance(subjects: Sequence[Subject]) -> list[str]:
    facts = [dict(provenance.facts(subject.run)) for subject in subjects]
    names = list(dict.fromkeys(name for found in facts for name in found))
    rows: list[Sequence[Any]] = [
        (subject.label, *(found.get(name, "\u2013") for name in names))
        for subject, found in zip(subjects, facts, strict=True)
    ]
    commands = [page.code(provenance.command(subject.run)) for subject in subjects]
    return [page.table(("run", *names), rows), page.folded("The commands that begin such runs", *commands)]


def _mean(found: Sequence[Subject]) -> float | None:
    values = [value for subject in found if (value := _accuracy(subject)) is not None]
    return mean_deviation(values)[0] if values else None


def _accuracy(subject: Subject) -> float | None:
    accuracy = (subject.run.result or {}).get("target_accuracy")
    return None if accuracy is None else float(accuracy)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
