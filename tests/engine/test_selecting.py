"""Which state of a run is chosen, with whose help, and that a kill changes nothing of it."""

import dataclasses
import json
import shutil
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hda
from hda.data import augment
from hda.data.digits import digits
from hda.data.samplers import Sampler
from hda.demo import METHODS, PLAIN, SETTINGS
from hda.engine.reporter import Reporter
from hda.engine.selecting import Selecting, rows_held_out, selected, states
from hda.engine.step import Step
from hda.registry import registered
from hda.selection import Seen, Unlabelled, validator

VALIDATORS = sorted(registered("selection"))
OFTEN = {"evaluate_every": 2}
HOLDING = [name for name in VALIDATORS if "held_out" in registered("selection")[name].needs]


@pytest.fixture
def run(task, short, tmp_path):
    """Called with settings: fits the small task in a new folder."""
    count = iter(range(1000))

    def fit(scenario=None, **given):
        given = {"out": tmp_path / f"run-{next(count)}", **short, **OFTEN, **given}
        return hda.fit(scenario or task()[0], **given)

    return fit


def scores(run: hda.Run) -> list[dict]:
    """What was measured without target labels, line by line."""
    return [
        {name: value for name, value in record.items() if name.startswith("select") or name == "step"}
        for record in run.records
        if "selected" in record
    ]


def training_state(run: hda.Run) -> dict[str, bytes]:
    (last,) = (run.path / "checkpoints").iterdir()
    return {path.name: path.read_bytes() for path in last.glob("*.safetensors")}


# Target labels are out of reach


@pytest.mark.parametrize("name", VALIDATORS)
def test_no_answer_reaches_a_validator(name, task, run):
    scenario, answers = task()
    poisoned = dataclasses.replace(answers, labels=(answers.labels + 3) % 10)
    without = run(scenario, select=name)
    assert len(scores(without)) == 5
    for given in (answers, poisoned):
        other = run(scenario, select=name, evaluate=given)
        assert scores(other) == scores(without)
        assert (other.path / "selected.safetensors").read_bytes() == (
            without.path / "selected.safetensors"
        ).read_bytes()
    chosen = without.result["selected"]
    assert chosen["target_accuracy"] is None
    assert "oracle" not in without.result
    assert other.result["selected"] == {**chosen, "target_accuracy": pytest.approx(chosen_accuracy(other))}


def chosen_accuracy(run: hda.Run) -> float:
    steps, values = run.curve("target_accuracy")
    return float(values[steps.tolist().index(run.result["selected"]["step"])])


def test_a_validator_is_shown_pictures_of_both_domains_and_no_more_than_it_needs(task, run, monkeypatch):
    seen: list[Seen] = []
    scenario, answers = task()
    for name, source, held in (("infomax", None, None), ("reverse", 40, None), ("dev", 30, 10)):
        cls = registered("selection")[name]
        original = cls.score
        monkeypatch.setattr(
            cls, "score", lambda self, what, original=original: seen.append(what) or original(self, what)
        )
        run(scenario, select=name, evaluate=answers, steps=2)
        (what,) = seen
        seen.clear()
        assert what.target.features.shape == (30, 64)
        assert what.target.logits.shape == (30, 10)
        assert (what.source and len(what.source)) == source
        assert (what.held_out and len(what.held_out)) == held


def test_what_is_shown_is_what_the_method_makes_of_the_very_pictures(task, run, monkeypatch):
    seen: list[Seen] = []
    cls = registered("selection")["dev"]
    monkeypatch.setattr(cls, "score", lambda self, what: seen.append(what) or 0.0)
    scenario, _ = task("msda")
    fitted = run(scenario, select="dev", steps=2)
    (what,) = seen
    method = fitted.method()
    view = augment.evaluation("affine", method.backbone.size, method.backbone.mean, method.backbone.std)

    def look(images):
        pictures = torch.from_numpy(np.stack([images.array(i) for i in range(len(images))]))
        with torch.inference_mode():
            return method(view(pictures)).numpy()

    np.testing.assert_allclose(what.target.logits, look(scenario.target), rtol=1e-4, atol=1e-5)
    logits = np.concatenate([look(source.images) for source in scenario.sources])
    labels = np.concatenate([source.labels for source in scenario.sources])
    held = rows_held_out(scenario, 0.1, 0)
    trained = np.setdiff1d(np.arange(60), held)
    for part, rows in ((what.held_out, held), (what.source, trained)):
        np.testing.assert_allclose(part.logits, logits[rows], rtol=1e-4, atol=1e-5)
        assert part.labels.tolist() == labels[rows].tolist()


