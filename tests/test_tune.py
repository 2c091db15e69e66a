import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import hda
from hda.data.digits import digits
from hda.engine.reporter import Reporter
from hda.errors import NotFiniteError
from hda.selection import validator
from hda.tune import Dimension, read_search, tune

pytest.importorskip("optuna", reason="the extra `tune` is not installed")

SHORT = {
    "backbone": "small",
    "weights": "none",
    "device": "cpu",
    "augment": "none",
    "steps": 4,
    "batch": 4,
    "evaluate_every": 2,
    "checkpoint_every": 1,
}
SEARCH = ["lr=0.001:0.1:log", "heuristics=1,3"]


def task():
    scenario, answers = digits(40)
    return replace(scenario, target=scenario.target.select(range(30)), notes=()), answers.select(range(30))


@pytest.fixture
def search(tmp_path):
    """Called with what differs from a short search."""

    def run(**given):
        scenario, _ = task()
        given = {"search": SEARCH, "select": "infomax", "out": tmp_path / "search", "trials": 3, **SHORT, **given}
        return tune(scenario, **given)

    return run


# What is searched


def test_ranges_and_choices_are_read_in_the_settings_own_types():
    found = read_search(["lr=1e-4:0.1:log", "heuristics=1:4", "termination-norm=l1,l2", "target_batch=auto,8"], {})
    assert found == (
        Dimension("lr", (1e-4, 0.1), ranged=True, log=True),
        Dimension("heuristics", (1, 4), ranged=True),
        Dimension("termination_norm", ("l1", "l2")),
        Dimension("target_batch", (None, 8)),
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing is to be searched: add --search NAME=LOW:HIGH"),
        (["lr"], "--search 'lr' is no range: give NAME=LOW:HIGH"),
        (["lrr=1:2"], "unknown setting 'lrr': did you mean 'lr'"),
        (["lr=0.1:0.1"], "--search 'lr=0.1:0.1' is empty: give a HIGH above LOW"),
        (["lr=0:1:log"], "--search 'lr=0:1:log' is empty: give a LOW above 0 and a HIGH above LOW"),
        (["lr=0:1:lin"], "--search 'lr=0:1:lin' is no range"),
        (["termination_norm=l1:l2"], "--search 'termination_norm=l1:l2' is no range"),
        (["heuristics=one,two"], "heuristics takes a whole number: got 'one'"),
        (["method=hdan,mcd"], "method cannot be searched"),
        (["lr=1,2", "lr=3,4"], "lr is given twice"),
        (["batch=2,4"], "batch is given twice"),
        (["lr=-1:1"], "--search lr must be at least 0: got -1.0"),
        (["discriminator_dropout=0.5:1.5"], "--search discriminator_dropout must be between 0 and 1: got 1.5"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(words, sentence, search, tmp_path):
    with pytest.raises(hda.UserError) as caught:
        search(search=words)
    assert str(caught.value).startswith(sentence)
    assert list(tmp_path.iterdir()) == []


def test_without_optuna_one_sentence_names_the_extra(search, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    with pytest.raises(
        hda.UserError, match=r'^hda tune needs Optuna, which is not installed: pip install "hda\[tune\]"$'
    ):
        search()
    assert list(tmp_path.iterdir()) == []


# What it comes to


def test_trials_are_runs_ranked_by_the_validator_s_word_on_the_last_iteration(search):
    found = search()
    assert [trial.path.name for trial in found.trials] == ["trial-000", "trial-001", "trial-002"]
    for trial in found.trials:
        run = hda.Run(trial.path)
        assert {name: run.settings.flat()[name] for name in trial.settings} == trial.settings
        assert 0.001 <= trial.settings["lr"] <= 0.1
        assert trial.settings["heuristics"] in (1, 3)
        last = run.records[-1]
        assert last["step"] == 4
        assert trial.score == last["selection.infomax"]
        assert trial.target_accuracy is None
    assert len({trial.settings["lr"] for trial in found.trials}) == 3
    assert found.best.score == max(trial.score for trial in found.trials)
    assert found.best_options == {**SHORT, "select": "infomax", **found.best.settings}


def test_answers_are_measured_with_and_change_nothing(search, tmp_path):
    _, answers = task()
    poisoned = replace(answers, labels=(answers.labels + 1) % 10)
    blind = search()
    for number, given in enumerate((answers, poisoned)):
        found = search(evaluate=given, out=tmp_path / str(number))
        assert [(t.settings, t.score) for t in found.trials] == [(t.settings, t.score) for t in blind.trials]
        for trial in found.trials:
            assert trial.target_accuracy == hda.Run(trial.path).result["target_accuracy"]
    assert {t.target_accuracy for t in found.trials} != {None}


def test_with_ranks_every_trial_has_its_place_among_all(search):
    found = search(select="ranks")
    measured = []
    for trial in found.trials:
        last = hda.Run(trial.path).records[-1]
        measured.append({k.removeprefix("selection."): v for k, v in last.items() if k.startswith("selection.")})
    assert [trial.score for trial in found.trials] == validator("ranks").values(measured).tolist()


def test_later_trials_are_near_the_better_of_earlier_ones(search, monkeypatch):
    """The sampler learns: with scores that favour low rates, low rates are what it tries."""
    from hda import tune as module

    tried = []

    def scored(scenario, *, out, **options):
        out.mkdir()
        (out / "result.json").write_text("{}")
        tried.append(options["lr"])

    def read(trials, select):
        return [module.Trial(t.number, t.path, t.settings, -np.log(t.settings["lr"]), None) for t in trials]

    monkeypatch.setattr(module, "fit", scored)
    monkeypatch.setattr(module, "_read", read)
    search(search=["lr=0.0001:1:log"], trials=30)
    early, late = np.log10(tried[:5]), np.log10(tried[-10:])
    assert late.mean() < early.mean() - 0.5


def test_what_was_tried_is_not_tried_again_and_the_end_is_told(search):
    notes = []

    class Heard(Reporter):
        def note(self, sentence):
            notes.append(sentence)

    found = search(search=["heuristics=0,1"], trials=9, reporter=Heard(), steps=1)
    assert sorted(trial.settings["heuristics"] for trial in found.trials) == [0, 1]
    assert notes[-1] == "all that there is to try has been tried in 2 trials"


def test_a_trial_that_leaves_the_numbers_is_the_last_and_stops_nothing(search, monkeypatch, tmp_path):
    from hda import tune as module

    fit = module.fit

    def failing(scenario, **options):
        if options["out"].name == "trial-001":
            options["out"].mkdir()
            raise NotFiniteError("total is no longer finite within the 4 steps to step 4: give a lower --lr")
        return fit(scenario, **options)

    monkeypatch.setattr(module, "fit", failing)
    found = search()
    assert found.trials[1].score is None
    assert found.ranked[-1] is found.trials[1]
    assert "no longer finite" in json.loads((tmp_path / "search" / "trial-001" / "failed.json").read_text())["reason"]
    again = search(resume=True)
    assert again.trials == found.trials


# Stopped


KILLED = """
    import os, signal, sys
    sys.path.insert(0, {tests!r})
    from test_tune import SEARCH, SHORT, task
    from hda.engine.reporter import Reporter
    from hda.tune import tune

    class Die(Reporter):
        steps = 0

        def advance(self, step):
            self.steps += 1
            if self.steps == 7:
                os.kill(os.getpid(), signal.SIGKILL)

    tune(task()[0], search=SEARCH, select="infomax", out={out!r}, trials=3, reporter=Die(), **SHORT)
"""


def test_a_search_that_was_killed_goes_on_exactly(search, tmp_path):
    whole = search()
    out = tmp_path / "killed"
    script = textwrap.dedent(KILLED.format(tests=os.path.dirname(__file__), out=str(out)))
    ended = subprocess.run([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ended.returncode == -signal.SIGKILL
    assert (out / "trial-000" / "result.json").exists()
    assert not (out / "trial-001" / "result.json").exists()
    found = search(out=out, resume=True)
    assert [(t.settings, t.score) for t in found.trials] == [(t.settings, t.score) for t in whole.trials]
    assert hda.Run(out / "trial-001").result["resumed_from"] in (1, 2)  # of the third step, two lie on the disk
    assert hda.Run(out / "trial-000").result["resumed_from"] is None


def test_a_search_goes_on_with_more_trials_and_with_nothing_else_changed(search, tmp_path):
    few = search(trials=2)
    with pytest.raises(hda.UserError, match="search exists: give another --out, or --resume to go on with it"):
        search()
    for given, what in (
        ({"select": "snd"}, "--select"),
        ({"search": ["lr=0.1,0.2"]}, "--search"),
        ({"steps": 5}, "settings"),
    ):
        with pytest.raises(hda.UserError, match=f"was begun with another {what}: leave it as it was"):
            search(resume=True, **given)
    more = search(trials=3, resume=True)
    assert more.trials[:2] == few.trials
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("kept")
    with pytest.raises(hda.UserError, match="mine exists and is not a search's folder: give another --out"):
        search(out=tmp_path / "mine", resume=True)
