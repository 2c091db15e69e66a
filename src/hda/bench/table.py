"""Tables drawn from result rows: mean and deviation over seeds, the paper's figures beside ours, and what to make of it."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hda.bench import rows as result
from hda.bench.paper import Line, PaperTable, paper_table
from hda.bench.rows import Row
from hda.cli.text import table as plain_table
from hda.errors import UserError, unknown

FORMATS = ("text", "markdown", "latex", "csv")
AVERAGE = "mean"
# Settings that have a note of their own, and those that decide no figure.
TOLD = {"backbone", "weights", "steps", "precision", "device", "graph", "compile", "resident", "log_every"}
TOLD |= {"evaluate_every", "checkpoint_every", "select", "keep_checkpoints"}
PAPERS_WEIGHTS = "the paper began with torchvision's first ImageNet weights"


@dataclass(frozen=True)
class Cell:
    """What a method came to on a task: one accuracy a seed, in percent, and what the paper prints."""

    accuracies: Mapping[int, float] = field(default_factory=dict)
    paper: float | None = None
    paper_deviation: float | None = None  # of which table 3 alone has one

    @property
    def mean(self) -> float | None:
        return float(np.mean(list(self.accuracies.values()))) if self.accuracies else None

    @property
    def deviation(self) -> float | None:
        """Over the seeds, of the sample; None for a single one."""
        values = list(self.accuracies.values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True)
class Comparison:
    """A paired test of a method against a baseline, over the tasks and seeds that both have."""

    method: str
    baseline: str
    pairs: int
    difference: float
    low: float  # of the 95 % interval of the mean difference
    high: float
    p: float

    def sentence(self) -> str:
        if self.pairs < 2:
            return f"{self.method} against {self.baseline}: {self.difference:+.1f} points on a single pair, which is no test"
        told = f"{self.method} against {self.baseline}: {self.difference:+.1f} points"
        return f"{told} (95 % interval {self.low:+.1f} to {self.high:+.1f}, paired t-test p = {self.p:.2g}, {self.pairs} pairs)"


@dataclass(frozen=True)
class Table:
    """A drawn table: lines times columns, with its notes."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)  # lines by what else they may be called

    def average(self, line: str) -> tuple[float | None, float | None]:
        """Mean over the columns of ours and of the paper's cells; None where a column lacks."""
        cells = [self.cells.get((line, column), Cell()) for column in self.columns]
        ours, papers = [cell.mean for cell in cells], [cell.paper for cell in cells]
        return _mean(ours), _mean(papers)

    def best(self, column: str) -> set[str]:
        """The lines whose figure, as it is printed, is the column's highest."""
        shown = {line: self._ours(line, column) for line in self.lines}
        known = {line: round(value, 1) for line, value in shown.items() if value is not None}
        return {line for line, value in known.items() if value == max(known.values())} if len(known) > 1 else set()

    def draw(self, kind: str) -> str:
        """The table as "text", "markdown", "latex" or "csv".

        Raises:
            UserError: there is no such format.
        """
        if kind not in FORMATS:
            raise unknown("format", kind, FORMATS)
        drawn: str = {"text": self.text, "markdown": self.markdown, "latex": self.latex, "csv": self.csv}[kind]()
        return drawn

    def as_dict(self) -> dict[str, Any]:
        """The table as plain data."""
        cells = [
            {"method": line, "task": at, "mean": cell.mean, "deviation": cell.deviation, "paper": cell.paper}
            | {"accuracies": {str(seed): value for seed, value in cell.accuracies.items()}}
            for (line, at), cell in self.cells.items()
            if cell.accuracies
        ]
        tests = [dataclasses.asdict(test) for test in self.comparisons]
        finite = [
            {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in t.items()} for t in tests
        ]
        return {"title": self.title, "cells": cells, "comparisons": finite, "notes": list(self.notes)}

    def text(self) -> str:
        header = ["", *self.columns, AVERAGE]
        body = [[line, *(self._cell(line, column) for column in header[1:])] for line in self.lines]
        starred = any(self.best(at) for at in header[1:])
        legend = ["", "* the best of its column"] if starred else []
        return "\n".join([self.title, "", plain_table(header, body), *legend, *self._remarks("")])

    def markdown(self) -> str:
        header = ["", *self.columns, AVERAGE]
        lines = [_markdown(header), "|---" * len(header) + "|"]
        for line in self.lines:
            lines.append(_markdown([line, *(self._cell(line, column, "**{}**") for column in header[1:])]))
        return "\n".join([f"**{self.title}**", "", *lines, *self._remarks("- ")])

    def latex(self) -> str:
        header = ["", *self.columns, AVERAGE]
        lines = [r"\begin{tabular}{l" + "c" * (len(header) - 1) + "}", r"\toprule"]
        lines += [" & ".join(map(_latex, header)) + r" \\", r"\midrule"]
        for line in self.lines:
            cells = [_latex(self._cell(line, column, "\0{}\1")) for column in header[1:]]
            lines.append(" & ".join([_latex(line), *cells]) + r" \\")
        bold = [line.replace("\0", r"\textbf{").replace("\1", "}") for line in lines]
        remarks = [f"% {remark}" for remark in (self.title, *self._remarks("")) if remark]
        return "\n".join([*remarks, *bold, r"\bottomrule", r"\end{tabular}"])

    def csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["method", "task", "mean", "deviation", "seeds", "paper", "paper_deviation", "difference"])
        for line in self.lines:
            for column in self.columns:
                cell = self.cells.get((line, column), Cell())
                if cell.mean is None and cell.paper is None:
                    continue
                away = None if cell.mean is None or cell.paper is None else cell.mean - cell.paper
                figures = [*map(_rounded, (cell.mean, cell.deviation, len(cell.accuracies), cell.paper))]
                writer.writerow([line, column, *figures, cell.paper_deviation, _rounded(away)])
        return text.getvalue().rstrip("\n")

    def _ours(self, line: str, column: str) -> float | None:
        if column == AVERAGE:
            return self.average(line)[0]
        return self.cells.get((line, column), Cell()).mean

    def _cell(self, line: str, column: str, bold: str = "{}*") -> str:
        """Ours with its deviation, then in brackets the paper's and the difference."""
        if column == AVERAGE:
            ours, paper = self.average(line)
            spread = printed = None
        else:
            cell = self.cells.get((line, column), Cell())
            ours, paper, spread, printed = cell.mean, cell.paper, cell.deviation, cell.paper_deviation
        if ours is None:
            return "-" if paper is None else f"- ({_spread(paper, printed, 2)})"
        shown = _spread(ours, spread)
        if line in self.best(column):
            shown = bold.format(shown)
        return shown if paper is None else f"{shown} ({_spread(paper, printed, 2)}, {ours - paper:+.1f})"

    def _remarks(self, bullet: str) -> list[str]:
        remarks = [comparison.sentence() for comparison in self.comparisons] + list(self.notes)
        return ["", *(bullet + remark for remark in remarks)] if remarks else []


