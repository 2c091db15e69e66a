"""`hda bench` and `hda table` as a user gives them, with the mistakes that users make."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from hda.bench import rows
from hda.bench.runner import Bench
from hda.cli.board import Counts, LiveBoard
from hda.cli.main import main

QUICK = ("backbone=small", "weights=none", "size=16", "augment=none", "steps=3", "batch=3", "device=cpu")
SOME = ("--methods", "hdan,source-only", "--tasks", "A->C", "--seeds", "0,1", "--set", *QUICK)


@pytest.fixture
def hda(capsys, tmp_path, monkeypatch):
    """Call the command in this process, in a folder of its own: code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """The command lets the package's log be seen; other tests are not to notice."""
    import logging

    log = logging.getLogger("hda")
    before = (log.handlers[:], log.level, log.propagate)
    yield
    log.handlers[:], log.level, log.propagate = before


def mistake(told) -> str:
    code, _, err = told
    assert code == 2
    assert err.startswith("hda: ")
    assert err.count("\n") == 1
    return err


def test_a_table_is_planned_done_drawn_and_not_done_again(hda, data, tmp_path):
    words = ("bench", "table1", "--data", data, *SOME)
    code, out, _ = hda(*words, "--plan", "--json")
    plan = json.loads(out.splitlines()[-1])
    assert (code, plan["done"], plan["of"], plan["out"]) == (0, 0, 4, "runs/bench-table1")
    assert "4 runs: 0 done, 0 begun, 4 to begin" in out
    assert "no run alike has been done there yet" in out
    assert not Path("runs").exists(), "a plan leaves nothing"
    code, out, err = hda(*words, "--json", "--table-out", "table.tex")
    assert (code, err) == (0, "")
    result = json.loads(out.splitlines()[-1])
    assert (result["done"], result["failed"]) == (4, [])
    assert out.count("\nbegan ") == out.count("\ndone ") == 4
    assert "HDAN" in out
    assert "(56.8, " in out
    assert Path("table.tex").read_text().endswith("\\end{tabular}\n")
    found = rows.read(["runs/bench-table1"])
    assert {(row["method"], row["seed"], row["table"]) for row in found} == {
        (method, seed, "table1") for method in ("hdan", "source-only") for seed in (0, 1)
    }
    (command,) = {row["command"] for row in found if (row["method"], row["seed"]) == ("hdan", 1)}
    assert command == (
        f"hda bench table1 --data FOLDER --methods hdan --tasks 'A->C' --seeds 1 --set {' '.join(QUICK)}"
    )
    before = Path("runs/bench-table1/rows.jsonl").read_bytes()
    code, out, _ = hda(*words)
    assert code == 0
    assert "4 runs: 4 done, 0 begun, 0 to begin" in out
    assert "\nbegan " not in out
    assert Path("runs/bench-table1/rows.jsonl").read_bytes() == before
    code, out, _ = hda(*words[: -len(QUICK) - 2], "0,1,2", "--set", *QUICK, "--plan")
    assert "by 4 rows of runs alike on it" in out
    code, out, _ = hda("table", "runs/bench-table1", "--table", "table1", "--baseline", "source-only", "--json")
    told = json.loads(out.splitlines()[-1])
    assert [(test["method"], test["baseline"], test["pairs"]) for test in told["comparisons"]] == [
        ("HDAN", "ResNet50", 2)
    ]
    assert len(told["cells"]) == 2


def test_a_grid_of_one_s_own(hda, data, grid):
    code, out, _ = hda("bench", grid, "--data", data, "--methods", "hdan M=1", "--tasks", "Art->Clipart", "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1])["done"] == 1
    (row,) = rows.read(["runs/bench-my_grid"])
    assert (row["variant"], row["table"]) == ("M=1", "")
    assert "hdan (M=1)" in out


def test_tasks_whose_pictures_are_missing_are_named_and_can_be_left_out(hda, data):
    words = ("bench", "table1", "--data", data, "--methods", "source-only", "--set", *QUICK)
    sentence = mistake(hda(*words))
    assert "has no Real World of office-home, which 6 of 12 tasks need" in sentence
    assert f"`hda data check office-home {data}`" in sentence
    assert "--skip-missing" in sentence
    code, out, _ = hda(*words, "--skip-missing", "--plan")
    assert code == 0
    assert "left out: 6 of 12 tasks, since" in out
    assert "18 runs" in out
    sentence = mistake(hda("bench", "table1", "--data", data, "--tasks", "R->A", "--skip-missing", "--plan"))
    assert "which every task needs" in sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("tabel1",), "unknown bench 'tabel1': did you mean 'table1'"),
        (("table1",), "--data must be given"),
        (("table1", "--data", "nowhere"), "nowhere is no folder: give the folder that Office-Home lies in"),
        (("table1", "--methods", "hdam"), "unknown method of table1 'hdam': did you mean 'hdan'"),
        (("table1", "--tasks", "A-C"), "unknown task of table1 'A-C': did you mean 'A->C'"),
        (("table1", "--seeds", "one"), "--seeds takes a whole number: got 'one'"),
        (
            (
                "table1",
                "--seeds=-1",
            ),
            "--seeds takes whole numbers from 0",
        ),
        (("table1", "--set", "steps"), "--set 'steps' is no setting: write it as NAME=VALUE"),
        (("table1", "--set", "seed=3"), "--set 'seed=3' has an option of its own: give --seeds instead"),
        (("table1", "--set", "stepz=3", "--tasks", "A->C"), "unknown setting 'stepz': did you mean 'steps'"),
        (("table1", "--set", "steps=many", "--tasks", "A->C"), "--steps takes a whole number: got 'many'"),
        (("table1", "--hold-out", "2", "--tasks", "A->C"), "--hold-out must be between 0 and 0.9"),
        (("table1", "--at-once", "0", "--tasks", "A->C"), "--at-once takes a whole number from 1, or auto: got '0'"),
        (("table1", "--set", "weights=none.pth", "--tasks", "A->C"), "the weights 'none.pth' are not there"),
        (("none.py",), "the grid none.py does not exist"),
        (("table1", "--table-out", "table.pdf", "--tasks", "A->C"), "let it end in .txt, .md, .tex, .csv"),
    ],
)
def test_a_mistake_is_told_in_a_sentence_and_leaves_nothing(hda, data, words, sentence):
    more = () if "--data" in words or words == ("table1",) else ("--data", data)
    assert sentence in mistake(hda("bench", *words, *more))
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nowhere",), "nowhere does not exist: give a file of result rows, or a folder of such files"),
        (("rows.jsonl", "--table", "table9"), "unknown table 'table9'"),
        (("rows.jsonl", "--baseline", "mcd"), "unknown baseline 'mcd'"),
        (("rows.jsonl", "--format", "html"), "unknown format 'html'"),
        (("rows.jsonl", "--out", "table.doc"), "does not tell the format"),
        (("rows.jsonl", "--table", "table3"), "no row belongs to table3"),
    ],
)
def test_a_mistake_with_tables_is_told_in_a_sentence(hda, words, sentence):
    rows.add(Path("rows.jsonl"), {"task": "Art->Clipart", "method": "hdan", "seed": 0, "accuracy": 50.0})
    assert sentence in mistake(hda("table", *words))


