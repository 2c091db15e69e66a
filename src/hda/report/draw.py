"""Figures for a page: each function gives the text of one inline `<svg>` or `<img>`, made with matplotlib."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hda.analysis.calibration import Reliability
from hda.analysis.curves import Band, Curve
from hda.analysis.embedding import Embedding
from hda.engine import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SOURCE, TARGET = "#3b6fd4", "#d1495b"  # the paper's blue and red
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")  # Okabe and Ito's
DASHES = ("-", "--", "-.", ":")
INK, FAINT, NOTHING = "#1d2430", "#5b6472", "#e4e7ec"
GAP = 2  # pixels between two samples
SAMPLE = 96  # edge of a sample at most
NAMED = 100  # classes whose names fit along an axis
LETTER, LINE = 0.088, 0.19  # inches of a letter, roughly, and of a line of text
LEGEND = 36  # letters of a name in a legend
PAGE = 11.0  # inches of a figure that a page can show without making its text smaller


class Drawing(str):
    """An inline `<svg>`, which can be written as a file of its own, too."""

    sheet: Figure

    def __new__(cls, text: str, sheet: Figure) -> Drawing:
        made = super().__new__(cls, text)
        made.sheet = sheet
        return made

    def write(self, path: Path) -> None:
        """As an SVG or a PNG file, whichever its name says; it gets its name when it is whole."""
        if path.suffix == ".svg":
            files.write_text(path, _STANDING + self.removeprefix("<svg") + "\n")
            return
        with _looks():
            how: dict[str, Any] = {"format": "png", "dpi": 150, "facecolor": "white", "metadata": {"Software": None}}
            files.write(path, lambda draft: self.sheet.savefig(draft, **how))


def stem(words: str) -> str:
    """Words as they may stand in the name of a file."""
    return re.sub(r"[^\w.+-]+", "-", _readable(words)).strip("-") or "figure"


def samples(pictures: NDArray[np.uint8], columns: int, *, title: str = "samples") -> str:
    """A grid of (n, height, width, 3) pictures, row by row."""
    from PIL import Image

    if not len(pictures):
        return _nothing(title, "no pictures")
    height, width = pictures.shape[1:3]
    shrink = min(1.0, SAMPLE / max(height, width))
    if shrink < 1.0:
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        small = [np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX)) for picture in pictures]
        pictures, (width, height) = np.stack(small), size
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, 3), 255, dtype=np.uint8)
    for index, picture in enumerate(pictures):
        top, left = index // columns * (height + GAP), index % columns * (width + GAP)
        sheet[top : top + height, left : left + width] = picture
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, format="png", optimize=True)
    enlarge = max(1, 440 // sheet.shape[1])
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    size_now = f'width="{enlarge * sheet.shape[1]}" height="{enlarge * sheet.shape[0]}"'
    looks = ' style="image-rendering: pixelated"' if shrink == 1.0 else ""
    return f'<img alt="{_escaped(title)}" {size_now}{looks} src="data:image/png;base64,{data}">'


def picture(pixels: NDArray[np.uint8], alt: str) -> str:
    """One (height, width, 3) picture as it is."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="png", optimize=True)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    height, width = pixels.shape[:2]
    return f'<img alt="{_escaped(alt)}" width="{width}" height="{height}" src="data:image/png;base64,{data}">'


def curves(
    lines: Mapping[str, Band | Curve],
    ylabel: str,
    *,
    title: str = "",
    xlabel: str = "iteration",
    colours: Mapping[str, str] | None = None,
    floor: float | None = None,
    size: tuple[float, float] = (5.8, 3.1),
) -> Drawing:
    """Lines over the steps, each with its deviation as a band around it.

    Args:
        lines: by name, in the order of the legend; those without a point are left out, and nobody gets their colours.
        ylabel: what is measured, with its unit.
        title: what the figure shows, for those who cannot see it.
        xlabel: what the steps count.
        colours: of some of the lines; the others have colours of their own.
        floor: where the upright axis begins, if not where the values do.
        size: in inches.
    """
    title = title or f"{ylabel} over {xlabel}s"
    drawn = {name: line for name, line in lines.items() if len(line.steps)}
    if not drawn:
        return _nothing(title, "not measured", size)
    with _sheet(*size) as sheet:
        axes = sheet.add_subplot()
        for index, (name, line) in enumerate(lines.items()):
            if name not in drawn:
                continue
            colour = (colours or {}).get(name, COLOURS[index % len(COLOURS)])
            _draw_line(axes, name, line, colour, DASHES[index % len(DASHES)])
        axes.margins(x=0.02)
        _count_on_x(axes)
        axes.set_xlabel(xlabel)
        axes.set_ylabel(_readable(ylabel))
        if floor is not None:
            highest = axes.dataLim.y1
            axes.set_ylim(floor, highest + 0.05 * (highest - floor) if highest > floor else None)
        if len(drawn) > 1:
            _legend(sheet, axes)
        return _svg(sheet, f"{title}. {_in_words(drawn)}")


