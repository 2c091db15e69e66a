"""Tables against figures worked out by hand."""

import csv
import json
import math
import re

import pytest
from scipy import stats

from hda.bench import rows as result
from hda.bench.paper import TABLES
from hda.bench.table import compare, draw
from hda.errors import UserError


def row(task="Art->Clipart", method="hdan", accuracy=50.0, seed=0, **more):
    usual = {"setting": "uda", "steps": 6002, "backbone": "resnet50", "precision": "fp32", "variant": "", "shots": None}
    return usual | {"task": task, "method": method, "accuracy": accuracy, "seed": seed} | more


@pytest.fixture
def found():
    """Two methods on two tasks with three seeds; the differences are 2, 3, 4 and 1, 2, 3."""
    rows = []
    for seed in range(3):
        rows += [row(accuracy=52.0 + 2 * seed, seed=seed), row("Product->Art", accuracy=61.0 + seed, seed=seed)]
        rows += [row(method="source-only", accuracy=50.0 + seed, seed=seed)]
        rows += [row("Product->Art", "source-only", 60.0, seed)]
    return rows


def test_a_cell_is_the_mean_and_the_sample_s_deviation_over_seeds(found):
    cell = draw(found).cells["hdan", "Art->Clipart"]
    assert cell.mean == 54.0
    assert cell.deviation == 2.0  # of 52, 54, 56: sqrt((4 + 0 + 4) / 2)
    assert draw(found[:1]).cells["hdan", "Art->Clipart"].deviation is None


def test_the_paper_s_figure_stands_beside_ours_with_the_difference(found):
    text = draw(found, name="table1").text()
    line = next(line for line in text.splitlines() if line.startswith("HDAN"))
    assert "54.0 ± 2.0* (56.8, -2.8)" in line
    assert "62.0 ± 1.0* (66.3, -4.3)" in line
    assert "58.0* (61.5, -3.5)" in line  # means of 54 and 62, of 56.8 and 66.3
    source = next(line for line in text.splitlines() if line.startswith("ResNet50"))
    assert "51.0 ± 1.0 (34.9, +16.1)" in source
    assert next(line for line in text.splitlines() if line.startswith("DANN")).split()[1:3] == ["-", "(45.6)"]


@pytest.mark.parametrize("baseline", ["source-only", "Source-Only", "ResNet50"])
def test_the_paired_test_is_scipy_s_over_tasks_and_seeds(found, baseline):
    (test,) = draw(found, name="table1", baseline=baseline).comparisons
    differences = [2.0, 3.0, 4.0, 1.0, 2.0, 3.0]
    expected = stats.ttest_1samp(differences, 0.0)
    interval = expected.confidence_interval(0.95)
    assert (test.method, test.baseline, test.pairs) == ("HDAN", "ResNet50", 6)
    assert test.difference == pytest.approx(2.5)
    assert (test.low, test.high) == pytest.approx((interval.low, interval.high))
    assert test.p == pytest.approx(expected.pvalue)
    assert test.sentence().startswith(
        "HDAN against ResNet50: +2.5 points (95 % interval +1.4 to +3.6, paired t-test p = 0.0"
    )


def test_only_seeds_and_tasks_that_both_have_are_compared(found):
    less = [
        one for one in found if not (one["method"] == "source-only" and (one["seed"] == 2 or "Product" in one["task"]))
    ]
    test = compare(draw(less), "hdan", "source-only")
    assert (test.pairs, test.difference) == (2, 2.5)
    single = compare(draw([one for one in less if one["seed"] == 0]), "hdan", "source-only")
    assert "no test" in single.sentence()
    assert math.isnan(single.p)
    other = [one for one in found if one["task"] != ("Art->Clipart" if one["method"] == "hdan" else "Product->Art")]
    assert compare(draw(other), "hdan", "source-only") is None


def test_a_baseline_that_is_not_there_is_told(found):
    with pytest.raises(UserError, match="unknown baseline 'source': did you mean 'source-only'"):
        draw(found, name="table1", baseline="source")
    with pytest.raises(UserError, match="the baseline dann has no row here"):
        draw(found, name="table1", baseline="dann")


