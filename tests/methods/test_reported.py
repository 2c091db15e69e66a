"""The figures that methods report are those that the paper's tables print."""

import re

import pytest

from hda.bench.paper import AVERAGE, TABLES
from hda.registry import registered

LABEL = re.compile(r"(?P<what>.+) \(table (?P<table>\d)(, .+)?\)")
FIGURES = [
    (cls.name, label, figure)
    for cls in registered("methods").values()
    for label, figure in cls.reference.reported.items()
    if LABEL.fullmatch(label)
]


def column(what: str) -> str:
    """What the paper calls a column that a method calls so."""
    shots = re.search(r", (\d-shot)", what)
    if "mean of" in what:
        return f"{AVERAGE} {shots[1]}" if shots else AVERAGE
    if "->" in what:
        return "->".join(domain[0] for domain in what.split("->"))
    return what.rpartition(", ")[2]


@pytest.mark.parametrize(("method", "label", "figure"), FIGURES)
def test_a_figure_of_a_table_is_printed_there(method, label, figure):
    found = LABEL.fullmatch(label)
    table = TABLES[f"table{found['table']}"]
    (line,) = (line for line in table.lines if line.method == method and not line.variant)
    assert table.printed(line, column(found["what"])) == figure


@pytest.mark.parametrize("line", TABLES["table1"].lines, ids=lambda line: line.label)
def test_every_system_of_table_1_reports_its_mean_and_art_to_clipart(line):
    told = {
        found["what"] for method, label, _ in FIGURES if method == line.method and (found := LABEL.fullmatch(label))
    }
    assert {"Office-Home, mean of 12", "Art->Clipart"} <= told