def plane(
    embedding: Embedding,
    labels: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    classes: Sequence[str] = (),
    title: str = "features in the plane",
) -> Drawing:
    """Source blue, target red, as in the paper; with labels a second panel under it, coloured by class.

    Args:
        embedding: the points.
        labels: class numbers of all rows of the source's and of the target's features, -1 where there is none.
        classes: names of the classes, written where their source points are; their numbers if not given.
        title: what the figure shows, for those who cannot see it.
    """
    domains = (("source", embedding.source, SOURCE, "o"), ("target", embedding.target, TARGET, "^"))
    panels = 1 if labels is None else 2
    with _sheet(3.6, 3.4) if labels is None else _sheet(4.4, 8.2) as sheet:
        first, *second = sheet.subplots(panels, 1, squeeze=False)[:, 0]
        for name, points, colour, marker in domains:
            _draw_points(first, points, colour, marker, label=f"{name} ({len(points):,})")
        first.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2, markerscale=2)
        if labels is not None:
            of = (np.asarray(labels[0])[embedding.source_rows], np.asarray(labels[1])[embedding.target_rows])
            _draw_classes(second[0], embedding, of, classes)
        for axes in (first, *second):
            axes.set_xticks([])
            axes.set_yticks([])
            axes.margins(0.04)
            axes.spines[["top", "right"]].set_visible(True)
        counts = f"{len(embedding.source):,} source points in blue and {len(embedding.target):,} target points in red"
        return _svg(sheet, f"{title}: {counts}")


def confusion(matrix: ArrayLike, classes: Sequence[str], *, title: str = "confusion of the classes") -> Drawing:
    """Which class is taken for which: row the answer, column the prediction, each row in percent of its pictures."""
    with _sheet(*_confusion_size(classes)) as sheet:
        _draw_confusion(sheet, np.asarray(matrix), classes)
        return _svg(sheet, title, natural=len(classes) > 20)


def write_confusion(path: Path, matrix: ArrayLike, classes: Sequence[str]) -> None:
    """The same as a PNG file, which gets its name when it is whole."""
    with _sheet(*_confusion_size(classes)) as sheet:
        _draw_confusion(sheet, np.asarray(matrix), classes)
        files.write(path, lambda draft: sheet.savefig(draft, format="png", dpi=150, metadata={"Software": None}))


def bars(counts: Mapping[str, int], ylabel: str, *, title: str = "") -> Drawing:
    """One upright bar a class."""
    title = title or f"{ylabel}, by class"
    if not counts:
        return _nothing(title, "no classes")
    names, many = list(counts), len(counts)
    upright = _upright(names)
    width = min(max(3.4, 1.0 + (0.42 if many <= 20 else 0.13) * many), 20.0)
    with _sheet(width, 2.6 + (_reach(names) if upright else 0.3)) as sheet:
        axes = sheet.add_subplot()
        axes.bar(range(many), list(counts.values()), width=0.75, color=TARGET)
        _name_ticks(axes.xaxis, names, upright)
        axes.set_xlim(-0.7, many - 0.3)
        axes.set_ylabel(_readable(ylabel))
        axes.set_ylim(0, 1.05 * max(1, *counts.values()))
        axes.locator_params(axis="y", integer=True)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        return _svg(sheet, title, natural=many > 20)


