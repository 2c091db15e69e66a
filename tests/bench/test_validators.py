import dataclasses
import json
import shutil

import numpy as np
import pytest

import hda
from hda.bench.validators import SCORES, Checkpoint, compare, find, measure, spearman
from hda.data.digits import digits
from hda.registry import registered

OPTIONS = {
    "backbone": "small",
    "weights": "none",
    "device": "cpu",
    "augment": "none",
    "steps": 4,
    "batch": 8,
    "evaluate_every": 1,
    "lr": 0.05,
    "keep_checkpoints": True,
}


def task():
    scenario, answers = digits(60)
    return dataclasses.replace(scenario, target=scenario.target.select(range(40)), notes=()), answers.select(range(40))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs that have kept four checkpoints each, the first with pictures held out."""
    scenario, answers = task()
    root = tmp_path_factory.mktemp("runs")
    for name, more in (("held", {"source_hold_out": 0.2, "select": "dev"}), ("plain", {"method": "source-only"})):
        hda.fit(scenario, evaluate=answers, out=root / name, **OPTIONS, **more)
    return root


@pytest.fixture
def copied(runs, tmp_path):
    return shutil.copytree(runs, tmp_path / "runs")


def test_runs_are_found_where_they_lie(runs, tmp_path):
    assert find([runs]) == [runs / "held", runs / "plain"]
    assert find([runs / "plain", runs]) == [runs / "plain", runs / "held"]
    for empty in (tmp_path, tmp_path / "gone"):
        with pytest.raises(hda.UserError, match="holds no run: give the folder of one"):
            find([empty])


def test_checkpoints_are_measured_as_the_run_itself_measured_them(copied):
    scenario, _ = task()
    found = measure(copied / "held", scenario=scenario)
    run = hda.Run(copied / "held")
    assert [c.step for c in found] == [1, 2, 3, 4]
    assert [c.target_accuracy for c in found] == run.curve("target_accuracy")[1].tolist()
    alone = {name for name, cls in registered("selection").items() if not cls.relative}
    assert all(c.scores.keys() == alone for c in found)
    np.testing.assert_allclose([c.scores["dev"] for c in found], run.curve("selection.dev")[1], rtol=1e-6)
    plain = measure(copied / "plain", scenario=scenario)
    needing = {name for name, cls in registered("selection").items() if "held_out" in cls.needs}
    assert all(c.scores.keys() == alone - needing for c in plain)


def test_nothing_is_measured_twice_unless_it_has_changed(copied, monkeypatch):
    from hda.bench import validators as module

    scenario, _ = task()
    first = measure(copied / "plain", scenario=scenario)
    with monkeypatch.context() as patch:
        patch.setattr(module, "Sight", lambda *parts: pytest.fail("measured again"))
        assert measure(copied / "plain", scenario=scenario) == first
    (copied / "plain" / SCORES).write_text((copied / "plain" / SCORES).read_text()[:-30])  # a kill cut it short
    shutil.copy(copied / "plain" / "model-00000003.safetensors", copied / "plain" / "model-00000001.safetensors")
    again = measure(copied / "plain", scenario=scenario)
    assert again[0].scores == pytest.approx(first[2].scores)
    assert again[3].scores == first[3].scores


def test_no_answer_reaches_a_validator_here_either(copied):
    scenario, _ = task()
    first = measure(copied / "held", scenario=scenario)
    (copied / "held" / SCORES).unlink()
    lines = [json.loads(line) for line in (copied / "held" / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if "target_accuracy" in line:
            line["target_accuracy"] = 100 - line["target_accuracy"]
    (copied / "held" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = measure(copied / "held", scenario=scenario)
    assert [c.scores for c in again] == [c.scores for c in first]
    assert [c.target_accuracy for c in again] == [100 - c.target_accuracy for c in first]


def test_what_is_not_there_is_told(copied, runs):
    with pytest.raises(hda.UserError, match=r"was trained on pictures in memory: give them to hda.bench.validators"):
        measure(copied / "held")
    scenario, _ = task()
    other = dataclasses.replace(scenario, target=scenario.target.select(range(20)))
    with pytest.raises(hda.UserError, match=r"the pictures are not those that .*plain was trained on"):
        measure(copied / "plain", scenario=other)
    for state in (copied / "plain").glob("model-*.safetensors"):
        state.unlink()
    assert measure(copied / "plain", scenario=scenario) == []


# What they are worth


def checkpoint(run: str, step: int, accuracy: float, task: str = "a->b", **scores: float) -> Checkpoint:
    return Checkpoint(run, task, step, accuracy, scores)


FOUND = [
    checkpoint("one", 1, 50.0, entropy=-3.0, infomax=1.0),
    checkpoint("one", 2, 60.0, entropy=-2.0, infomax=4.0),
    checkpoint("one", 3, 55.0, entropy=-1.0, infomax=2.0),
    checkpoint("two", 1, 40.0, entropy=-4.0, infomax=0.0),
    checkpoint("two", 2, 30.0, entropy=-0.5, infomax=0.5),
    checkpoint("two", 3, 70.0, entropy=-2.5, infomax=3.0),
]


def test_spearman_is_the_correlation_of_ranks():
    random = np.random.default_rng(0)
    first = random.normal(size=20)
    second = first + random.normal(size=20)
    places = [np.argsort(np.argsort(values)) for values in (first, second)]
    by_hand = 1 - 6 * sum((places[0] - places[1]) ** 2) / (20 * (20**2 - 1))  # where no two are equal
    assert spearman(first, second) == pytest.approx(by_hand)
    assert spearman(np.array([1.0, 2, 2, 3]), np.array([1.0, 3, 2, 4])) == pytest.approx(np.sqrt(0.9))
    assert spearman(first[:2], second[:2]) is None
    assert spearman(np.ones(5), second[:5]) is None


def test_rows_hold_what_choosing_costs_by_hand():
    rows = {row.validator: row for row in compare(FOUND)}
    assert set(rows) == {"entropy", "infomax", "last iteration"}
    entropy = rows["entropy"]
    assert (entropy.checkpoints, entropy.runs) == (6, 2)
    assert entropy.lost == 70 - 30  # its highest score is that of run two at step 2
    assert entropy.lost_within_runs == ((60 - 55) + (70 - 30)) / 2
    assert entropy.within_runs == pytest.approx((0.5 - 0.5) / 2)
    accuracy, score = [3, 5, 4, 2, 1, 6], [2, 4, 5, 1, 6, 3]  # places of FOUND, no two equal
    d2 = sum((a - s) ** 2 for a, s in zip(accuracy, score, strict=True))
    assert entropy.correlation == pytest.approx(1 - 6 * d2 / (6 * 35))
    assert rows["infomax"].lost == 70 - 60
    assert rows["infomax"].lost_within_runs == 0
    last = rows["last iteration"]
    assert (last.correlation, last.within_runs, last.lost) == (None, None, None)
    assert last.lost_within_runs == ((60 - 55) + 0) / 2
    assert [row.validator for row in compare(FOUND)] == ["infomax", "entropy", "last iteration"]


def test_tasks_are_not_compared_with_each_other():
    """Scores of two tasks say nothing of each other: the better task may have the lower ones."""
    other = [
        dataclasses.replace(c, task="c->d", run=c.run + "'", target_accuracy=c.target_accuracy + 20) for c in FOUND
    ]
    shifted = [dataclasses.replace(c, scores={k: v - 100 for k, v in c.scores.items()}) for c in other]
    alone, both = ({row.validator: row for row in compare(found)} for found in (FOUND, FOUND + shifted))
    for name, row in both.items():
        single = alone[name]
        assert (row.correlation, row.lost) == (pytest.approx(single.correlation), single.lost)
        assert row.runs == 2 * single.runs


def test_a_validator_is_compared_over_what_it_could_measure():
    some = [*FOUND, checkpoint("three", 1, 90.0, infomax=9.0)]
    rows = {row.validator: row for row in compare(some)}
    assert (rows["entropy"].checkpoints, rows["infomax"].checkpoints) == (6, 7)
    assert rows["entropy"].lost == 40
    assert compare([]) == []
