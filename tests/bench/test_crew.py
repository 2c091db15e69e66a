"""Who does what, and what happens to it when somebody dies."""

import os
import signal
from collections import Counter

import pytest

from hda.bench.crew import Board, Crew, Fixed, GoneError, Measured, Processes, Schedule, Spec
from hda.bench.grid import Job, read
from hda.bench.runner import Bench, Planned
from hda.errors import UserError


def planned(method="hdan", seed=0, variant="", **more):
    job = Job("office-home:Art->Clipart", method, seed, variant)
    return Planned(
        **{"job": job, "identity": f"{method}-{seed}", "folder": None, "done": False, "share": 0.0, "steps": 9} | more
    )


class Known:
    """A bench that notes which rows are written."""

    def __init__(self):
        self.written = []

    def add(self, row):
        self.written.append(row["identity"])


class Played:
    """A hand that does as a script says: for each run it is given, messages or its death."""

    def __init__(self, number, script):
        self.number, self.script, self.ready = number, script, True
        self.out, self.ended, self.got = [], False, []

    def give(self, one):
        self.got.append(one.identity)
        self.out = list(self.script(self.number, one))

    def heard(self):
        if self.out and isinstance(self.out[0], GoneError):
            raise self.out[0]
        told, self.out = self.out, []
        return told

    def end(self):
        self.ended = True


class Stage:
    """Where played hands come from."""

    most = None

    def __init__(self, script):
        self.script, self.made = script, []

    def start(self, number):
        self.made.append(Played(number, self.script))
        return self.made[-1]

    def wait(self, hands, seconds):
        pass


class Notes(Board):
    def __init__(self):
        self.notes, self.began = [], Counter()

    def note(self, sentence, one=None):
        self.notes.append(sentence)

    def started(self, one):
        self.began[one.identity] += 1


def work(runs, script, size):
    bench, board, stage = Known(), Notes(), Stage(script)
    crew = Crew(bench, runs, board, stage, size)
    return crew, bench, board, stage


def done(number, one):
    return [("done", {"identity": one.identity})]


def test_a_hand_keeps_to_its_shape_and_leaves_others_theirs():
    runs = [planned("hdan", seed) for seed in range(3)] + [planned("dann", seed) for seed in range(2)]
    schedule = Schedule([*runs, planned("mcd", done=True)])
    assert len(schedule) == 5
    first = schedule.take()
    second = schedule.take(None, [first.job.shape])
    assert (first.identity, second.identity) == ("hdan-0", "dann-0")
    assert schedule.take(first.job.shape, [second.job.shape]).identity == "hdan-1"
    assert schedule.take(second.job.shape, [first.job.shape]).identity == "dann-1"
    helped = schedule.take(second.job.shape, [first.job.shape])
    assert helped.identity == "hdan-2", "nothing else is left: it helps"
    assert schedule.take() is None
    schedule.put_back(helped)
    assert schedule.take() is helped


def test_everything_is_done_once_however_many_do_it():
    runs = [planned(method, seed) for method in ("hdan", "dann", "mcd") for seed in range(4)]
    crew, bench, board, stage = work(runs, done, Fixed(5))
    assert crew.work() == []
    assert sorted(bench.written) == sorted(one.identity for one in runs)
    assert set(board.began.values()) == {1}
    assert len(stage.made) == 5
    assert all(hand.ended for hand in stage.made)


def test_a_hand_that_dies_is_replaced_and_told_once_and_its_run_is_done_once():
    dead = []

    def script(number, one):
        if one.identity == "dann-0" and not dead:
            dead.append(number)
            return [GoneError("killed by SIGKILL")]
        return done(number, one)

    runs = [planned("hdan", 0), planned("dann", 0)]
    crew, bench, board, stage = work(runs, script, Fixed(1))
    assert crew.work() == []
    assert sorted(bench.written) == ["dann-0", "hdan-0"]
    assert board.notes == [
        "a worker has ended in the middle of dann Art->Clipart seed 0 (killed by SIGKILL): another goes on in its place"
    ]
    assert len(stage.made) == 2
    assert stage.made[0].ended


def test_a_run_that_kills_whoever_does_it_is_given_up_in_a_sentence():
    crew, _, _, stage = work([planned()], lambda number, one: [GoneError("exit code 1")], Fixed(1))
    with pytest.raises(UserError, match=r"3 workers have ended in the middle of hdan .* \(exit code 1\): see to it"):
        crew.work()
    assert all(hand.ended for hand in stage.made)


def test_a_run_that_leaves_the_numbers_does_not_stop_the_others_and_a_mistake_does():
    def script(number, one):
        return [("failed", "it is no longer finite")] if one.job.method == "dann" else done(number, one)

    crew, bench, _, _ = work([planned("dann"), planned("hdan")], script, Fixed(1))
    assert [(one.identity, why) for one, why in crew.work()] == [("dann-0", "it is no longer finite")]
    assert bench.written == ["hdan-0"]
    crew, _, _, stage = work([planned()], lambda number, one: [("wrong", "give another")], Fixed(2))
    with pytest.raises(UserError, match="give another"):
        crew.work()
    assert all(hand.ended for hand in stage.made)