# What is held out


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_pictures_held_out_are_never_trained_on(setting, task, run, monkeypatch):
    drawn: list[np.ndarray] = []
    steps: list[tuple] = []
    scenario, _ = task(setting)
    original, step = Sampler.next, Step.run
    monkeypatch.setattr(Sampler, "next", lambda self: drawn.append((draw := original(self)).pictures) or draw)

    def watched(self):
        steps.append((self.labels.clone(), self.pictures.clone()))
        step(self)

    monkeypatch.setattr(Step, "run", watched)
    fitted = run(scenario, source_hold_out=0.25, steps=30, evaluate_every=30)
    sizes = [len(source) for source in scenario.sources]
    held = rows_held_out(scenario, 0.25, 0)
    trained = set(range(sum(sizes))) - set(held.tolist())
    seen = np.concatenate(drawn)
    assert set(seen[seen < sum(sizes)].tolist()) == trained
    everything = sum(sizes) + (10 if setting == "ssda" else 0) + 30
    assert set(range(sum(sizes), everything)) <= set(seen.tolist())
    assert fitted.result["images"]["held_out"] == len(held)
    # labels and pictures are still each other's
    labels = np.concatenate(
        [s.labels for s in scenario.sources] + ([scenario.labelled.labels] if scenario.labelled else [])
    )
    for rows, (found, pictures) in zip(drawn, steps, strict=False):
        assert found.tolist() == labels[rows[: len(found)]].tolist()
        first = scenario.sources[0]
        for row, picture in zip(rows, pictures, strict=True):
            if row < len(first):
                assert np.array_equal(picture.numpy(), first.images.array(int(row)))


@pytest.mark.parametrize("name", VALIDATORS)
def test_pictures_are_held_out_only_for_validators_that_need_them(name, run):
    settings = run(select=name, steps=2).settings.fit
    assert settings.source_hold_out == (0.1 if name in HOLDING else 0.0)


def test_measuring_changes_nothing_of_the_training(run):
    plain = run()
    for more in ({"select": "snd"}, {"select": "ranks"}, {"keep_checkpoints": True}):
        assert training_state(run(**more)) == training_state(plain)
    assert not states(plain.path)
    assert training_state(run(source_hold_out=0.1)) != training_state(plain)


# What is chosen and kept


@pytest.mark.parametrize("name", ["infomax", "snd", "ranks"])
def test_the_state_chosen_is_the_best_of_all_measured(name, task, run):
    scenario, answers = task()
    fitted = run(scenario, evaluate=answers, select=name, keep_checkpoints=True, steps=11)
    kept = states(fitted.path)
    assert list(kept) == [2, 4, 6, 8, 10, 11]
    judge = validator(name)
    measured = [
        {key.removeprefix("selection."): value for key, value in line.items() if key.startswith("selection.")}
        for line in scores(fitted)
    ]
    values = judge.values(measured)
    step = list(kept)[int(np.argmax(values))]
    assert fitted.result["selected"] == {
        "validator": name,
        "step": step,
        "score": pytest.approx(max(values)),
        "target_accuracy": chosen_accuracy(fitted),
    }
    assert (fitted.path / "selected.safetensors").read_bytes() == kept[step].read_bytes()
    last, model = (load_file(path) for path in (kept[11], fitted.path / "model.safetensors"))
    assert all(torch.equal(last[key], model[key]) for key in model)
    bare = run(scenario, select=name, steps=11)
    assert not states(bare.path)
    assert (bare.path / "selected.safetensors").read_bytes() == kept[step].read_bytes()


def test_the_result_is_the_last_iteration_s_and_the_oracle_is_called_the_oracle(task, run):
    scenario, answers = task()
    result = run(scenario, evaluate=answers, select="entropy").result
    steps, values = hda.Run(run(scenario, evaluate=answers, select="entropy").path).curve("target_accuracy")
    assert result["target_accuracy"] == values[-1]
    assert result["oracle"] == {"step": steps[int(np.argmax(values))], "target_accuracy": max(values)}
    assert run(scenario, evaluate=answers).result["selected"] is None


def test_either_state_predicts(task, run):
    scenario, _ = task()
    fitted = run(scenario, select="entropy", keep_checkpoints=True, lr=0.1)
    step = fitted.result["selected"]["step"]
    other = fitted.predict(scenario.target, checkpoint="selected")
    shutil.copy(states(fitted.path)[step], fitted.path / "model.safetensors")
    np.testing.assert_array_equal(other.probabilities, fitted.predict(scenario.target).probabilities)