def columns(
    groups: Mapping[str, Mapping[str, tuple[float, float]]],
    ylabel: str,
    *,
    title: str = "",
    floor: float | None = None,
    line: float | None = None,
    colours: Mapping[str, str] | None = None,
    size: tuple[float, float] = (4.7, 3.0),
) -> Drawing:
    """Groups of upright bars with their values on top.

    Args:
        groups: by group, by bar, the value and its deviation; a deviation of 0 is not drawn.
        ylabel: what is measured, with its unit.
        title: what the figure shows, for those who cannot see it.
        floor: where the upright axis begins, if not where the values do.
        line: a value to compare with, drawn across.
        colours: of some of the bars; the others have colours of their own.
        size: in inches.
    """
    bars = list(dict.fromkeys(name for group in groups.values() for name in group))
    words = "; ".join(
        f"{group}: {', '.join(f'{name} {value:.3g}' for name, (value, _) in found.items())}"
        for group, found in groups.items()
    )
    across = max(size[0], 1.0 + max(0.52 * sum(map(len, groups.values())), 1.15 * len(groups)))
    ticks = [_wrapped(name, (across - 1.0) / len(groups)) for name in groups]
    with _sheet(across, size[1] + LINE * max(tick.count("\n") for tick in ticks)) as sheet:
        axes = sheet.add_subplot()
        width = 0.8 / max(1, len(bars))
        for index, name in enumerate(bars):
            colour = (colours or {}).get(name, COLOURS[index % len(COLOURS)])
            for place, found in enumerate(groups.values()):
                if name in found:
                    at = place + (index - (len(bars) - 1) / 2) * width
                    _draw_column(axes, at, 0.9 * width, found[name], colour)
            axes.plot([], [], "s", color=colour, label=_label(name, LEGEND), markersize=8)
        if line is not None:
            axes.axhline(line, color=FAINT, linestyle=":", linewidth=1.2)
        axes.axhline(0, color=FAINT, linewidth=0.8)
        axes.set_xticks(range(len(groups)), ticks)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.margins(y=0.15)
        if floor is not None:
            axes.set_ylim(bottom=floor)
        axes.set_ylabel(_readable(ylabel))
        if len(bars) > 1:
            _legend(sheet, axes, handle=1.0)
        return _svg(sheet, f"{title or ylabel}. {words}", natural=across > PAGE)


def matrix(values: NDArray[np.floating], names: Sequence[str], *, title: str) -> Drawing:
    """A small square of numbers from -1 to 1, red below zero and blue above."""
    count = len(names)
    with _sheet(1.7 + 0.75 * count, 1.2 + 0.62 * count) as sheet:
        axes = sheet.add_subplot()
        drawn = axes.imshow(values, cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest")
        sheet.colorbar(drawn, ax=axes, pad=0.03).outline.set_visible(False)
        for (row, column), value in np.ndenumerate(values):
            shade = "white" if abs(value) > 0.6 else INK
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=shade)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(range(count), list(names))
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        pairs = [f"{names[i]} and {names[j]} {values[i, j]:.3f}" for i in range(count) for j in range(i)]
        return _svg(sheet, f"{title}. {'; '.join(pairs)}")


def reliability(lines: Mapping[str, Reliability], *, title: str, size: tuple[float, float] = (4.4, 3.9)) -> Drawing:
    """Accuracy over confidence, bin by bin: on the diagonal a model is as often right as it is sure."""
    with _sheet(*size) as sheet:
        axes = sheet.add_subplot()
        axes.plot([0, 100], [0, 100], ":", color=FAINT, linewidth=1.2)
        for index, (name, found) in enumerate(lines.items()):
            some = found.counts > 0
            marks = 12 + 160 * found.counts[some] / found.counts.sum()
            colour = COLOURS[index % len(COLOURS)]
            x, y = 100 * found.confidence[some], 100 * found.accuracy[some]
            axes.plot(x, y, DASHES[index % len(DASHES)], color=colour, label=_label(name, LEGEND), linewidth=1.4)
            axes.scatter(x, y, s=marks, color=colour, alpha=0.75, linewidths=0)
        axes.set_xlim(-3, 103)
        axes.set_ylim(-3, 103)
        axes.set_xlabel("confidence (%)")
        axes.set_ylabel("accuracy (%)")
        if len(lines) > 1:
            _legend(sheet, axes)
        words = "; ".join(f"{name}: expected calibration error {found.error:.1f} %" for name, found in lines.items())
        return _svg(sheet, f"{title}. {words}")


