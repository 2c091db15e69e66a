"""Which runs a grid asks for, and mistakes in asking."""

import re
from pathlib import Path

import pytest

from hda.bench.grid import Grid, Job, chosen, lacking, of_table, read, with_settings
from hda.bench.paper import TABLES, paper_table
from hda.errors import UserError
from hda.methods.hdan import HDAN


def test_a_grid_is_every_task_with_every_method_and_seed_those_of_one_shape_together():
    grid = Grid(
        tasks=["office-home:A->C", "office-home:P->A"],
        methods={"hdan": {}, "hdan M=1": {"heuristics": 1}},
        seeds=[0, 1],
    )
    jobs = grid.jobs()
    assert len(jobs) == 8
    assert [job.shape for job in jobs[:4]] == [jobs[0].shape] * 4
    assert jobs[4].options == {"method": "hdan", "seed": 0, "heuristics": 1}
    assert (jobs[4].variant, jobs[4].title) == ("M=1", "hdan (M=1) A->C seed 0")


def test_table1_asks_for_its_lines_columns_and_seeds():
    jobs = of_table(
        paper_table("table1"), methods=["hdan", "ResNet50"], tasks=["A->C", "office-home:Product->Art"], seeds=[3]
    )
    assert [(job.method, job.task, job.seed) for job in jobs] == [
        ("hdan", "office-home:Art->Clipart", 3),
        ("hdan", "office-home:Product->Art", 3),
        ("source-only", "office-home:Art->Clipart", 3),
        ("source-only", "office-home:Product->Art", 3),
    ]
    assert all(job.settings == {"backbone": "resnet50"} and job.table == "table1" for job in jobs)


def test_table2_asks_for_both_readings_of_the_ablation_without_range():
    jobs = of_table(paper_table("table2"), tasks=["A->C"], seeds=[0])
    settings = {job.variant: {k: v for k, v in job.settings.items() if k != "backbone"} for job in jobs}
    assert settings == {
        "": {"heuristics": 3},
        **{f"M={m}": {"heuristics": m} for m in (1, 2, 4, 5)},
        "w.o. range": {"termination_weight": 0.0},
        "w.o. range, no heuristics": {"heuristics": 0},
        "w.o. init": {"fundament_slope": 0.0},
        "L2": {"termination_norm": "l2"},
    }
    (one,) = of_table(paper_table("table2"), methods=["HDAN (M=1)"], tasks=["A->C"], seeds=[0])
    assert one.variant == "M=1"


def test_table4_asks_for_one_and_three_shots():
    jobs = of_table(paper_table("table4"), methods=["hdan"], tasks=["R->C 1-shot", "R->C 3-shot"], seeds=[0])
    assert [(job.task, job.shots) for job in jobs] == [("domainnet-126:Real->Clipart", n) for n in (1, 3)]
    assert len(of_table(paper_table("table4"), methods=["hdan"], seeds=[0])) == 14


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"methods": ["hdam"]}, "unknown method of table1 'hdam': did you mean 'hdan'"),
        ({"tasks": ["A-C"]}, "unknown task of table1 'A-C': did you mean 'A->C'"),
    ],
)
def test_what_a_table_lacks_is_told_with_the_nearest(given, sentence):
    with pytest.raises(UserError, match=sentence):
        of_table(paper_table("table1"), **given)


def test_a_method_that_is_not_installed_is_left_out_unless_it_is_named(monkeypatch):
    from hda.bench import grid

    monkeypatch.setattr(grid, "registered", lambda room: {"hdan": HDAN})
    assert {job.method for job in of_table(TABLES["table1"])} == {"hdan"}
    assert "source-only" in lacking(TABLES["table1"])
    with pytest.raises(UserError, match="source-only of table1 cannot be run"):
        of_table(TABLES["table1"], methods=["source-only"])
    monkeypatch.setattr(HDAN, "supports", frozenset({"uda"}))
    assert "hdan" not in lacking(TABLES["table1"])
    assert "hdan" in lacking(TABLES["table3"]), "it does not know several sources"


