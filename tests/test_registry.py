import inspect
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import hda
from hda.data.images import from_arrays
from hda.errors import UserError
from hda.methods.base import Method
from hda.methods.hdan import HDAN
from hda.recipes.base import Recipe
from hda.registry import lookup, register, registered


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Another distribution on the path, as pip leaves it: a module and its entry points."""

    def installed(module: str, entries: str, group: str = "hda.methods") -> None:
        (tmp_path / "another.py").write_text(textwrap.dedent(module), encoding="utf-8")
        facts = tmp_path / "another-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n", encoding="utf-8")
        (facts / "entry_points.txt").write_text(f"[{group}]\n{entries}\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        registered.cache_clear()

    yield installed
    monkeypatch.undo()
    sys.modules.pop("another", None)
    registered.cache_clear()


THIRD = """
    from dataclasses import dataclass

    from hda.methods.base import Losses, Method, Reference
    from hda.losses import cross_entropy
    from hda.nn import PlainHead
    from hda.settings import setting

    class Third(Method):
        name = "third"
        reference = Reference("", "", "")

        @dataclass(frozen=True, kw_only=True)
        class Settings:
            factor: float = setting(2.0, "weight of the classification")

        def build(self, width, classes, domains):
            self.head = PlainHead(width, classes)

        def losses(self, batch, progress):
            logits = self.head(self.embed(batch, batch.labelled))
            return Losses(classification=self.settings.factor * cross_entropy(logits, batch.labels))

        def classify(self, features):
            return self.head(features)
"""


def test_every_file_of_a_room_with_a_named_class_is_found():
    found = registered("methods")
    assert found["hdan"] is HDAN
    for room, base in (("methods", Method), ("recipes", Recipe)):
        found = registered(room)
        assert list(found) == sorted(found)
        for name, cls in found.items():
            assert issubclass(cls, base)
            assert cls.name == name
        folder = Path(inspect.getfile(base)).parent
        files = {file.stem for file in folder.glob("*.py")} - {"__init__", "base", "aligned"}
        assert sorted(files) == sorted(cls.__module__.rpartition(".")[2] for cls in found.values())  # one each


def test_base_classes_and_imported_ones_are_not_taken_for_members():
    assert Method not in registered("methods").values()
    from_alignments = registered("alignments")
    assert {cls.__module__.split(".")[1] for cls in from_alignments.values()} == {"alignments"}


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(UserError, match=r"^unknown method 'hdna': did you mean 'hdan'.*\? \(known: .*mcd.*\)$"):
        lookup("methods", "hdna")


def test_another_distribution_adds_a_method_by_an_entry_point(install):
    install(THIRD, "third = another:Third")
    assert lookup("methods", "third").__module__ == "another"
    assert {"hdan", "third"} <= registered("methods").keys()


def test_a_method_of_another_distribution_is_trained_like_any(install, tmp_path):
    install(THIRD, "third = another:Third")
    pictures = np.random.default_rng(0).integers(256, size=(8, 16, 16, 3), dtype=np.uint8)
    source = from_arrays(pictures, np.arange(8) % 2, ("a", "b"), name="source")
    scenario = hda.Scenario((source,), from_arrays(pictures[::-1].copy(), name="target"))
    options = {"backbone": "small", "weights": "none", "size": 16, "augment": "none", "device": "cpu"}
    losses = []
    for factor in (2.0, 3.0):
        out = tmp_path / str(factor)
        run = hda.fit(scenario, out=out, method="third", factor=factor, steps=1, batch=4, **options)
        assert run.settings.method == {"factor": factor}
        assert len(run.predict(scenario.target)) == 8
        losses.append(run.records[0]["classification"])
    assert losses[1] == pytest.approx(1.5 * losses[0])
    with pytest.raises(UserError, match="unknown setting 'factr': did you mean 'factor'"):
        hda.fit(scenario, out=tmp_path / "wrong", method="third", factr=1.0, **options)


def test_entry_points_of_other_rooms_stay_out(install):
    install(THIRD, "third = another:Third", group="hda.recipes")
    assert "third" not in registered("methods")
    assert "third" in registered("recipes")


def test_a_name_that_is_taken_is_refused(install):
    install(THIRD, "hdan = another:Third")
    with pytest.raises(UserError, match=r"^there are two methods named 'hdan': uninstall what brings another:Third"):
        lookup("methods", "mcd")


@pytest.mark.parametrize(
    ("module", "entry", "reason"),
    [
        ("import a_module_that_is_nowhere", "another:Third", "ModuleNotFoundError: No module named"),
        ("raise RuntimeError('too old')", "another:Third", "RuntimeError: too old"),
        ("Other = 1", "another:Third", "AttributeError: "),
    ],
)
def test_an_entry_that_cannot_be_loaded_is_named(install, module, entry, reason):
    install(module, f"third = {entry}")
    with pytest.raises(UserError, match=rf"^the entry 'third' of methods cannot be loaded \({reason}.*another:Third$"):
        registered("methods")


def test_a_class_of_ones_own_is_found_by_its_name_once_registered(monkeypatch):
    known = dict(registered("methods"))
    monkeypatch.setattr("hda.registry.registered", lambda room: known)

    class Mine(HDAN):
        name = "mine"

    assert register("methods", Mine) is register("methods", Mine) is lookup("methods", "mine")

    class Taken(HDAN):
        name = "mine"

    with pytest.raises(UserError, match=r"^there is a method named 'mine' already: give yours another name$"):
        register("methods", Taken)
    assert lookup("methods", "mine") is Mine