def draw(found: Sequence[Row], *, name: str | None = None, baseline: str | None = None) -> Table:
    """The table of result rows.

    Args:
        found: the rows; of several of the same run the last counts.
        name: "table1" to "table4": the paper's lines and columns, its figures beside ours; None takes what there is.
        baseline: the line that every other is tested against: as it is printed, or as the command line calls its method.

    Raises:
        UserError: no row fits, or the baseline is not there.
    """
    rows = result.newest(found)
    made = _papers(rows, paper_table(name)) if name else _free(rows)
    if not any(cell.accuracies for cell in made.cells.values()):
        raise UserError(
            f"no row belongs to {name or 'any table'}: give other files, or run `hda bench {name or 'table1'}`"
        )
    return dataclasses.replace(made, comparisons=_tests(made, baseline)) if baseline else made


def label(row: Row) -> str:
    """What a line is called that the paper does not name."""
    method, variant = result.key(row)
    return f"{method} ({variant})" if variant else method


def column(row: Row) -> str:
    """What a column is called that the paper does not name."""
    shots = row.get("shots")
    return f"{row['task']} {shots}-shot" if shots else str(row["task"])


def _free(rows: Sequence[Row]) -> Table:
    """The table of whatever rows there are, in the order they came."""
    lines, columns = (tuple(dict.fromkeys(of(row) for row in rows)) for of in (label, column))
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        cells.setdefault((label(row), column(row)), {})[row["seed"]] = row["accuracy"]
    drawn = {place: Cell(accuracies) for place, accuracies in cells.items()}
    title = "Accuracies (%) of the target after the last step, mean and deviation over seeds"
    called = {" ".join(filter(None, result.key(row))): label(row) for row in rows}
    return Table(title, columns, lines, drawn, notes=(*_uneven(rows), *_shared(rows, label, column)), called=called)