def test_some_of_a_grid_of_one_s_own():
    jobs = [Job("office-home:A->C", "hdan", seed, "M=1", settings={"heuristics": 1}) for seed in (0, 1)]
    jobs.append(Job("office-home:P->C", "dann", 0))
    assert [job.method for job in chosen(jobs, methods=["dann"])] == ["dann"]
    assert {job.seed for job in chosen(jobs, methods=["hdan M=1"], seeds=[5, 6, 7])} == {5, 6, 7}
    assert len(chosen(jobs, seeds=[0])) == 2
    assert [job.name for job in chosen(jobs, tasks=["P->C"])] == ["P->C"]
    with pytest.raises(UserError, match="unknown method of the grid 'mcd'"):
        chosen(jobs, methods=["mcd"])
    with pytest.raises(UserError, match="unknown task of the grid"):
        chosen(jobs, tasks=["C->P"])


def test_settings_that_the_command_adds_count_before_the_grid_s_and_are_known_as_such():
    (job,) = with_settings([Job("office-home:A->C", "hdan", settings={"steps": 9, "batch": 2})], {"steps": 3})
    assert job.settings == {"steps": 3, "batch": 2}
    assert job.added == {"steps": 3}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("GRID = 3", "has neither a GRID of hda.bench.Grid nor JOBS of hda.bench.Job: give it one"),
        ("JOBS = []", "has neither a GRID"),
        ("1 / 0", r"fails \(ZeroDivisionError: division by zero\): mend it first"),
    ],
)
def test_a_file_that_is_no_grid_is_told(tmp_path, text, sentence):
    path = tmp_path / "grid.py"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        read(path)
    with pytest.raises(UserError, match=r"none\.py does not exist: give a Python file with a GRID"):
        read(tmp_path / "none.py")


def test_a_run_with_another_head_or_alignment_is_called_after_both():
    job = Job("office-home:Art->Clipart", "hdan", settings={"alignment": "mcd"})
    assert job.whole == "heuristic+mcd"
    assert job.title == "heuristic+mcd Art->Clipart seed 0"
    assert Job("office-home:Art->Clipart", "mcd").whole == "mcd"


def test_a_line_s_label_may_be_written_small():
    """What table 1 prints as CDAN are CDAN+E's figures: who asks for cdan there means that line."""
    jobs = of_table(TABLES["table1"], methods=["cdan"], tasks=["A->C"], seeds=[0])
    assert [job.method for job in jobs] == ["cdan-e"]
    assert [job.method for job in of_table(TABLES["table4"], methods=["cdan"], seeds=[0])] == ["cdan"] * 14


GRIDS = sorted((Path(__file__).parents[2] / "benchmarks" / "grids").glob("*.py"))


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_no_two_runs_of_our_grids_are_one_cell_of_a_table(path):
    """Else the last of them would count: the methods at 2,000 steps and at 6,002 have names of their own."""
    cells = [(job.called, job.task, job.shots, job.seed) for job in read(path)]
    assert len(cells) == len(set(cells))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ('tasks="office-home:Art->Clipart", methods={"hdan": {}}', "is no list: write tasks="),
        ('tasks=["a"], methods=["hdan"]', "gives no settings by name: write methods="),
        ('tasks=["a"], methods={"hdan": 3}', "gives no settings by name: write methods="),
        ('tasks=["a"], methods={"hdan": {}}, seeds=3', "seeds=3 is no list: write seeds=[0, 1, 2]"),
        ('tasks=["a"], methods={"hdan": {}}, settings=["steps"]', "are not named: write settings="),
    ],
)
def test_what_a_grid_cannot_mean_is_told_in_a_sentence(tmp_path, words, told):
    path = tmp_path / "grid.py"
    path.write_text(f"from hda.bench import Grid\nGRID = Grid({words})\n")
    with pytest.raises(UserError, match=re.escape(told)) as raised:
        read(path)
    assert str(raised.value).startswith(f"the grid {path} is not right: ")