def test_a_state_that_there_is_not_is_told(run, task):
    scenario, _ = task()
    fitted = run(steps=1)
    with pytest.raises(hda.UserError, match="has no selected checkpoint: it was begun without --select"):
        fitted.predict(scenario.target, checkpoint="selected")
    with pytest.raises(hda.UserError, match="unknown checkpoint 'best'"):
        fitted.predict(scenario.target, checkpoint="best")


def test_an_unfinished_run_has_the_state_chosen_so_far(run, tmp_path):
    class Stop(Reporter):
        def advance(self, step):
            if step == 9:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(select="infomax", reporter=Stop(), out=tmp_path / "stopped")
    stopped, whole = hda.Run(tmp_path / "stopped"), run(select="infomax", keep_checkpoints=True)
    chosen = scores(stopped)[-1]["selected"]
    path = selected(stopped.path, stopped.records)
    assert path.read_bytes() == states(whole.path)[chosen].read_bytes()
    assert stopped.method("selected") is not None


def test_mistakes_are_told_before_anything_is_read(run, tmp_path):
    for given, sentence in (
        ({"select": "sdn"}, "unknown validator 'sdn': did you mean 'snd'"),
        ({"select": "dev", "source_hold_out": 0}, "source_hold_out must be above 0 for the validator dev"),
        ({"source_hold_out": 0.9}, "source_hold_out must be between 0 and 0.5"),
    ):
        with pytest.raises(hda.UserError, match=sentence):
            run(**given)
    assert list(tmp_path.iterdir()) == []
    fitted = run(select="snd", steps=1)
    with pytest.raises(hda.UserError, match="was begun with --select snd and cannot go on with infomax"):
        run(out=fitted.path, select="infomax", steps=1, resume=True)


# Killed


@pytest.mark.parametrize(("name", "keep"), [("snd", False), ("ranks", False), ("source-accuracy", True)])
def test_a_kill_changes_nothing_of_the_choice(name, keep, apart, outcome, tmp_path):
    job = {"options": {**OFTEN, "select": name, "keep_checkpoints": keep, "evaluate_every": 1}}
    assert apart(out=tmp_path / "whole", **job).code == 0
    whole = outcome(tmp_path / "whole")
    assert "selected.safetensors" in whole
    for kills in ((5,), (2, 8)):
        out = tmp_path / "-".join(map(str, kills))
        for number, step in enumerate(kills):
            assert apart(out=out, kill={"step": step}, resume=number > 0, **job).signal == signal.SIGKILL
        assert apart(out=out, resume=True, **job).code == 0
        assert outcome(out) == whole


@pytest.mark.parametrize(
    "act",
    [
        ("os.rename", "model-{last}.safetensors"),  # a better state is written, and not yet in its place
        ("os.remove", "model-{first}.safetensors"),  # the one before may go
        ("os.rename", "step-00000003"),
        ("os.rename", "selected.safetensors"),
        ("os.remove", "model-{last}.safetensors"),  # the choice is in its place, its source not yet gone
        ("os.rename", "predictions.csv"),
        ("os.rename", "result.json"),
    ],
)
def test_a_kill_around_the_writing_of_a_choice_is_made_good(act, apart, outcome, chosen_whole, tmp_path):
    job, whole, steps = chosen_whole
    run, act = tmp_path / "run", (act[0], act[1].format(**steps))
    assert apart(out=run, kill={"act": act}, **job).signal == signal.SIGKILL
    assert apart(out=run, resume=True, **job).code == 0
    assert outcome(run) == whole


@pytest.fixture(scope="module")
def chosen_whole(apart, outcome, tmp_path_factory):
    """A job, what it comes to, and the states that it chooses first and last."""
    job = {"options": {"steps": 4, "checkpoint_every": 3, "evaluate_every": 1, "select": "infomax", "lr": 0.1}}
    out = tmp_path_factory.mktemp("chosen") / "run"
    assert apart(out=out, **job).code == 0
    return job, outcome(out), {"first": "00000001", "last": f"{scores(hda.Run(out))[-1]['selected']:08d}"}