def test_a_table_goes_into_a_file_of_its_kind(hda):
    rows.add(Path("rows.jsonl"), {"task": "Art->Clipart", "method": "hdan", "seed": 0, "accuracy": 50.0})
    for name, begins in {"a.md": "**", "a.tex": "%", "a.csv": "method,task", "a.txt": "Accuracies"}.items():
        code, out, _ = hda("table", "rows.jsonl", "--out", name)
        assert (code, out) == (0, f"the table is in {name}\n")
        assert Path(name).read_text().startswith(begins)


def test_two_at_work_in_one_folder_are_told_of_each_other(hda, data):
    from hda.engine.lock import locked

    Path("out").mkdir()
    with locked(Path("out/.lock"), ""):
        sentence = mistake(hda("bench", "table1", "--data", data, *SOME, "--out", "out"))
    assert "another `hda bench` is at work in out: wait for it, or give another --out" in sentence


def test_a_run_that_leaves_the_numbers_is_told_at_the_end_and_the_others_are_done(hda, data):
    words = ("bench", "table1", "--data", data, "--methods", "source-only", "--tasks", "A->C", "--seeds", "0")
    code, out, err = hda(*words, "--set", *QUICK, "lr=1e30", "--json")
    assert code == 2
    assert "1 run failed: source-only Art->Clipart seed 0: " in err
    assert "no longer finite" in err
    assert json.loads(out.splitlines()[-1])["done"] == 0


def test_ctrl_c_stops_all_and_says_how_to_go_on(data, grid, tmp_path):
    """In a process of its own, with two workers, as a terminal does it: the signal goes to the whole group."""
    words = [
        "bench",
        str(grid),
        "--data",
        str(data),
        "--out",
        str(tmp_path / "out"),
        "--at-once",
        "2",
        "--set",
        "steps=5000",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "hda", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        while not (line := process.stdout.readline()).startswith("began"):
            assert line, process.stderr.read()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 130
    assert err.startswith("hda: interrupted: `hda bench ")
    assert err.rstrip().endswith("goes on with it")
    assert err.count("\n") == 1
    until = time.monotonic() + 10
    while alive(process.pid) and time.monotonic() < until:
        time.sleep(0.05)  # those that Python itself has begun end when they find it gone
    assert not alive(process.pid)


def alive(group: int) -> list[str]:
    """The processes of a group that are still at work."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(path.parent.name)
    return found


def test_the_live_board_shows_what_is_done_runs_and_is_left(data, grid, tmp_path):
    from hda.bench.grid import read

    planned = Bench(tmp_path / "out", data).plan(read(grid))
    counts = Counts(planned, {one.identity: 10.0 for one in planned})
    console = Console(file=io.StringIO(), force_terminal=True, width=110, highlight=False)
    board = LiveBoard(counts, console)
    board.started(planned[0])
    board.at(planned[0], 6)
    board.rate(planned[0], 1234.0)
    console.print(board.picture())
    assert "0 done, 1 running, 5 left, about 55 s to go" in console.file.getvalue()
    assert "hdan Art->Clipart seed 0" in console.file.getvalue()
    assert "step 6 of 12, 1,234 images/s" in console.file.getvalue()
    board.done(planned[0], {"accuracy": 51.23, "seconds": 65.0, "hold_out": {"accuracy": 50.0}})
    assert "done hdan Art->Clipart seed 0: 51.2 %, 50.0 % on pictures held out in 1 min 05 s" in console.file.getvalue()
    assert counts.sentence() == "1 done, 0 running, 5 left, about 50 s to go"


def test_a_whole_copy_of_the_folder_elsewhere_is_known_as_done(hda, data, tmp_path):
    words = ("bench", "table1", "--methods", "source-only", "--tasks", "A->C", "--seeds", "0", "--set", *QUICK)
    assert hda(*words, "--data", data, "--out", "first")[0] == 0
    shutil.copytree(data, "copy")
    shutil.copytree("first", "second")
    code, out, _ = hda(*words, "--data", "copy", "--out", "second", "--plan")
    assert code == 0
    assert "1 run: 1 done" in out
