"""The paper's four tables: which runs they ask for, and what is printed in them (Cui et al., NeurIPS 2020)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from hda.errors import unknown

AVERAGE = "Avg"


@dataclass(frozen=True)
class Column:
    """One task of a table."""

    label: str  # as printed: "A->C", "Clipart", "R->C 3-shot"
    task: str  # as `hda fit --task` takes it: "office-home:Art->Clipart"
    shots: int | None = None


@dataclass(frozen=True)
class Line:
    """One system of a table."""

    label: str  # as printed
    method: str  # as `hda fit --method` takes it
    variant: str = ""  # what to call the settings, where they are not the default
    settings: Mapping[str, Any] = field(default_factory=dict)
    printed_as: str = ""  # the label whose figures are compared with, where it is another


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: lines times columns, trained with one backbone in one setting."""

    name: str
    title: str
    setting: str
    backbone: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]

    @property
    def dataset(self) -> str:
        return self.columns[0].task.partition(":")[0]

    def printed(self, line: Line, column: str) -> float | None:
        """The paper's accuracy in percent; None where it has none."""
        cell = _figures()[self.name].get(line.printed_as or line.label, {}).get(column)
        return cell[0] if isinstance(cell, list) else cell

    def printed_deviation(self, line: Line, column: str) -> float | None:
        """The paper's deviation over seeds, where it prints one."""
        cell = _figures()[self.name].get(line.printed_as or line.label, {}).get(column)
        return cell[1] if isinstance(cell, list) else None

    def printed_average(self, line: Line, over: tuple[str, ...]) -> tuple[float | None, float | None]:
        """The mean of the paper's own cells over those columns, and, where they are all, the average that it prints.

        Some printed averages do not follow from their rows: both are told.
        """
        cells = [self.printed(line, label) for label in over]
        known = [cell for cell in cells if cell is not None]
        mean = sum(known) / len(known) if known and len(known) == len(cells) else None
        whole = len(over) == len(self.columns)
        return mean, self.printed(line, AVERAGE) if whole else None


def paper_table(name: str) -> PaperTable:
    """A table by its name.

    Raises:
        UserError: there is no such table.
    """
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    return TABLES[name]


@cache
def _figures() -> dict[str, dict[str, dict[str, Any]]]:
    text = files("hda.bench").joinpath("paper.json").read_text(encoding="utf-8")
    figures: dict[str, dict[str, dict[str, Any]]] = json.loads(text)
    return figures


def _transfers(dataset: str, domains: Mapping[str, str], pairs: str, shots: tuple[int, ...] = ()) -> tuple[Column, ...]:
    columns = []
    for pair in pairs.split():
        source, _, target = pair.partition("->")
        task = f"{dataset}:{domains[source]}->{domains[target]}"
        columns += [Column(f"{pair} {n}-shot", task, n) for n in shots] or [Column(pair, task)]
    return tuple(columns)


_OFFICE_HOME = _transfers(
    "office-home",
    {"A": "Art", "C": "Clipart", "P": "Product", "R": "Real World"},
    "A->C A->P A->R C->A C->P C->R P->A P->C P->R R->A R->C R->P",
)
_DOMAINNET = tuple(
    Column(domain, f"domainnet:*->{domain}")
    for domain in ("Clipart", "Infograph", "Painting", "Quickdraw", "Real", "Sketch")
)
_DOMAINNET_126 = _transfers(
    "domainnet-126",
    {"R": "Real", "C": "Clipart", "P": "Painting", "S": "Sketch"},
    "R->C R->P P->C C->S S->P R->S P->R",
    shots=(1, 3),
)


def _lines(text: str) -> tuple[Line, ...]:
    """Lines of "label = method" joined by semicolons."""
    pairs = (pair.split(" = ") for pair in text.split("; "))
    return tuple(Line(label, method) for label, method in pairs)


TABLES = {
    table.name: table
    for table in (
        PaperTable(
            "table1",
            "Accuracies (%) on Office-Home for ResNet50-based UDA",
            "uda",
            "resnet50",
            _OFFICE_HOME,
            _lines(  # its CDAN has the figures that CDAN's paper has for CDAN+E
                "ResNet50 = source-only; DAN = dan; DANN = dann; MCD = mcd; EntMin = entmin; CDAN = cdan-e; Symnets = symnets; "
                "SAFN = safn; ATM = atm; BNM = bnm; MDD = mdd; GVBG = gvb; CADA = cada; HDAN = hdan"
            ),
        ),
        PaperTable(
            "table2",
            "Parameter M and ablation study on Office-Home for HDAN",
            "uda",
            "resnet50",
            _OFFICE_HOME,
            (
                *(Line(f"HDAN (M={m})", "hdan", f"M={m}" if m != 3 else "", {"heuristics": m}) for m in range(1, 6)),
                Line("HDAN _w.o. range", "hdan", "w.o. range", {"termination_weight": 0.0}),
                Line(
                    "HDAN _w.o. range (no H)",
                    "hdan",
                    "w.o. range, no heuristics",
                    {"heuristics": 0},
                    printed_as="HDAN _w.o. range",
                ),
                Line("HDAN _w.o. init", "hdan", "w.o. init", {"fundament_slope": 0.0}),
                Line("HDAN _L_2-norm", "hdan", "L2", {"termination_norm": "l2"}),
            ),
        ),
        PaperTable(
            "table3",
            "Accuracies (%) on DomainNet for ResNet101-based MSDA",
            "msda",
            "resnet101",
            _DOMAINNET,
            _lines(
                "ResNet101 = source-only; DAN = dan; RTN = rtn; JAN = jan; DANN = dann; ADDA = adda; SE = se; MCD = mcd; "
                "DCTN = dctn; M^3SDA = m3sda; M^3SDA-beta = m3sda-beta; ML-MSDA = ml-msda; GVBG = gvb; HDAN = hdan"
            ),
        ),
        PaperTable(
            "table4",
            "Accuracies (%) on DomainNet's subset of 126 classes for ResNet34-based SSDA",
            "ssda",
            "resnet34",
            _DOMAINNET_126,
            _lines(
                "ResNet34 = source-only; DANN = dann; ADR = adr; CDAN = cdan; ENT = ent; MME = mme; GVBG = gvb; CANN = cann; "
                "HDAN = hdan"
            ),
        ),
    )
}
