"""Runs that are killed and go on, in processes of their own: what comes out is what a run never stopped gives."""

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import hda
from hda.engine.reporter import Reporter
from hda.registry import lookup, registered


@pytest.fixture(scope="session")
def whole(apart, outcome, tmp_path_factory):
    """Called with a job: what its run comes to if nothing stops it."""
    known = {}

    def run(**job):
        key = json.dumps(job, sort_keys=True)
        if key not in known:
            out = tmp_path_factory.mktemp("whole") / "run"
            assert apart(out=out, **job).code == 0
            known[key] = outcome(out)
        return known[key]

    return run


@pytest.fixture
def killed(apart, tmp_path):
    """Called with a job and how it is killed: the folder that is left."""

    def run(kill, **job):
        out = tmp_path / "runs" / "run"
        ended = apart(out=out, kill=kill, **job)
        assert ended.signal == signal.SIGKILL, ended.err
        return out

    return run


def steps_on_disk(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))


def resumptions(run: Path) -> list[int]:
    return [record["step"] for record in hda.Run(run).records if record.get("event") == "resumed"]


def drafts(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*.tmp")]


def everything(folder: Path) -> dict[str, tuple]:
    """Every file and folder with its bytes, its number, and when it was last changed."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_ino, path.is_file() and path.read_bytes())
        for path in (folder, *folder.rglob("*"))
    }


class Notes(Reporter):
    def __init__(self) -> None:
        self.notes = []

    def note(self, sentence):
        self.notes.append(sentence)


# Exactly as if it had never stopped


@pytest.mark.parametrize("method", sorted(registered("methods")))
def test_every_method_goes_on_bit_for_bit_after_a_kill(method, apart, whole, killed, outcome):
    setting = next(name for name in ("uda", "msda", "ssda") if name in lookup("methods", method).supports)
    job = {"setting": setting, "options": {"method": method}}
    run = killed({"step": 8}, **job)
    begun = max(steps_on_disk(run))
    assert begun in (3, 6)  # 6 is written while the run goes on
    assert apart(out=run, resume=True, **job).code == 0
    assert outcome(run) == whole(**job)
    assert resumptions(run) == [begun]
    assert hda.Run(run).result["resumed_from"] == begun


@pytest.mark.parametrize(
    "job",
    [
        {"setting": "msda"},
        {"setting": "msda", "options": {"mixing": "balanced"}},
        {"setting": "ssda"},
        {"setting": "ssda", "options": {"method": "se", "augment": "colour"}},
        {"options": {"recipe": "adamw", "augment": "resized-crop", "target_batch": 6}},
        {"options": {"momentum": 0, "augment": "crop-flip", "size": 24}},
        {"options": {"precision": "bf16", "log_every": 1}},
        {"threads": 2, "options": {"steps": 9}},
        {"evaluate": False},
    ],
    ids=lambda job: "-".join(
        str(value) for value in (job | job.get("options", {})).values() if type(value) is not dict
    ),
)
def test_every_kind_of_run_goes_on_bit_for_bit_after_a_kill(job, apart, whole, killed, outcome):
    run = killed({"step": 8}, **job)
    assert apart(out=run, resume=True, **job).code == 0
    assert outcome(run) == whole(**job)


def test_a_run_may_be_killed_many_times_anywhere(apart, whole, tmp_path, outcome):
    job = {"options": {"steps": 30}}
    run = tmp_path / "run"
    kills = sorted(np.random.default_rng(0).choice(np.arange(1, 31), size=5, replace=False).tolist())
    expected = []
    for number, step in enumerate(kills):
        assert apart(out=run, kill={"step": step}, resume=number > 0, **job).signal == signal.SIGKILL
        expected.append(max(steps_on_disk(run), default=0))
    assert apart(out=run, resume=True, **job).code == 0
    assert outcome(run) == whole(**job)
    assert resumptions(run) == expected
    assert hda.Run(run).result["resumed_from"] == expected[-1]


def test_a_run_killed_before_its_first_checkpoint_begins_anew(apart, whole, killed, outcome):
    run = killed({"step": 2})
    assert steps_on_disk(run) == []
    assert apart(out=run, resume=True).code == 0
    assert outcome(run) == whole()
    assert resumptions(run) == [0]


TENSORS = ("model.safetensors", "training.safetensors")


@pytest.mark.parametrize("name", TENSORS)
def test_half_a_checkpoint_is_no_checkpoint(name, apart, whole, killed, outcome):
    run = killed({"tear": name})
    draft = next((run / "checkpoints").glob(".step-00000003.*.tmp"))
    assert sorted(path.name for path in draft.iterdir()) == sorted(TENSORS[: TENSORS.index(name) + 1])
    assert steps_on_disk(run) == []
    assert apart(out=run, resume=True).code == 0
    assert outcome(run) == whole()
    assert drafts(run) == []


@pytest.mark.parametrize(
    ("act", "left"),
    [
        (("os.rename", "step-00000003"), []),  # it is whole, but not yet in its place
        (("os.rename", "step-00000006"), [3]),
        (("shutil.rmtree", "step-00000003"), [3, 6]),  # in its place, the older one still there
        (("os.rmdir", "step-00000003"), [3, 6]),  # the older one empty
        (("os.rename", "step-00000010"), [9]),  # the last
        (("os.rmdir", "step-00000009"), [9, 10]),
    ],
)
def test_a_kill_around_the_renaming_of_a_checkpoint_loses_nothing(act, left, apart, whole, killed, outcome):
    run = killed({"act": act})
    assert steps_on_disk(run) == left
    assert apart(out=run, resume=True).code == 0
    assert resumptions(run) == [max(left, default=0)]
    assert outcome(run) == whole()
    assert drafts(run) == []


@pytest.mark.parametrize("name", ["model.safetensors", "predictions.csv", "result.json"])
@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}], ids=["fp32", "bf16"])
def test_a_kill_while_the_result_is_written_is_made_good(name, options, apart, whole, killed, outcome):
    nth = 2 if name == "model.safetensors" else 1
    run = killed({"act": ("os.rename", name)}, options=options)
    assert not (run / name).exists(), nth
    assert hda.Run(run).result is None
    assert apart(out=run, resume=True, options=options).code == 0
    assert resumptions(run) == [10]
    assert outcome(run) == whole(options=options)
    assert drafts(run) == []


@pytest.mark.parametrize("line", [0, 2, 5])
def test_half_a_line_of_metrics_is_written_again(line, apart, whole, killed, outcome):
    run = killed({"line": line}, options={"log_every": 2})
    text = (run / "metrics.jsonl").read_text()
    assert text.count("\n") == line
    assert len(text.rpartition("\n")[2]) == 20
    assert apart(out=run, resume=True, options={"log_every": 2}).code == 0
    assert outcome(run) == whole(options={"log_every": 2})


def test_a_kill_at_any_touch_of_the_file_system_is_made_good(apart, whole, tmp_path, outcome):
    job = {"evaluate": False, "options": {"steps": 2, "checkpoint_every": 1}}
    ended = apart(out=tmp_path / "count" / "run", kill={"touch": -1}, **job)
    touches = int(ended.out)
    assert touches > 20
    for touch in range(touches):
        run = tmp_path / str(touch) / "run"
        assert apart(out=run, kill={"touch": touch}, **job).signal == signal.SIGKILL, touch
        ended = apart(out=run, resume=True, **job)
        assert ended.code == 0, f"{touch}: {ended.err}"
        assert outcome(run) == whole(**job), touch
        assert drafts(run.parent) == [], touch
        shutil.rmtree(run.parent)


@pytest.mark.parametrize("act", [("os.mkdir", "runs"), ("os.rename", "settings.json"), ("os.rename", "run")])
def test_a_kill_while_the_folder_is_made_leaves_the_way_free(act, apart, whole, killed, outcome):
    run = killed({"act": act})
    assert not run.exists()
    assert apart(out=run).code == 0
    assert outcome(run) == whole()
    assert [path.name for path in run.parent.iterdir()] == ["run"]


# From outside, with the command line


def test_ctrl_c_and_a_kill_from_outside_at_any_moment(words, interrupt, apart, tmp_path, outcome):
    often = ("--steps", 400, "--evaluate-every", 1, "--checkpoint-every", 10, "--log-every", 5)
    run = tmp_path / "run"
    code, err = interrupt(words(run, *often), "step 25 of 400: target accuracy", signal.SIGINT)
    assert code == 130
    assert err.splitlines()[-1].startswith("hda: interrupted")
    assert "Traceback" not in err
    assert hda.Run(run).result is None
    code, _ = interrupt(words(run, *often, "--resume"), "step 60 of 400: target accuracy", signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert hda.Run(run).result is None
    ended = apart(words=["fit", "--resume", "--out", str(run), "--json"])
    assert ended.code == 0, ended.err
    told = json.loads(ended.out.splitlines()[-1])
    assert len(resumptions(run)) == 2
    assert told["resumed_from"] == resumptions(run)[-1] >= 50
    assert f"resumed at step {told['resumed_from']}" in ended.out
    assert apart(words=words(tmp_path / "whole", *often)).code == 0
    assert outcome(run) == outcome(tmp_path / "whole")
    assert len(outcome(run)["metrics.jsonl"]) == 481  # 400 accuracies; losses at step 1 and every fifth


def test_a_finished_run_says_so_and_stays_as_it_is(words, apart, tmp_path):
    run = tmp_path / "run"
    first = apart(words=words(run, "--steps", 2, "--json"))
    assert first.code == 0, first.err
    before = everything(run)
    for given in (["fit", "--resume", "--out", str(run)], words(run, "--steps", 2, "--resume")):
        again = apart(words=[*given, "--json"])
        assert again.code == 0
        assert f"{run} is finished: nothing is left to do" in again.out.splitlines()
        assert again.out.splitlines()[-1] == first.out.splitlines()[-1]
        assert everything(run) == before


def test_what_cannot_go_on_is_refused_in_one_sentence_and_left_alone(folders, words, apart, tmp_path):
    run = tmp_path / "run"
    assert apart(words=words(run, "--steps", 2)).code == 0
    before = everything(run)
    go_on = ["fit", "--resume", "--out", str(run)]
    for given, sentence in (
        (words(run, "--steps", 2), f"{run} exists: give another --out, or --resume to go on with it"),
        ([*go_on, "--steps", "3"], f"{run} was begun with --steps 2 and cannot go on with 3: leave the option"),
        ([*go_on, "--lr", "0.1"], f"{run} was begun with --lr auto and cannot go on with 0.1: leave the option"),
        ([*go_on, "--method", "mcd"], f"{run} was begun with --method hdan and cannot go on with mcd: leave"),
        ([*go_on, "--recipe", "adamw"], f"{run} was begun with --recipe sgd and cannot go on with adamw: leave"),
        ([*go_on, "--weights", "pretrained"], f"{run} was begun with --weights none and cannot go on with pre"),
        ([*go_on, "--source", str(folders / "bright"), "--target", str(folders / "dark")], "the pictures are not"),
        (["fit", "--resume", "--out", str(tmp_path)], f"{tmp_path} is not a run's folder"),
        (words(folders, "--resume"), f"{folders} exists: give another --out"),
        (words(run / "settings.json" / "run"), f"{run}/settings.json/run cannot be made"),
    ):
        ended = apart(words=given)
        assert ended.code == 2, given
        assert ended.err.startswith(f"hda: {sentence}"), given
        assert ended.err.count("\n") == 1, ended.err
        assert everything(run) == before, given


def test_a_loss_that_is_not_finite_is_told_in_one_sentence(words, apart, tmp_path):
    for steps, sentence in ((6, "classification is no longer finite within the 5 steps to step 6"), (1, "predictions")):
        ended = apart(words=words(tmp_path / str(steps), "--lr", "1e30", "--steps", steps))
        assert ended.code == 2
        assert ended.err.splitlines()[-1].startswith(f"hda: {sentence}")
        assert "give a lower --lr" in ended.err
        assert "Traceback" not in ended.err
        assert not (tmp_path / str(steps) / "result.json").exists()


# What is refused


def test_pictures_that_have_changed_are_refused(folders, words, apart, tmp_path):
    mine = shutil.copytree(folders, tmp_path / "mine")
    run = tmp_path / "run"
    assert apart(words=words(run, "--steps", 2, folders=mine)).code == 0
    picture = mine / "bright" / "red" / "3.png"
    shutil.copy(mine / "bright" / "red" / "2.png", picture)
    os.utime(picture, ns=(1, 1))
    ended = apart(words=["fit", "--resume", "--out", str(run)])
    assert (ended.code, ended.err) == (
        2,
        f"hda: the pictures are not those that {run} was begun with: give another --out for a new run\n",
    )


def test_classes_that_have_changed_are_refused(folders, words, apart, tmp_path):
    run = tmp_path / "run"
    assert apart(words=words(run, "--steps", 2)).code == 0
    told = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps({**told, "classes": told["classes"][:-1]}))
    ended = apart(words=["fit", "--resume", "--out", str(run)])
    assert ended.code == 2
    assert ended.err.startswith(f"hda: the classes are not those that {run} was begun with: ")


def test_weights_may_move_but_not_change(task, short, tmp_path):
    from safetensors.torch import save_file

    from hda import backbones

    net = backbones.create("small", "none").net
    scenario, _ = task()
    for name, factor in (("w", 1.0), ("other/w", 1.0), ("changed/w", 2.0)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        values = {key: (value * factor).contiguous() for key, value in net.state_dict().items()}
        save_file(values, tmp_path / f"{name}.safetensors")

    class Stop(Reporter):
        def advance(self, step):
            raise KeyboardInterrupt

    def fit(weights, **more):
        options = {**short, "steps": 2, "weights": tmp_path / weights}
        return hda.fit(scenario, out=tmp_path / "run", **options, **more)

    with pytest.raises(KeyboardInterrupt):
        fit("w.safetensors", reporter=Stop())
    with pytest.raises(hda.UserError, match="the weights are not those that"):
        fit("changed/w.safetensors", resume=True)
    assert fit("other/w.safetensors", resume=True).result["steps"] == 2


def test_a_folder_that_is_being_written_is_refused(task, short, apart, tmp_path, whole, outcome):
    run = tmp_path / "run"
    first = apart(out=run, kill={"step": 5, "signal": signal.SIGSTOP})
    assert first.stopped
    scenario, answers = task()
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(hda.UserError) as caught:
        hda.fit(scenario, out=run, evaluate=answers, resume=True, **short)
    assert str(caught.value) == f"{run} is being written by another process: wait for it or give another --out"
    with pytest.raises(hda.UserError, match="run exists: give another --out, or --resume to go on with it"):
        hda.fit(scenario, out=run, evaluate=answers, **short)
    assert (run / "metrics.jsonl").read_bytes() == before
    apart(end=first.pid)
    assert apart(out=run, resume=True).code == 0
    assert outcome(run) == whole()


class Meanwhile(Notes):
    """Does something once, between the look at the folder and the start of training."""

    def __init__(self, act) -> None:
        super().__init__()
        self.act = act

    def note(self, sentence):
        super().note(sentence)
        act, self.act = self.act, lambda: None
        act()


def test_a_folder_that_appears_meanwhile_is_refused(task, short, apart, tmp_path):
    scenario, _ = task()
    run = tmp_path / "run"
    left = []

    def act():
        assert apart(out=run, evaluate=False).code == 0
        left.append(everything(run))

    with pytest.raises(hda.UserError, match="run exists: give another --out, or --resume to go on with it"):
        hda.fit(scenario, out=run, reporter=Meanwhile(act), **short)
    assert everything(run) == left[0]


def test_a_run_that_another_process_finishes_meanwhile_stays_as_it_is(task, short, apart, killed):
    scenario, _ = task()
    run = killed({"step": 8}, evaluate=False)
    left = []

    def act():
        assert apart(out=run, evaluate=False, resume=True).code == 0
        left.append(everything(run))

    reporter = Meanwhile(act)
    hda.fit(scenario, out=run, reporter=reporter, resume=True, **short)
    assert f"{run} is finished: nothing is left to do" in reporter.notes
    assert everything(run) == left[0]


def test_a_damaged_checkpoint_is_told_in_one_sentence(task, short, killed):
    run = killed({"step": 8}, evaluate=False)
    scenario, _ = task()
    file = run / "checkpoints" / f"step-{max(steps_on_disk(run)):08d}" / "training.safetensors"
    os.truncate(file, 100)
    with pytest.raises(hda.UserError, match=r"the checkpoint .*step-\d+ is damaged \(.*\): begin anew with another"):
        hda.fit(scenario, out=run, resume=True, **short)


@pytest.mark.parametrize("change", [{"sampler": {}}, {"names": ["one"]}])
def test_a_checkpoint_of_something_else_is_told_in_one_sentence(change, task, short, killed):
    run = killed({"step": 8}, evaluate=False)
    scenario, _ = task()
    file = run / "checkpoints" / f"step-{max(steps_on_disk(run)):08d}" / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(hda.UserError, match=r"the checkpoint .*step-\d+ is not one of this run \(.*\): begin anew"):
        hda.fit(scenario, out=run, resume=True, **short)


def test_resuming_leaves_the_caller_s_random_numbers_alone(task, short, killed):
    run = killed({"step": 8}, evaluate=False)
    scenario, _ = task()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    hda.fit(scenario, out=run, resume=True, **short)
    assert torch.equal(torch.get_rng_state(), before)
