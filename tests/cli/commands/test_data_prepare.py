import pytest

from hda.data.check import check
from hda.data.datasets.office_31 import Office31
from hda.data.sources import SOURCES, Source
from hda.registry import registered


def test_every_published_dataset_has_a_source():
    assert set(SOURCES) == set(registered("data.datasets")) - {"folder"}
    assert all(source.name == name for name, source in SOURCES.items())


@pytest.fixture
def office(tmp_path):
    """Office-31 as published, with pictures of a byte."""
    root = tmp_path / "office"
    for domain in Office31.domains:
        for name, count in zip(Office31.classes, domain.per_class, strict=True):
            folder = root / domain.name.lower() / "images" / name
            folder.mkdir(parents=True)
            for number in range(1, count + 1):
                (folder / f"frame_{number:04}.jpg").write_bytes(b"-")
    return root


def test_a_whole_copy_is_left_alone(hda, office):
    assert check(Office31(office)).wrong == []
    told = hda("data", "prepare", "office-31", office, "--json")
    assert told.code == 0
    assert told.out.splitlines()[0] == f"office-31 is in {office} already, and whole: there is nothing to do"
    assert told.json == {"dataset": "office-31", "root": str(office), "done": []}


def test_what_nobody_can_fetch_is_told_and_nothing_is_made(hda, tmp_path, monkeypatch):
    monkeypatch.setitem(SOURCES, "office-31", Source("office-31", (), "ask its authors, and put it into the folder"))
    told = hda("data", "prepare", "office-31", tmp_path / "new")
    assert told.code == 2
    assert told.sentence == (
        "office-31 cannot be downloaded by a program: ask its authors, and put it into the folder (the folder being "
        f"{tmp_path / 'new'})"
    )
    assert not (tmp_path / "new").exists()


def test_an_unknown_dataset_is_refused(hda, tmp_path):
    told = hda("data", "prepare", "office-hom", tmp_path / "new")
    assert told.code == 2
    assert "did you mean 'office-home'" in told.sentence
    assert not (tmp_path / "new").exists()
