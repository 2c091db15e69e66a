from __future__ import annotations

import pytest

from hda.data.datasets.base import Domain
from hda.data.datasets.office_home import OfficeHome
from hda.registry import registered


@pytest.fixture
def art(tmp_path, monkeypatch):
    monkeypatch.setattr(OfficeHome, "domains", (Domain("Art", "A", images=65 * 2, per_class=(2,) * 65),))
    for name in OfficeHome.classes:
        for number in (1, 2):
            path = tmp_path / "Art" / name / f"{number:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"-")
    return tmp_path


def test_a_whole_dataset_ends_well(hda, art):
    told = hda("data", "check", "office-home", art, "--json")
    assert (told.code, told.err) == (0, "")
    assert f"Office-Home in {art} is whole" in told.out
    assert told.json["whole"] is True
    assert told.json["domains"][0]["pictures"] == 130


def test_one_that_is_not_whole_ends_with_2_and_still_gives_its_json(hda, art):
    (art / "Art" / "Mop" / "00002.jpg").unlink()
    (art / "Art" / "Pen").rename(art / "Art" / "Pens")
    told = hda("data", "check", "office-home", art, "--json")
    assert told.code == 2
    assert told.err.splitlines() == [
        "Art has the class folder 'Pens', which Office-Home has not: rename it to 'Pen' if that is it",
        "class 'Pen' of Art is missing (2 pictures)",
        "1 picture of Art missing: Mop/00002",
        f"hda: Office-Home in {art} is not whole: 3 things are wrong with it, as said above",
    ]
    assert told.json["whole"] is False
    assert told.json["domains"][0]["missing"] == ["Mop/00002"]


def test_lists_say_what_there_is(hda):
    told = hda("data", "list", "--json")
    assert [row["name"] for row in told.json] == list(registered("data.datasets"))
    assert "Art (A), Clipart (C), Product (P), Real World (R)" in told.out
    about = hda("data", "list", "pacs")
    assert "pictures: Art 2,048, Cartoon 2,344, Photo 1,670, Sketch 3,929" in about.out
    assert [row["name"] for row in hda("list", "datasets", "--json").json] == list(registered("data.datasets"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("chekc", "pacs", "."), "unknown subcommand of hda data 'chekc': did you mean 'check'?"),
        (("check", "pcas", "."), "unknown dataset 'pcas': did you mean 'pacs'?"),
        (("check", "pacs"), "DIR must be given (`hda data --help` shows how)"),
        (("check", "pacs", "nowhere"), "nowhere is no folder: give the folder that PACS lies in"),
        (("list", "pcas"), "unknown dataset 'pcas': did you mean 'pacs'?"),
        ((), "must be given"),
    ],
)
def test_mistakes_are_told_in_a_sentence(hda, words, sentence):
    assert sentence in hda("data", *words).sentence