# How many at once


def measured(speeds, size=None):
    """Let hands of a device tell their speeds, of which it has so many together for each number of hands."""
    size = size or Measured()
    said = []
    for _ in range(100):
        for hand in range(size.want):
            if hand not in size.lines:
                size.begun(hand, ("hdan",))
        for hand in range(size.want):
            if size.measuring:
                said.append(size.rate(hand, speeds[size.want - 1] / size.want))
    return size, [sentence for sentence in said if sentence]


def test_a_second_hand_is_kept_only_where_both_are_clearly_faster():
    size, said = measured([1000, 1050])
    assert size.want == 1
    assert said[-1] == "2 at once do 1,050 images/s together, 1 1,000: it stays at one at a time"
    size, said = measured([1000, 1600, 1650])
    assert size.want == 2
    assert "2 at once do 1,600 images/s together, 1 1,000: 2 are kept" in said[1]
    assert measured([1000, 1900, 2800, 3600])[0].want == Measured.MOST


def test_the_first_lines_of_a_run_do_not_count():
    size = Measured()
    size.begun(0, ("hdan",))
    for _ in range(size.SETTLE):
        assert size.rate(0, 1.0) is None  # compiling
    for _ in range(size.WINDOW):
        size.rate(0, 500.0)
    assert size.best == 500.0


def test_a_second_hand_that_dies_is_not_tried_again():
    size = Measured()
    size.begun(0, ("hdan",))
    for _ in range(size.SETTLE + size.WINDOW):
        size.rate(0, 1000.0)
    assert size.want == 2
    size.begun(1, ("hdan",))
    assert size.died(1) == "2 at once do not do, so it stays at one at a time"
    assert (size.want, size.measuring) == (1, False)


def test_like_is_measured_with_like():
    size = Measured()
    size.begun(0, ("hdan",))
    for _ in range(size.SETTLE + 3):
        size.rate(0, 1000.0)
    assert size.begun(0, ("source-only",)) is None, "one alone is simply measured anew"
    for _ in range(size.SETTLE + size.WINDOW):
        size.rate(0, 3000.0)
    assert (size.want, size.best) == (2, 3000.0)
    assert size.begun(1, ("source-only",)) is None
    assert size.begun(0, ("hdan",)) == "there is nothing left to measure 2 at once with, so it stays at one at a time"
    assert (size.want, size.measuring) == (1, False)


def test_while_it_is_measured_a_hand_takes_a_run_of_the_same_kind():
    def script(number, one):
        return [*[("rate", 1000.0)] * 30, *done(number, one)]

    runs = [
        planned("hdan", 0),
        planned("dann", 0),
        *(planned("hdan", seed, variant=f"M={seed}") for seed in range(1, 4)),
    ]
    crew, _, _, stage = work(runs, script, Measured())
    crew.work()
    assert stage.made[0].got[:2] == ["hdan-0", "hdan-1"], "of another shape, but of the same kind"


class Shrinking(Fixed):
    """Two at once until the first has told its speed, then one."""

    def rate(self, hand, images):
        self.want = 1


def test_a_hand_too_many_gives_its_run_back():
    tried = Counter()

    def script(number, one):
        tried[one.identity] += 1
        return [] if number == 2 else [("rate", 1000.0), *done(number, one)]  # the second is never done with it

    runs = [planned("hdan", seed) for seed in range(6)]
    crew, bench, _, stage = work(runs, script, Shrinking(2))
    assert crew.work() == []
    assert sorted(bench.written) == sorted(one.identity for one in runs)
    assert stage.made[1].ended
    assert len(stage.made) == 2
    assert sorted(tried.values()) == [1] * 5 + [2]


# Processes


class Killer(Notes):
    """Kills a worker in the middle of its first run."""

    def __init__(self, crew):
        super().__init__()
        self.crew, self.left = crew, 1

    def at(self, one, step):
        if self.left:
            self.left = 0
            number = next(number for number, doing in self.crew().doing.items() if doing is one)
            os.kill(self.crew().crew[number].process.pid, signal.SIGKILL)


def test_two_processes_of_which_one_is_killed_do_what_one_alone_does(grid, data, tmp_path, told, forked, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    whole = forked("bench", grid, "--data", data, "--out", tmp_path / "whole")
    assert whole["code"] == 0, whole["err"]
    bench = Bench(tmp_path / "out", data, source=str(grid))
    runs = bench.plan(read(grid))
    made = []
    board = Killer(lambda: made[0])
    made.append(Crew(bench, runs, board, Processes(Spec.of(bench, grid), 2), Fixed(2)))
    assert made[0].work() == []
    assert told(bench.rows) == told(Bench(tmp_path / "whole", data).rows)
    assert len(bench.rows) == 6
    (note,) = [note for note in board.notes if "a worker has ended" in note]
    assert "(killed by SIGKILL)" in note