def differences(values: Mapping[str, float], xlabel: str, *, title: str) -> Drawing:
    """One lying bar a name, to the right where there is a gain and to the left where there is a loss."""
    names, many = list(values), len(values)
    size = 9.5 if many <= 20 else 7.0
    with _sheet(4.2, 0.9 + many * (0.24 if many <= 20 else 0.155)) as sheet:
        axes = sheet.add_subplot()
        found = np.array(list(values.values()))
        axes.barh(range(many), found, height=0.75, color=np.where(found < 0, COLOURS[1], COLOURS[0]).tolist())
        axes.axvline(0, color=FAINT, linewidth=0.8)
        axes.set_yticks(range(many), [_label(name) for name in names], fontsize=size)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(many - 0.4, -0.6)
        axes.set_xlabel(_readable(xlabel))
        ends = "; ".join(f"{name} {values[name]:+.1f}" for name in dict.fromkeys([*names[:3], *names[-3:]]))
        return _svg(sheet, f"{title}. {ends}", natural=many > 20)


def gallery(pictures: Sequence[NDArray[np.uint8]], captions: Sequence[str], *, title: str, across: int = 6) -> Drawing:
    """Pictures side by side, each with its caption under it."""
    if not len(pictures):
        return _nothing(title, "no such picture")
    across = min(across, len(pictures))
    down = -(-len(pictures) // across)
    deep = max(caption.count("\n") + 1 for caption in captions)
    with _sheet(1.25 * across, (1.2 + 0.16 * deep) * down) as sheet:
        places = list(sheet.subplots(down, across, squeeze=False).flat)
        for axes in places:
            axes.set_axis_off()
        for axes, picture, caption in zip(places, pictures, captions, strict=False):
            axes.set_axis_on()
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            axes.imshow(picture)
            axes.set_xlabel(_readable(caption), fontsize=7.5, labelpad=2)
        return _svg(sheet, title)


# Drawing.


def _draw_line(axes: Axes, name: str, line: Band | Curve, colour: str, dashes: str) -> None:
    middle = line.mean if isinstance(line, Band) else line.values
    marker = "o" if len(line.steps) <= 12 else None
    axes.plot(line.steps, middle, dashes, color=colour, label=_label(name, LEGEND), marker=marker)
    if isinstance(line, Band) and line.deviation.any():
        low, high = middle - line.deviation, middle + line.deviation
        axes.fill_between(line.steps, low, high, color=colour, alpha=0.18, linewidth=0)


def _legend(sheet: Figure, axes: Axes, handle: float = 2.2) -> None:
    """The names above the axes, in as many rows as it takes; for more than one the sheet grows."""
    handles, names = axes.get_legend_handles_labels()
    width, height = sheet.get_size_inches()
    across = max(1, int((width - 0.2) / (LETTER * max(map(len, names)) + 0.145 * (handle + 2.8))))
    rows = math.ceil(len(names) / across)
    sheet.set_size_inches(width, height + LINE * (rows - 1))
    how: dict[str, Any] = {"ncols": math.ceil(len(names) / rows), "handlelength": handle, "labelspacing": 0.3}
    sheet.legend(handles, names, loc="outside upper right", borderaxespad=0.2, **how)


def _wrapped(name: str, width: float) -> str:
    """A name in lines of that many inches, broken after spaces and commas and before arrows."""
    lines = [""]
    for part in re.split(r"(?<=[ ,])|(?=->)", _label(name, 72)):
        if lines[-1] and LETTER * len((lines[-1] + part).strip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines)


def _draw_column(axes: Axes, at: float, width: float, found: tuple[float, float], colour: str) -> None:
    value, deviation = found
    axes.bar(at, value, width, color=colour, yerr=deviation or None, capsize=3, ecolor=INK)
    top = value + deviation if value >= 0 else value - deviation
    offset, side = (3, "bottom") if value >= 0 else (-3, "top")
    size = abs(value)
    said = f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.2g}"
    axes.annotate(said, (at, top), (0, offset), textcoords="offset points", ha="center", va=side, fontsize=9)