def test_what_is_not_comparable_is_said(found):
    notes = "\n".join(draw([{**one, "weights": {"source": "mine.safetensors"}} for one in found], name="table1").notes)
    assert (
        "not the paper's weights: the paper began with torchvision's first ImageNet weights, these runs with mine"
        in notes
    )
    assert "seed" not in notes
    notes = "\n".join(draw([row(steps=100, backbone="small", precision="bf16"), row(seed=1)], name="table1").notes)
    assert "not the paper's backbone: small in place of resnet50" in notes
    assert "not the paper's length: 100 steps in place of 6,002" in notes
    assert "figures of 2 seeds" in notes
    assert "not all of one precision: bf16, fp32" in notes


def test_runs_of_other_settings_in_one_cell_are_said(found):
    made = draw([row(identity="a", settings={"lr": 1}), row(accuracy=60.0, identity="b", settings={"lr": 2})])
    assert made.cells["hdan", "Art->Clipart"].accuracies == {0: 60.0}
    assert made.notes == (
        "hdan on Art->Clipart, seed 0, was run with other settings or another version, too: the last row counts",
    )
    again = draw([row(identity="a"), row(accuracy=60.0, identity="a")])
    assert again.cells["hdan", "Art->Clipart"].accuracies == {0: 60.0}
    assert again.notes == ()


def test_markdown_and_csv_can_be_read_again(found):
    made = draw(found, name="table1", baseline="ResNet50")
    lines = [line for line in made.draw("markdown").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {len(line) for line in cells} == {4}
    assert cells[0] == ["", "A->C", "P->A", "mean"]
    assert cells[-1] == ["HDAN", "**54.0 ± 2.0** (56.8, -2.8)", "**62.0 ± 1.0** (66.3, -4.3)", "**58.0** (61.5, -3.5)"]
    read = list(csv.DictReader(made.draw("csv").splitlines()))
    ours = {(line["method"], line["task"]): line for line in read if line["mean"]}
    assert len(ours) == 4
    assert ours["HDAN", "A->C"] == {
        "method": "HDAN",
        "task": "A->C",
        "mean": "54.0",
        "deviation": "2.0",
        "seeds": "3",
        "paper": "56.8",
        "paper_deviation": "",
        "difference": "-2.8",
    }


def test_a_deviation_that_the_paper_prints_stands_beside_its_figure():
    of_table3 = row(setting="msda", task="*->Clipart", dataset="domainnet", accuracy=50.0)
    made = draw([of_table3], name="table3")
    line = TABLES["table3"].lines[-1]
    column = TABLES["table3"].columns[0].label
    printed, deviation = TABLES["table3"].printed(line, column), TABLES["table3"].printed_deviation(line, column)
    assert deviation is not None
    assert f"50.0 ({printed:.1f} ± {deviation:.2f}, {50.0 - printed:+.1f})" in made.draw("text")
    drawn = next(each for each in csv.DictReader(made.draw("csv").splitlines()) if each["method"] == line.label)
    assert drawn["paper_deviation"] == f"{deviation:.2f}"


def test_latex_is_balanced_and_escapes_what_latex_would_take_for_its_own(found):
    text = draw([*found, row(variant="50% & more_{}~^\\#$")]).draw("latex")
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    columns = re.search(r"\\begin\{tabular\}\{(l)(c*)\}", text)
    lines = [line for line in body if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(columns[2])}
    assert r"50\% \& more\_\{\}\~{}\^{}\textbackslash{}\#\$" in text
    assert r"Art$\rightarrow$Clipart" in text
    assert r"\textbf{54.0 $\pm$ 2.0}" in draw(found).draw("latex")
    assert all(line.count("{") - line.count(r"\{") == line.count("}") - line.count(r"\}") for line in body)


def test_rows_as_they_were_before_the_schema_are_read(tmp_path):
    old = {
        "setting": "uda",
        "task": "Art->Clipart",
        "method": "hdan",
        "variant": "M=1",
        "seed": 0,
        "steps": 6002,
        "batch": 36,
        "backbone": "resnet50",
        "precision": "bf16",
        "accuracy": 52.8,
        "mean_class_accuracy": 52.0,
        "oracle": 53.1,
        "accuracies": {"6002": 52.8},
        "device": "NVIDIA H200",
        "seconds": 120.0,
        "images_per_second": 3600,
        "commit": "abc",
        "torch": "2.11.0",
        "settings": {"heuristics": "1"},
        "command": "python benchmarks/office_home.py",
        "table": "table2",
    }
    speed = {"kind": "speed", "images_per_second": 3000}
    (tmp_path / "old.jsonl").write_text(json.dumps(old) + "\n" + json.dumps(speed) + "\n")
    rows = result.read([tmp_path])
    made = draw(rows, name="table2")
    assert made.cells["HDAN (M=1)", "A->C"].mean == 52.8
    assert "52.8 (57.2, -4.4)" in made.text()


def test_a_line_that_a_kill_cut_short_is_left_out_and_the_next_begins_on_its_own(tmp_path):
    path = tmp_path / "rows.jsonl"
    result.add(path, row(identity="a"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:30])
    assert len(result.read([path])) == 1
    result.add(path, row(identity="b", seed=1))
    with path.open() as file:
        assert len(file.readlines()) == 2
    assert [one["seed"] for one in result.read([path])] == [0, 1]


def test_rows_of_a_later_schema_and_damaged_ones_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(schema=2)) + "\n")
    with pytest.raises(UserError, match="is of the schema 2, and this version of hda knows 1: update hda"):
        result.read([path])
    path.write_text(json.dumps(row(accuracy="high")) + "\n")
    with pytest.raises(UserError, match=r"line 1 of .* is no result row"):
        result.read([path])
    with pytest.raises(UserError, match="does not exist"):
        result.read([tmp_path / "none.jsonl"])


