import pytest

from hda import backbones
from hda.data.augment import KINDS
from hda.registry import registered

NAMES = {
    "methods": lambda: registered("methods"),
    "heads": lambda: registered("heads"),
    "recipes": lambda: registered("recipes"),
    "alignments": lambda: registered("alignments"),
    "augmentations": lambda: KINDS,
    "backbones": backbones.available,
    "validators": lambda: registered("selection"),
}


@pytest.mark.parametrize("room", sorted(NAMES))
def test_everything_of_a_room_is_listed_with_its_name(hda, room):
    told = hda("list", room, "--json")
    assert told.code == 0
    assert sorted(row["name"] for row in told.json) == sorted(NAMES[room]())
    shown = {line.split()[0] for line in told.out.splitlines()[2:-1]}
    assert shown == {row["name"] for row in told.json}


def test_every_room_is_named_in_the_help(hda):
    text = hda("list", "--help").out
    assert all(room in text for room in NAMES)


def test_part_of_a_name_narrows_the_list(hda):
    names = [row["name"] for row in hda("list", "backbones", "Lite0", "--json").json]
    assert "tf_efficientnet_lite0" in names
    assert all("lite0" in name for name in names)
    none = hda("list", "methods", "zzz", "--json")
    assert none.json == []
    assert none.out.splitlines()[0] == "none of the methods has 'zzz' in its name"


def test_methods_tell_what_they_work_for_and_where_they_come_from(hda):
    rows = {row["name"]: row for row in hda("list", "methods", "--json").json}
    assert rows["hdan"]["venue"] == "NeurIPS 2020"
    assert rows["hdan"]["settings"] == ["msda", "ssda", "uda"]
    assert (rows["hdan"]["head"], rows["hdan"]["alignment"]) == ("heuristic", "entropy-adversarial")
    assert (rows["hdan"]["phases"], rows["mcd"]["phases"]) == (1, 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "WHAT must be given"),
        (["method"], "unknown list 'method': did you mean 'methods'? (known: alignments, augmentations, "),
        (["methods", "hdan", "extra"], "'extra' is one word too many"),
        (["methods", ""], "PART is empty"),
    ],
)
def test_mistakes_are_told(hda, words, sentence):
    assert hda("list", *words).sentence.startswith(sentence)