def test_a_state_from_after_the_last_checkpoint_is_not_gone_on_with(task, run, short, tmp_path):
    """Where numbers differ from time to time, as on a GPU, the choice must be of states of this very run."""
    scenario, _ = task()

    class Stop(Reporter):
        def advance(self, step):
            if step == 9:  # the checkpoint before is of step 6
                raise KeyboardInterrupt

    options = {**short, "select": "infomax", "evaluate_every": 1, "keep_checkpoints": True}
    with pytest.raises(KeyboardInterrupt):
        hda.fit(scenario, out=tmp_path / "run", reporter=Stop(), **options)
    assert list(states(tmp_path / "run")) == [1, 2, 3, 4, 5, 6, 7, 8]
    seen = []

    class Look(Reporter):
        def begin(self, start, steps):
            seen.append((start, list(states(tmp_path / "run"))))

    hda.fit(scenario, out=tmp_path / "run", reporter=Look(), resume=True, **options)
    assert seen == [(6, [1, 2, 3, 4, 5, 6])]


def test_a_state_that_the_last_checkpoint_may_go_back_to_is_not_deleted(tmp_path, monkeypatch):
    """On a GPU a resumed run need not come to the better state again: the one before is the choice then."""
    given = iter([1.0, 5.0, 4.0, 7.0, 9.0])
    monkeypatch.setattr(registered("selection")["entropy"], "score", lambda self, seen: next(given))
    records = []

    def add(selecting, step, durable):
        line = selecting.add(
            step, Seen(none_to_see()), lambda: {"weight": torch.tensor([float(step)])}, lambda: durable
        )
        records.append({"step": step, **line})

    first = Selecting(tmp_path, "entropy", keep=False)
    for step, durable in ((1, 0), (2, 0), (3, 2), (4, 3)):
        add(first, step, durable)
    assert list(states(tmp_path)) == [2, 4]  # the last checkpoint is of step 3, and the choice was 2 there
    resumed = Selecting(tmp_path, "entropy", keep=False)
    resumed.restore(records, 3)
    assert list(states(tmp_path)) == [2]
    assert resumed.chosen() == 2
    assert resumed.finish() == {"validator": "entropy", "step": 2, "score": 5.0}
    assert load_file(tmp_path / "selected.safetensors")["weight"].item() == 2.0
    assert not states(tmp_path)


def test_a_rank_that_rises_as_others_come_brings_an_older_state_back(tmp_path, monkeypatch):
    three = [4.0, 5.0, 1.0, 2.0, 3.0]  # by three members the second is above the first
    fourth = [9.0, 1.0, 6.0, 7.0, 8.0]  # by the fourth all that come later are between the two
    measured = iter(
        [{"infomax": a, "snd": a, "class-ami": a, "reverse": b} for a, b in zip(three, fourth, strict=True)]
    )
    monkeypatch.setattr(registered("selection")["ranks"], "measure", lambda self, seen: next(measured))
    selecting, chosen = Selecting(tmp_path, "ranks", keep=False), []
    for step in range(1, 6):
        weights = {"weight": torch.tensor([float(step)])}
        chosen.append(selecting.add(step, Seen(none_to_see()), lambda w=weights: w, lambda s=step: s)["selected"])
    assert (chosen[1], chosen[-1]) == (2, 1)
    assert selecting.finish() == {"validator": "ranks", "step": 1, "score": pytest.approx(17 / 4 / 5)}
    assert load_file(tmp_path / "selected.safetensors")["weight"].item() == 1.0
    assert not states(tmp_path)


def none_to_see() -> Unlabelled:
    return Unlabelled(np.zeros((2, 1)), np.zeros((2, 1)))


# On real handwriting


def test_validators_tell_a_trained_model_from_one_that_has_hardly_begun(tmp_path):
    scenario, answers = digits(600)
    scenario = dataclasses.replace(scenario, target=scenario.target.select(range(400)))
    answers = answers.select(range(400))
    common = {**SETTINGS, **METHODS[PLAIN], "device": "cpu", "batch": 32, "steps": 80, "keep_checkpoints": True}
    common |= {"evaluate_every": 20, "checkpoint_every": 80, "source_hold_out": 0.1}
    run = hda.fit(scenario, evaluate=answers, out=tmp_path / "run", **common)
    from hda.bench.validators import measure

    found = measure(run.path, scenario=scenario)
    assert found[-1].target_accuracy > found[0].target_accuracy + 10
    better = {name for name, value in found[-1].scores.items() if value > found[0].scores[name]}
    # The density of neighbourhoods is highest where nothing has been learnt: all pictures are predicted alike.
    assert better >= set(found[0].scores) - {"snd"}
    assert json.loads((run.path / "result.json").read_text())["images"]["held_out"] == 60