def _papers(rows: Sequence[Row], table: PaperTable) -> Table:
    """The paper's table, with our figures where there are rows; columns that no row has are left out."""
    place = {}
    for one in table.columns:
        place[_task(one.task.partition(":")[2]), one.shots] = one.label
    lines = {(line.method, line.variant): line for line in table.lines}
    chosen: list[tuple[Line, str, Row]] = []
    for row in rows:
        line = lines.get(result.key(row))
        at = place.get((_task(row["task"]), row.get("shots")))
        if table.setting == "msda":
            at = at or place.get(("*->" + _task(row["task"]).rpartition("->")[2], row.get("shots")))
        if line is not None and at is not None and row["setting"] == table.setting:
            chosen.append((line, at, row))
    there = {at for _, at, _ in chosen}
    ours = [row for _, _, row in chosen]
    columns = tuple(one.label for one in table.columns if one.label in there)
    cells = {}
    for line in table.lines:
        for at in columns:
            own = {row["seed"]: row["accuracy"] for one, where, row in chosen if one is line and where == at}
            cells[line.label, at] = Cell(own, table.printed(line, at), table.printed_deviation(line, at))
    notes = [
        *_not_comparable(ours, table),
        *_other_settings(chosen),
        *_shared(ours, label, column),
        *_slips(table, columns),
    ]
    called = {" ".join(filter(None, (line.method, line.variant))): line.label for line in table.lines}
    title = f"{table.title}: ours after the last step, in brackets the paper's and the difference"
    return Table(title, columns, tuple(line.label for line in table.lines), cells, notes=tuple(notes), called=called)


def _task(text: str) -> str:
    """A task's name without the spellings that mean the same."""
    return text.replace("_", " ").replace("RealWorld", "Real World").replace("Real World", "Real").strip()


def _not_comparable(rows: Sequence[Row], table: PaperTable) -> list[str]:
    """What keeps our figures from being the paper's, in plain sentences."""
    notes = []
    if rows:
        notes.append(
            f"not the paper's weights: {PAPERS_WEIGHTS}, these runs with {_list(_weights(row) for row in rows)}"
        )
    backbones = sorted({str(row["backbone"]) for row in rows} - {table.backbone, ""})
    if backbones:
        notes.append(f"not the paper's backbone: {_list(backbones)} in place of {table.backbone}")
    budget = {"uda": 6002, "msda": 50004, "ssda": 20004}[table.setting]
    other = sorted({int(row["steps"]) for row in rows if row.get("steps")} - {budget})
    if other:
        notes.append(f"not the paper's length: {_list(f'{steps:,}' for steps in other)} steps in place of {budget:,}")
    seeds = sorted({len(_seeds(rows, row)) for row in rows})
    if seeds and seeds[0] < 3:
        few = (
            "a single seed"
            if seeds == [1]
            else f"{seeds[0]} to {seeds[-1]} seeds"
            if len(seeds) > 1
            else f"{seeds[0]} seeds"
        )
        notes.append(f"figures of {few}: a difference of a point or two may be luck")
    return [*notes, *_uneven(rows)]


def _other_settings(chosen: Sequence[tuple[Line, str, Row]]) -> list[str]:
    """The settings that neither the paper's line has nor another note tells of."""
    given = {
        f"{name} {f'{value:.4g}' if isinstance(value, float) else value}"
        for line, _, row in chosen
        for name, value in (row.get("settings") or {}).items()
        if name not in TOLD and line.settings.get(name) != value
    }
    return [f"not the paper's settings: {_list(given)}"] if given else []


def _slips(table: PaperTable, columns: tuple[str, ...]) -> list[str]:
    """Where the paper's printed average is not the mean of its cells."""
    slips = []
    for line in table.lines:
        mean, printed = table.printed_average(line, columns)
        if mean is not None and printed is not None and abs(mean - printed) > 0.15:
            slips.append(f"{line.label} {printed:.1f} (its cells' mean is {mean:.1f})")
    return [f"averages here are means of the cells; the paper prints for {', '.join(slips)}"] if slips else []