def test_the_paper_s_figures_are_those_it_prints():
    def cell(table, label, column):
        line = next(line for line in TABLES[table].lines if line.label == label)
        return TABLES[table].printed(line, column)

    assert cell("table1", "HDAN", "A->C") == 56.8
    assert cell("table1", "HDAN", "Avg") == 70.9
    assert cell("table2", "HDAN _w.o. range", "A->C") == 53.8
    assert cell("table3", "HDAN", "Clipart") == 63.6
    assert cell("table4", "HDAN", "R->C 3-shot") == 73.9
    for table in TABLES.values():
        for line in table.lines:
            assert all(table.printed(line, column.label) is not None for column in table.columns), line.label


def test_settings_pictures_and_parts_that_are_not_the_paper_s_are_told():
    plain = row(settings={"backbone": "resnet50", "heuristics": 1, "device": "cpu"}, variant="M=1", fingerprint="a")
    assert not [note for note in draw([plain], name="table2").notes if "settings" in note or "pictures" in note]
    other = row(seed=1, settings={"backbone": "resnet50", "batch": 24, "lr": 0.01}, fingerprint="b")
    apart = row(seed=2, fingerprint="b", hold_out={"share": 0.2, "images": 9, "accuracy": 1.0})
    notes = draw([plain, other, apart], name="table2").notes
    assert "not the paper's settings: batch 24, lr 0.01" in notes
    assert "not all on the same pictures or labels: Art->Clipart" in notes
    assert "some of these runs had only a part of the target (80%), and are measured on it" in notes
    assert "these runs had only a part of the target (80%), and are measured on it" in draw([apart]).notes


def test_a_row_whose_accuracy_is_no_number_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"task": "a", "method": "hdan", "seed": 0, "accuracy": NaN}\n\n')
    with pytest.raises(UserError, match="is no result row"):
        result.read([tmp_path])


def test_bars_in_names_do_not_break_a_markdown_table():
    lines = draw([row("a|b", variant="x|y"), row("a|b", "dann")]).markdown().splitlines()
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")]
    assert cells == [4] * 4
