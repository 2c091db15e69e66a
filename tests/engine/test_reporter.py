import inspect

from PIL import Image

import hda
from hda.data.scenario import Scenario
from hda.engine.reporter import Reporter


def test_a_reporter_is_silent_by_default(task, short, tmp_path, capfd):
    scenario, answers = task()
    hda.fit(scenario, out=tmp_path / "run", evaluate=answers, **short)
    hda.fit(scenario, out=tmp_path / "run", evaluate=answers, resume=True, reporter=Reporter(), **short)
    assert capfd.readouterr() == ("", "")


def test_every_method_may_be_overridden_alone_and_returns_nothing():
    given = {
        "what": "art",
        "pictures": 3,
        "sentence": "Done.",
        "start": 0,
        "steps": 5,
        "step": 1,
        "record": {"step": 1},
    }
    methods = {name: method for name, method in vars(Reporter).items() if inspect.isfunction(method)}
    assert set(methods) == {"note", "reading", "begin", "advance", "record", "end"}
    for name, method in methods.items():
        words = [word for word in inspect.signature(method).parameters if word != "self"]
        assert getattr(Reporter(), name)(**{word: given[word] for word in words}) is None


def test_the_progress_of_reading_is_told_to_what_the_reporter_returns(short, tmp_path, monkeypatch):
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    told = {}

    class Reading(Reporter):
        def reading(self, what, pictures):
            told[what, pictures] = []
            return lambda done, of: told[what, pictures].append((done, of))

    for domain, count in (("art", 5), ("clipart", 4)):
        for name in ("cat", "dog"):
            (tmp_path / domain / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (9, 9), (20 * number, count, 99)).save(tmp_path / domain / name / f"{number}.png")
    scenario = Scenario.read(tmp_path / "art", tmp_path / "clipart")
    hda.fit(scenario, out=tmp_path / "run", reporter=Reading(), **{**short, "steps": 1})
    assert list(told) == [("art", 10), ("clipart", 8)]
    for (_, count), steps in told.items():
        assert steps[-1] == (count, count)
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)
