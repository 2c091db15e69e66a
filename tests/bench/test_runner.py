"""What tells one run from another, and what a run's row says."""

import dataclasses
import os
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

from hda.bench import runner
from hda.bench.crew import Board, alone
from hda.bench.grid import Job
from hda.bench.runner import Bench, Place, estimate, hold_out
from hda.data import content
from hda.data.scenario import Answers
from hda.engine.reporter import Reporter
from hda.errors import UserError
from hda.methods.hdan import HDAN
from hda.recipes.sgd import SGD
from hda.settings import setting

SETTINGS = {"backbone": "small", "weights": "none", "size": 16, "augment": "none", "device": "cpu"}
SHORT = SETTINGS | {"steps": 6, "batch": 3, "evaluate_every": 3, "checkpoint_every": 2, "log_every": 2}
JOB = Job("office-home:Art->Clipart", "hdan", settings=SHORT)


@pytest.fixture
def bench(tmp_path, data):
    return Bench(tmp_path / "out", data, source="my_grid.py")


def identity(data, out, job=JOB, **more) -> str:
    return Bench(out, data, **more).identity(job)


# Identity


def test_two_copies_of_the_data_are_the_same_data_whatever_their_times(data, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    for number, path in enumerate(copy.iterdir()):
        os.utime(path, (1e9 + number, 1e9 + number))
    assert identity(copy, tmp_path) == identity(data, tmp_path)


def test_a_single_changed_byte_of_a_picture_is_other_data(data, tmp_path):
    before = identity(data, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    path = copy / "office_home_clipart.tar"
    changed = bytearray(path.read_bytes())
    changed[changed.index(b"IDAT") + 20] ^= 1
    path.write_bytes(changed)
    assert identity(copy, tmp_path) != before
    path = copy / "office_home_clipart.tar"
    shutil.copy(data / path.name, path)
    assert identity(copy, tmp_path) == before


def test_the_answers_are_part_of_the_data(bench):
    scenario, answers = bench.task(JOB.task, None)
    other = Answers(np.roll(answers.labels, 1), answers.classes)
    assert content.of_task(scenario, answers) != content.of_task(scenario, other)


def test_what_a_set_holds_is_read_once(bench, monkeypatch):
    scenario, _ = bench.task(JOB.task, None)
    first = content.of(scenario.target)
    content._known.clear()
    monkeypatch.setattr(content, "_read", lambda images: pytest.fail("it was read again"))
    assert content.of(scenario.target) == first


def test_every_setting_that_decides_numbers_is_part_of_the_identity(bench):
    others = [
        replace(JOB, seed=1),
        replace(JOB, method="source-only"),
        replace(JOB, task="office-home:Art->Product"),
        *(
            replace(JOB, settings=SHORT | {k: v})
            for k, v in {"lr": 0.5, "heuristics": 1, "steps": 7, "batch": 4}.items()
        ),
        replace(JOB, settings=SHORT | {"precision": "bf16"}),
        replace(JOB, settings=SHORT | {"evaluate_every": 2}),
    ]
    assert len({bench.identity(job) for job in (JOB, *others)}) == 1 + len(others)


def test_compositions_of_methods_with_values_of_their_own_are_runs_of_their_own(bench):
    both = [replace(JOB, method=name, settings=SHORT | {"head": "plain"}) for name in ("cdan", "cdan-e")]
    assert bench.identity(both[0]) != bench.identity(both[1])


def test_what_decides_no_number_is_none(bench, monkeypatch):
    before = bench.identity(JOB)
    for name, value in {
        "graph": False,
        "compile": True,
        "resident": 1.0,
        "log_every": 1,
        "checkpoint_every": 1,
    }.items():
        assert bench.identity(replace(JOB, settings=SHORT | {name: value})) == before
    assert bench.identity(replace(JOB, settings=SHORT | {"steps": "6"})) == before, "the command line's words are text"
    assert bench.identity(replace(JOB, settings=SHORT | {"heuristics": 3})) == before, "it is the default"
    assert bench.identity(replace(JOB, variant="named", table="table2")) == before
    bench.place = Place("some device", "fp32")
    assert bench.identity(JOB) == before
    bench.place = Place("some device", "bf16")
    assert bench.identity(JOB) != before


@pytest.mark.parametrize(("where", "name"), [(runner, "REVISION"), (HDAN, "revision"), (SGD, "revision")])
def test_a_raised_revision_voids_what_was_done(bench, monkeypatch, where, name):
    before = bench.identity(JOB)
    monkeypatch.setattr(where, name, 2)
    assert bench.identity(JOB) != before


def test_a_commit_or_a_comment_voids_nothing(bench, monkeypatch):
    before = bench.identity(JOB)
    monkeypatch.setattr(runner, "_commit", lambda: "another")
    monkeypatch.setattr(HDAN, "__doc__", "Another comment.")
    monkeypatch.setattr(runner.hda, "__version__", "9.9")
    assert bench.identity(JOB) == before


def test_a_setting_that_comes_later_leaves_what_was_done(bench, monkeypatch):
    """A field more, at a default that changes nothing: the runs of before are still those runs."""
    before = bench.identity(JOB)
    method = dataclasses.make_dataclass(
        "Later", [("later", float, setting(0.0, "a later setting"))], bases=(HDAN.Settings,), frozen=True, kw_only=True
    )
    monkeypatch.setattr(HDAN, "Settings", method)
    assert bench.identity(JOB) == before
    assert bench.identity(replace(JOB, settings=SHORT | {"later": 1.0})) != before


# Doing


def test_what_is_done_has_a_row_and_is_not_done_again(bench, monkeypatch):
    jobs = [JOB, replace(JOB, seed=1), JOB]
    planned = bench.plan(jobs)
    assert [one.done for one in planned] == [False, False], "each run is there once"
    assert alone(bench, planned, Board()) == []
    first, second = bench.rows
    assert (first["seed"], second["seed"]) == (0, 1)
    monkeypatch.setattr(runner, "fit", lambda *args, **more: pytest.fail("it was done again"))
    again = bench.plan(jobs)
    assert [one.done for one in again] == [True, True]
    assert alone(bench, again, Board()) == []


def test_a_row_says_all_that_the_schema_promises(bench):
    bench.hold_out = 0.25
    alone(bench, bench.plan([JOB]), Board())
    (row,) = bench.rows
    promised = {
        "schema",
        "setting",
        "dataset",
        "task",
        "shots",
        "method",
        "variant",
        "seed",
        "steps",
        "batch",
        "backbone",
    }
    promised |= {
        "weights",
        "precision",
        "accuracy",
        "mean_class_accuracy",
        "per_class",
        "selected",
        "oracle",
        "accuracies",
    }
    promised |= {
        "hold_out",
        "device",
        "seconds",
        "images_per_second",
        "peak_memory",
        "hda",
        "commit",
        "torch",
        "versions",
    }
    promised |= {"fingerprint", "identity", "settings", "command", "table"}
    assert set(row) == promised
    assert (row["schema"], row["setting"], row["task"], row["dataset"]) == (1, "uda", "Art->Clipart", "office-home")
    assert row["accuracies"]["6"] == row["accuracy"] <= row["oracle"] == max(row["accuracies"].values())
    assert row["settings"]["steps"] == 6
    assert row["hold_out"]["share"] == 0.25
    assert row["hold_out"]["images"] == 5, "a quarter of 21, rounded"
    assert not list((bench.out / "runs").rglob("checkpoints")), "they are twice as large as what is needed"
    assert row["command"] == (
        "hda bench my_grid.py --data FOLDER --methods hdan --tasks 'office-home:Art->Clipart' --seeds 0 --hold-out 0.25"
    )


def test_several_sources_and_shots_have_rows_of_their_own(bench):
    several = replace(JOB, task="office-home:*->Clipart", settings=SHORT | {"select": "snd"})
    few = replace(JOB, method="ent", shots=1)
    assert alone(bench, bench.plan([several, few]), Board()) == []
    first, second = bench.rows
    assert (first["setting"], first["task"], first["shots"]) == ("msda", "Art,Product->Clipart", None)
    assert first["selected"]["validator"] == "snd"
    assert first["selected"]["accuracy"] == pytest.approx(first["accuracies"][str(first["selected"]["step"])], abs=0.01)
    assert (second["setting"], second["task"], second["shots"]) == ("ssda", "Art->Clipart", 1)


def test_what_a_kill_left_of_a_folder_does_not_stand_in_the_way(bench):
    (one,) = bench.plan([JOB])
    (one.folder / "checkpoints").mkdir(parents=True)
    (one.folder / "metrics.jsonl").write_text("{")
    assert bench.do(one)["steps"] == 6


def test_held_out_pictures_are_no_part_of_the_task_and_the_same_for_every_seed(bench):
    scenario, answers = bench.task(JOB.task, None)
    seen, unseen = hold_out(scenario, answers, 0.25)
    assert not set(seen[0].target.names) & set(unseen[0].target.names)
    assert sorted(seen[0].target.names + unseen[0].target.names) == sorted(scenario.target.names)
    truth = dict(zip(scenario.target.names, answers.labels.tolist(), strict=True))
    for part, found in (seen, unseen):
        assert [truth[name] for name in part.target.names] == found.labels.tolist()
    assert hold_out(scenario, answers, 0.25)[1][0].target.names == unseen[0].target.names
    assert hold_out(scenario, answers, 0.0) == ((scenario, answers), None)


class Stop(Reporter):
    def advance(self, step):
        if step == 5:
            raise KeyboardInterrupt


def test_a_run_begun_goes_on_from_its_checkpoint_and_a_run_done_without_a_row_gets_one(bench, monkeypatch):
    (one,) = bench.plan([JOB])
    with pytest.raises(KeyboardInterrupt):
        bench.do(one, Stop())
    (begun,) = bench.plan([replace(JOB, settings=SHORT | {"log_every": 1})])
    assert begun.folder == one.folder
    assert begun.share == pytest.approx(4 / 6)
    row = bench.do(begun)
    assert row["accuracies"].keys() == {3, 6}
    monkeypatch.setattr(runner, "fit", lambda *args, **more: pytest.fail("it was done again"))
    assert bench.do(begun)["accuracy"] == row["accuracy"]


def test_a_run_begun_with_a_copy_of_other_times_starts_again(bench, data, tmp_path):
    (one,) = bench.plan([JOB])
    with pytest.raises(KeyboardInterrupt):
        bench.do(one, Stop())
    copy = tmp_path / "copy"
    shutil.copytree(data, copy)
    for path in copy.iterdir():
        os.utime(path, (1e9, 1e9))
    notes = []
    reporter = Reporter()
    reporter.note = notes.append
    other = Bench(bench.out, copy)
    (same,) = other.plan([JOB])
    assert same.folder == one.folder
    assert other.do(same, reporter)["steps"] == 6
    assert any("it starts again" in note for note in notes)


def test_what_is_measured_apart_already_is_not_held_out_again(bench):
    scenario, answers = bench.task(JOB.task, None)
    test = replace(answers, images=scenario.target)
    with pytest.raises(UserError, match="test part that adaptation never sees: leave --hold-out out"):
        hold_out(scenario, test, 0.2)


def test_a_setting_that_one_method_lacks_is_told_with_the_method(bench):
    with pytest.raises(UserError, match="source-only has an unknown setting 'heuristics'"):
        bench.plan([replace(JOB, method="source-only", settings=SHORT | {"heuristics": 1})])


def test_two_that_add_one_run_s_row_leave_one(bench):
    assert bench.add({"identity": "a", "task": "t", "method": "m", "seed": 0, "accuracy": 1.0})
    assert not bench.add({"identity": "a", "task": "t", "method": "m", "seed": 0, "accuracy": 1.0})
    assert len(bench.rows) == 1


def test_domains_that_are_not_there_are_known_before(bench):
    jobs = [JOB, Job("office-home:Real World->Art", "hdan"), Job("office-home:*->Art", "hdan")]
    assert bench.missing(jobs) == {"office-home:Real World->Art": ["Real World"]}
    table = [Job("office-home:*->Art", "hdan", table="table3")]
    assert bench.missing(table) == {"office-home:*->Art": ["Real World"]}, "a table of the paper has all domains"


def test_a_method_that_does_not_know_the_setting_is_told(bench, monkeypatch):
    monkeypatch.setattr(HDAN, "supports", frozenset({"msda"}))
    with pytest.raises(UserError, match="hdan does not know the setting uda of office-home:Art->Clipart, only msda"):
        bench.plan([JOB])


def test_the_estimate_is_of_rows_alike_and_counts_no_step_twice(bench):
    (one,) = bench.plan([JOB])
    half = replace_planned(one, share=0.5)
    alike = {"device": "cpu", "backbone": "small", "method": "hdan", "steps": 3, "seconds": 30.0}
    assert estimate([one], [alike], "cpu") == (pytest.approx(60.0), 1)
    assert estimate([half], [alike], "cpu") == (pytest.approx(30.0), 1)
    assert estimate([one, half], [{**alike, "method": "dann", "seconds": 3.0}], "cpu") == (pytest.approx(9.0), 1)
    assert estimate([one], [alike, {**alike, "method": "dann", "seconds": 3.0}], "cpu") == (pytest.approx(60.0), 1)
    assert estimate([one], [{**alike, "device": "GPU"}], "cpu") is None
    assert estimate([one], [{**alike, "backbone": "resnet50"}], "cpu") is None
    assert estimate([replace_planned(one, done=True)], [], "cpu") == (0.0, 0)


def replace_planned(one, **changes):
    return type(one)(**{**{name: getattr(one, name) for name in one.__dataclass_fields__}, **changes})


def test_the_commit_is_the_checkout_s_or_is_given(monkeypatch):
    monkeypatch.delenv("HDA_COMMIT", raising=False)
    runner._commit.cache_clear()
    folder = runner.Path(runner.__file__).parent
    told = subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert runner._commit().removesuffix("-dirty") in (told.stdout.strip(), "")
    monkeypatch.setenv("HDA_COMMIT", "given")
    runner._commit.cache_clear()
    assert runner._commit() == "given"
    runner._commit.cache_clear()


def test_a_commit_whose_files_were_changed_is_called_dirty(tmp_path, monkeypatch):
    package = tmp_path / "src" / "hda" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.touch()

    def git(*words):
        given = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
        subprocess.run(["git", "-C", tmp_path, *given, *words], capture_output=True, check=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    monkeypatch.delenv("HDA_COMMIT", raising=False)
    monkeypatch.setattr(runner.hda, "__file__", str(package))
    found = []
    for change in (lambda: None, (tmp_path / "notes").touch, lambda: package.write_text("1")):
        change()
        runner._commit.cache_clear()
        found.append(runner._commit())
    runner._commit.cache_clear()
    assert len(found[0]) == 40
    assert found == [found[0], found[0], f"{found[0]}-dirty"]  # what lies outside the package computes nothing