def _draw_points(axes: Axes, points: NDArray[np.floating], colour: Any, marker: str, label: str = "") -> None:
    """Small marks; very many of them as pixels."""
    pixels = len(points) > 3000
    how: dict[str, Any] = {"markersize": 3.2, "markeredgewidth": 0, "alpha": 0.55, "rasterized": pixels}
    axes.plot(points[:, 0], points[:, 1], marker, color=colour, label=label, **how)


def _draw_classes(
    axes: Axes, embedding: Embedding, labels: tuple[NDArray[Any], NDArray[Any]], classes: Sequence[str]
) -> None:
    """Points coloured by class, and the names of the classes at the middles of their source points."""
    import matplotlib

    numbers = [int(number) for number in np.unique(np.concatenate(labels)) if number >= 0]
    colours = matplotlib.colormaps["tab10" if len(numbers) <= 10 else "nipy_spectral"]
    middles = []
    for index, number in enumerate(numbers):
        share = index if len(numbers) <= 10 else index / len(numbers)
        for points, of, marker in ((embedding.source, labels[0], "o"), (embedding.target, labels[1], "^")):
            _draw_points(axes, points[of == number], colours(share), marker)
        own = embedding.source[labels[0] == number]
        if len(own):
            middles.append((np.median(own, axis=0), classes[number] if classes else str(number)))
    for (x, y), name in middles:
        size = 12 if len(numbers) <= 20 else 7
        ground = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
        axes.text(x, y, _label(name), size=size, weight="bold", ha="center", va="center", bbox=ground)
    axes.set_title("the same points, coloured by class", fontsize=10.5)


def _confusion_size(classes: Sequence[str]) -> tuple[float, float]:
    edge, names = _cell(len(classes)) * len(classes), _reach(classes) + 0.5
    return edge + names + 0.9, edge + (names if _upright(classes) else 0.7)


def _cell(classes: int) -> float:
    """The edge of one cell in inches."""
    if classes <= 20:
        return max(0.42, 2.4 / classes)
    return 0.13 if classes <= NAMED else max(0.03, 13.0 / classes)


def _reach(names: Sequence[str]) -> float:
    """How long the longest name is in inches, roughly."""
    return max(len(_label(name)) for name in names) * 0.62 * _point(names) / 72


def _point(names: Sequence[str]) -> float:
    return 9.5 if len(names) <= 20 else 7.0


def _upright(names: Sequence[str]) -> bool:
    """Whether names under an axis stand upright, for want of room to lie."""
    return len(names) > 20 or _reach(names) > 0.9 * _cell(len(names))


def _draw_confusion(sheet: Figure, matrix: NDArray[Any], classes: Sequence[str]) -> None:
    import matplotlib
    from matplotlib.colors import PowerNorm

    totals = matrix.sum(axis=1, keepdims=True)
    share = np.ma.masked_array(100.0 * matrix / np.maximum(totals, 1), mask=np.broadcast_to(totals == 0, matrix.shape))
    colours = matplotlib.colormaps["Blues"].with_extremes(bad=NOTHING)
    axes = sheet.add_subplot()
    drawn = axes.imshow(share, cmap=colours, norm=PowerNorm(0.5, 0, 100), interpolation="nearest")  # few per cent show
    bar = sheet.colorbar(
        drawn, ax=axes, shrink=min(1.0, 2.6 / (_cell(len(classes)) * len(classes))), aspect=16, pad=0.02
    )
    bar.outline.set_visible(False)
    bar.set_ticks([0, 5, 20, 50, 100])
    bar.set_label("% of the row")
    _name_ticks(axes.xaxis, classes, upright=_upright(classes))
    _name_ticks(axes.yaxis, classes)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    if len(classes) <= 20:
        for (row, column), value in np.ndenumerate(share.filled(0.0)):
            if value >= 0.5:
                colour = "white" if value > 30 else INK
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=8.5)


