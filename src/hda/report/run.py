"""The page of one run, from what its folder holds."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hda.analysis import curves
from hda.report import draw, page, provenance
from hda.report.runs import add_figures

if TYPE_CHECKING:
    from hda.engine.evaluate import Evaluation
    from hda.engine.run import Run
    from hda.report.figures import Figure

SMALL = (3.4, 2.5)  # inches of a figure that stands beside others
DOUBTFUL = 10  # least confident pictures to name
SETTINGS = {"uda": "one source (UDA)", "msda": "several sources (MSDA)", "ssda": "a few target labels (SSDA)"}
CONSTRAINTS = {
    "similarity": "Similarity, mean |cos(G, H)|: 1 where G = \u2212H, as HDAN starts.",
    "independence": "Independence: the gap of kurtosis between the transferable G and the fundament F.",
    "independence_heuristic": "Independence: the gap of kurtosis between the transferable G and the heuristics H.",
    "heuristic": "Heuristics, mean |H|: to shrink toward zero.",
    "termination": "Termination: the weighted penalty on the size of the heuristics, part of the loss.",
}
MEASURES = {
    "total": "The total: the sum of the weighted losses.",
    "classification": "Classification: cross-entropy on the pictures with labels.",
    "transfer": "Transfer: what aligns source and target. An adversarial loss need not fall.",
    "lr": "The learning rate.",
}
APART = ("step", "event", "lr", "seconds", "images_per_second", "target_accuracy", "mean_class_accuracy", "selected")


def run_page(
    run: Run,
    *,
    evaluation: Evaluation | None = None,
    source_pictures: NDArray[np.uint8] | None = None,
    target_pictures: NDArray[np.uint8] | None = None,
    figures: Sequence[Figure] = (),
) -> str:
    """The page as HTML.

    Args:
        run: finished or not.
        evaluation: of its predictions, if it was made apart from the run.
        source_pictures: some pictures of the source, (n, height, width, 3).
        target_pictures: some of the target, likewise.
        figures: what `hda.report.figures` has drawn of it.
    """
    made = page.Page(_headline(run, evaluation), _lead(run))
    made.add("Result", *_result(run, evaluation))
    if source_pictures is not None or target_pictures is not None:
        made.add("The pictures", page.beside(*_pictures(source_pictures, target_pictures)))
    records = run.records
    accuracy = {
        name: curves.read(records, key)
        for name, key in (("of all pictures", "target_accuracy"), ("mean of the classes", "mean_class_accuracy"))
    }
    if any(map(len, accuracy.values())):
        caption = "Accuracy on the target while training. It was measured alone: training never sees target labels."
        made.add("Target accuracy", page.figure(draw.curves(accuracy, "accuracy (%)", size=(6.6, 3.3)), caption))
    made.add("Losses and other measures", *_losses(records))
    constraints = [
        page.figure(_curve(records, name), sentence)
        for name, sentence in CONSTRAINTS.items()
        if _measured(records, name)
    ]
    if constraints:
        made.add("Constraints on the heuristics", page.beside(*constraints))
    if evaluation is not None:
        made.add("Confusion", *_confusion(evaluation, run.classes))
    predictions = _predictions(run)
    if predictions:
        made.add("Predictions", *_predicted(predictions, run.classes))
    add_figures(made, figures)
    made.add("Settings", page.folded("All settings", page.settings_table(_settings(run))))
    made.add(
        "Where the figures come from",
        page.table(("fact", "value"), provenance.facts(run)),
        page.paragraph("The command that begins such a run:"),
        page.code(provenance.command(run)),
    )
    return made.html()


def _headline(run: Run, evaluation: Evaluation | None) -> str:
    """What came of the run, in one sentence."""
    result, task = run.result, run.description["task"]
    name = run.settings.method_class.name
    if result is None:
        return f"{name} on {task} is not finished"
    if result["target_accuracy"] is not None:
        return f"{name} comes to {_percent(result['target_accuracy'])} on {task}"
    if evaluation is not None:
        return f"{name} on {task} comes to {_percent(evaluation.accuracy)} where it was evaluated"
    return f"{name} has learned {task}, whose accuracy is not known"


def _lead(run: Run) -> str:
    description = run.description
    setting = SETTINGS.get(description["setting"], description["setting"])
    method, backbone = description["settings"]["fit"]["method"], description["backbone"]["name"]
    images = description["images"]
    few = f" and {images['labelled']:,} of the target" if images.get("labelled") else ""
    return (
        f"Method {method} with {setting} on the backbone {backbone}. Pictures with labels: {images['source']:,} of the "
        f"source{few}. Without labels: {images['target']:,} of the target. Classes: {len(run.classes)}."
    )


def _result(run: Run, evaluation: Evaluation | None) -> list[str]:
    result = run.result
    if result is None:
        done = max((record["step"] for record in run.records), default=0)
        steps = run.description["settings"]["fit"].get("steps")
        of = f" of {steps:,}" if steps else ""
        return [page.paragraph(f"The run is not finished: {done:,}{of} iterations are recorded so far.")]
    rows: list[tuple[str, str]] = []
    if result["target_accuracy"] is not None:
        rows.append(("target accuracy", _percent(result["target_accuracy"])))
        rows.append(("mean of the classes' accuracies", _percent(result["mean_class_accuracy"])))
    if evaluation is not None:
        rows.append((f"accuracy on {evaluation.images:,} pictures, evaluated apart", _percent(evaluation.accuracy)))
        rows.append(("mean of the classes' accuracies there", _percent(evaluation.mean_class_accuracy)))
    rows.append(("iterations", f"{result['steps']:,}"))
    parts = [page.table(("", "value"), rows)]
    if result["target_accuracy"] is None and evaluation is None:
        parts.append(page.paragraph("The target has no known labels here, so its accuracy was not measured."))
    else:
        parts.append(page.paragraph("Accuracy is that of the last iteration, not of the best one along the way."))
    return parts


def _pictures(source: NDArray[np.uint8] | None, target: NDArray[np.uint8] | None) -> list[str]:
    given = (("Source", source), ("Target", target))
    return [
        page.figure(draw.samples(pictures, 8, title=f"{name.lower()} pictures"), f"{name}.")
        for name, pictures in given
        if pictures is not None
    ]


def _losses(records: list[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for record in records:
        names |= dict.fromkeys(name for name, value in record.items() if _is_number(value))
    known = (*APART, *CONSTRAINTS)
    shown = sorted((name for name in names if name not in known), key=lambda name: name.split(".")[-1] != "total")
    if not shown:
        return [page.paragraph("No line of metrics is written yet.")]
    window = _window(records, shown[0])
    how = f"Curves are moving averages over {window} lines of metrics." if window > 1 else ""
    shown += ["lr"] if _measured(records, "lr") else []
    figures = [page.figure(_curve(records, name), MEASURES.get(name, "")) for name in shown]
    return [page.beside(*figures), *([page.paragraph(how)] if how else [])]


def _curve(records: list[dict[str, Any]], name: str) -> str:
    curve = curves.smooth(curves.read(records, name), 1 if name == "lr" else _window(records, name))
    colour = draw.COLOURS[2] if name == "lr" else draw.COLOURS[0]
    return draw.curves(
        {name: curve}, "learning rate" if name == "lr" else _plainly(name), colours={name: colour}, size=SMALL
    )


def _window(records: list[dict[str, Any]], name: str) -> int:
    """An odd number of lines, about a fortieth of all."""
    return len(curves.read(records, name)) // 40 // 2 * 2 + 1


def _measured(records: list[dict[str, Any]], name: str) -> bool:
    return any(_is_number(record.get(name)) for record in records)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plainly(name: str) -> str:
    return name.replace("_", " ").replace(".", ": ")


def _confusion(evaluation: Evaluation, classes: tuple[str, ...]) -> list[str]:
    drawn = draw.confusion(evaluation.confusion, classes, title="confusion of the target's classes")
    caption = "Row: the true class. Column: the predicted one. In percent of the row; grey rows have no picture."
    right = evaluation.per_class
    lowest = [int(index) for index in np.argsort(right, kind="stable") if np.isfinite(right[index])][:5]
    rows = [
        (classes[index], f"{right[index]:.1f}", _mistaken(evaluation.confusion, index, classes)) for index in lowest
    ]
    header = ("lowest classes", "accuracy (%)", "most often taken for")
    return [page.figure(drawn, caption), page.table(header, rows)]


def _mistaken(confusion: NDArray[Any], row: int, classes: tuple[str, ...]) -> str:
    others = confusion[row].copy()
    others[row] = 0
    return f"{classes[int(others.argmax())]} ({int(others.max()):,})" if others.any() else "none"


def _predictions(run: Run) -> list[tuple[str, str, float]]:
    """Path, class and confidence of every target picture; none of a run that is not finished."""
    path = run.path / "predictions.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as lines:
        return [(row["path"], row["class"], float(row["confidence"])) for row in csv.DictReader(lines)]


def _predicted(predictions: list[tuple[str, str, float]], classes: tuple[str, ...]) -> list[str]:
    counts = dict.fromkeys(classes, 0)
    for _, label, _ in predictions:
        counts[label] = counts.get(label, 0) + 1
    never = [name for name, count in counts.items() if not count]
    note = f"How often each class is predicted for the {len(predictions):,} pictures of the target."
    if never:
        note += f" Never predicted: {', '.join(never[:10])}{f' and {len(never) - 10} more' if len(never) > 10 else ''}."
    least = sorted(predictions, key=lambda prediction: prediction[2])[:DOUBTFUL]
    rows = [(page.local(path), label, f"{100 * confidence:.1f}") for path, label, confidence in least]
    return [
        page.figure(draw.bars(counts, "target pictures", title="predicted classes of the target"), note),
        page.paragraph("The pictures that the model is least sure of:"),
        page.table(("picture", "predicted class", "confidence (%)"), rows),
    ]


def _settings(run: Run) -> list[tuple[str, Any]]:
    settings = run.description["settings"]
    return [(name, value) for part in ("fit", "method", "recipe") for name, value in settings.get(part, {}).items()]


def _percent(value: float) -> str:
    return f"{value:.1f} %"