def _uneven(rows: Sequence[Row]) -> list[str]:
    notes = []
    precisions = sorted({str(row["precision"]) for row in rows if row.get("precision")})
    if len(precisions) > 1:
        notes.append(f"not all of one precision: {_list(precisions)}")
    for what, told in (("backbone", "backbone"), ("steps", "length")):
        different = sorted({str(row[what]) for row in rows if row.get(what)})
        if len(different) > 1:
            notes.append(f"not all of one {told}: {_list(different)}")
    pictures: dict[str, set[str]] = {}
    for row in rows:
        pictures.setdefault(column(row), set()).add(row.get("fingerprint") or "")
    unlike = [at for at, found in pictures.items() if len(found - {""}) > 1]
    if unlike:
        notes.append(f"not all on the same pictures or labels: {_list(unlike)}")
    shares = {(row.get("hold_out") or {}).get("share", 0.0) for row in rows}
    if shares - {0.0}:
        some = "some of these runs" if len(shares) > 1 else "these runs"
        parts = _list(f"{1 - share:.0%}" for share in shares - {0.0})
        notes.append(f"{some} had only a part of the target ({parts}), and are measured on it")
    return notes


def _seeds(rows: Sequence[Row], like: Row) -> set[int]:
    return {row["seed"] for row in rows if (label(row), column(row)) == (label(like), column(like))}


def _weights(row: Row) -> str:
    weights = row.get("weights")
    if isinstance(weights, Mapping):
        return str(weights.get("source", "others"))
    return str(weights) if weights else "others"


def _shared(rows: Sequence[Row], *place: Callable[[Row], str]) -> list[str]:
    """Where runs of other settings are to share a cell, of which the last counts."""
    seen: dict[tuple[Any, ...], Row] = {}
    shared = {}
    for row in rows:
        at = (*(of(row) for of in place), row["seed"])
        if at in seen:
            shared[at] = row
        seen[at] = row
    return [
        f"{name} on {task}, seed {seed}, was run with other settings or another version, too: the last row counts"
        for name, task, seed in shared
    ]


def _tests(table: Table, baseline: str) -> tuple[Comparison, ...]:
    known = {name.lower(): line for name, line in table.called.items()} | {line.lower(): line for line in table.lines}
    found = known.get(baseline.lower())
    there = {line for (line, _), cell in table.cells.items() if cell.accuracies}
    if found is None:
        raise unknown("baseline", baseline, {*there, *(name for name, line in table.called.items() if line in there)})
    if found not in there:
        raise UserError(f"the baseline {baseline} has no row here: give another --baseline, or run it first")
    tests = (compare(table, line, found) for line in table.lines if line != found)
    return tuple(test for test in tests if test is not None)


def compare(table: Table, line: str, baseline: str) -> Comparison | None:
    """A paired t-test over the tasks and seeds that both lines have; None where they share none."""
    differences = []
    for at in table.columns:
        ours, theirs = (table.cells.get((name, at), Cell()).accuracies for name in (line, baseline))
        differences += [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if not differences:
        return None
    mean, count = float(np.mean(differences)), len(differences)
    if count == 1:
        return Comparison(line, baseline, 1, mean, -math.inf, math.inf, math.nan)
    from scipy import stats

    error = float(np.std(differences, ddof=1)) / math.sqrt(count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error > 0 else float(mean == 0)
    return Comparison(line, baseline, count, mean, mean - reach, mean + reach, p)


def _spread(mean: float, deviation: float | None, digits: int = 1) -> str:
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.{digits}f}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _rounded(value: Any) -> Any:
    return "" if value is None else round(value, 2) if isinstance(value, float) else value


def _list(words: Any) -> str:
    return ", ".join(sorted({str(word) for word in words}))


def _markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


_ESCAPED = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        **{sign: "\\" + sign for sign in "_%&#${}"},
        "^": r"\^{}",
        "~": r"\~{}",
        "±": r"$\pm$",
    }
)


def _latex(text: str) -> str:
    return text.translate(_ESCAPED).replace("->", r"$\rightarrow$")