def _name_ticks(axis: Axis, names: Sequence[str], upright: bool = False) -> None:
    """Every name at its tick, or, of very many, some."""
    kept = range(0, len(names), max(1, math.ceil(len(names) / NAMED)))
    labels = [_label(names[index]) for index in kept]
    axis.set_ticks(list(kept), labels, fontsize=_point(names), rotation=90 if upright else 0)


def _count_on_x(axes: Axes) -> None:
    low, high = axes.dataLim.intervalx
    if high - low < 2:  # else the axis would count fractions of an iteration
        axes.set_xlim(low - 1, high + 1)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _label(name: str, longest: int = 24) -> str:
    whole = _readable(name)
    return whole if len(whole) <= longest else whole[: longest - 1] + "…"


def _in_words(lines: Mapping[str, Band | Curve]) -> str:
    """What the lines come to, for those who cannot see them."""
    ends = []
    for name, line in lines.items():
        values = line.mean if isinstance(line, Band) else line.values
        ends.append(f"{name}: from {values[0]:.4g} at {line.steps[0]:,} to {values[-1]:.4g} at {line.steps[-1]:,}")
    return "; ".join(ends)


# From a figure to HTML.

_LOOKS = {
    "figure.constrained_layout.use": True,
    "font.size": 10.5,  # points, of which the page shows one as 4/3 pixels: 14
    "text.color": INK,
    "text.parse_math": False,  # names of classes may have dollar signs
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "axes.axisbelow": True,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "hda",  # the same figure is the same text
}


_STANDING = (  # how an inline drawing begins where it is a file of its own
    '<svg xmlns="http://www.w3.org/2000/svg" font-family="system-ui, \'DejaVu Sans\', sans-serif" stroke-linejoin="round"'
)


@contextmanager
def _sheet(width: float, height: float) -> Iterator[Figure]:
    """An empty figure, drawn and saved in the page's looks whatever the user's own are."""
    from matplotlib.figure import Figure

    with _looks():
        yield Figure(figsize=(width, height))


@contextmanager
def _looks() -> Iterator[None]:
    import matplotlib.style

    with matplotlib.style.context(["default", _LOOKS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")  # the browser has more fonts
        yield


def _nothing(title: str, why: str, size: tuple[float, float] = (3.4, 1.2)) -> Drawing:
    with _sheet(*size) as sheet:
        sheet.text(0.5, 0.5, why, ha="center", va="center", color=FAINT)
        return _svg(sheet, f"{title}: {why}")


def _svg(sheet: Figure, title: str, natural: bool = False) -> Drawing:
    """A figure as `<svg>` that can stand in a page with others: no prologue, no addresses, identifiers of its own.

    Args:
        sheet: the figure.
        title: its text for those who cannot see it.
        natural: keep the size rather than follow the width of the window.
    """
    buffer = io.StringIO()
    sheet.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawing = buffer.getvalue()
    body = drawing[drawing.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", body, flags=re.DOTALL)
    body = body[body.index(">") + 1 :].replace("xlink:href", "href")
    body = re.sub(r"font-family: [^;\"]*; ?", "", body)  # the page's goes for figures too
    used = set(re.findall(r"(?:url\(|href=\")#([^)\"]+)", body))
    mark = hashlib.sha256((title + body).encode("utf-8", "replace")).hexdigest()[:8]
    body = re.sub(r" id=\"([^\"]+)\"", lambda m: f' id="{mark}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r"(url\(|href=\")#([^)\"]+)", rf"\1#{mark}-\2", body)
    width, height = sheet.get_size_inches()
    box = f'viewBox="0 0 {72 * width:g} {72 * height:g}" width="{96 * width:.0f}" height="{96 * height:.0f}"'
    # In a column that is wider than the figure its text would else be larger than the page's.
    followed = f"min-width: {96 * min(width, 3.2):.0f}px; max-width: min(100%, {110 * width:.0f}px)"
    least = "max-width: none" if natural else followed
    return Drawing(f'<svg role="img" {box} style="{least}">\n<title>{_escaped(title)}</title>{body.rstrip()}', sheet)


def _readable(words: str) -> str:
    return words.encode("utf-8", "replace").decode("utf-8")  # names of files may hold bytes that are no text


def _escaped(words: str) -> str:
    return html.escape(_readable(words))
