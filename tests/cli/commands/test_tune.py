import shlex
import sys

import pytest

QUICK = ("--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu", "--steps", "2", "--batch", "4")
SEARCH = ("--search", "lr=0.001:0.1:log", "heuristics=1,3", "--trials", "2", "--select", "infomax", "--out", "search")
UDA = ("--source", "photos", "--target", "drawings")

pytest.importorskip("optuna", reason="the extra `tune` is not installed")


def test_a_search_ends_with_a_table_and_a_command_that_works(hda, here):
    told = hda("tune", *UDA, *QUICK, *SEARCH, "--json")
    assert told.code == 0
    assert [trial["run"] for trial in told.json["trials"]] == ["search/trial-000", "search/trial-001"]
    best = max(told.json["trials"], key=lambda trial: trial["score"])
    assert told.json["best"]["run"] == best["run"]
    assert told.json["best"]["settings"] == best["settings"]
    lines = told.out.splitlines()
    (first,) = [number for number, line in enumerate(lines) if line.startswith("trial  ")]
    assert lines[first].split() == ["trial", "lr", "heuristics", "infomax"]
    assert lines[first + 2].split()[0] == best["run"].removeprefix("search/")
    assert "accurac" not in told.out.replace('"target_accuracy"', "")
    command = shlex.split(told.json["best"]["command"])
    assert command[:2] == ["hda", "fit"]
    again = hda(*command[1:], "--out", "again", "--json")
    assert again.code == 0
    assert (here / "again" / "model.safetensors").read_bytes() == (
        here / best["run"] / "model.safetensors"
    ).read_bytes()


def test_accuracies_are_shown_and_said_not_to_be_used(hda, here):
    blind = hda("tune", *UDA, *QUICK, *SEARCH, "--json").json
    told = hda("tune", *UDA, *QUICK, *SEARCH, "--out", "measured", "--evaluate", "--json")
    assert "target accuracies were measured with the target's labels and not used" in told.out
    assert "target accuracy %" in told.out
    for trial, other in zip(told.json["trials"], blind["trials"], strict=True):
        assert (trial["settings"], trial["score"]) == (other["settings"], other["score"])
        assert 0 <= trial["target_accuracy"] <= 100


def test_a_folder_alone_goes_on(hda, here):
    first = hda("tune", *UDA, *QUICK, *SEARCH, "--json").json
    told = hda("tune", "--resume", "--out", "search", "--trials", "3", "--json")
    assert told.code == 0
    assert told.json["trials"][:2] == first["trials"]
    assert len(told.json["trials"]) == 3
    assert len(hda("tune", "--resume", "--out", "search", "--json").json["trials"]) == 3


def test_without_optuna_one_sentence_names_the_extra(hda, here, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    told = hda("tune", *UDA, *QUICK, *SEARCH)
    assert told.sentence == 'hda tune needs Optuna, which is not installed: pip install "hda[tune]"'
    assert not (here / "search").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--search", "lr=1:2"), "a search needs a folder: add --out DIR"),
        ((*SEARCH[:-2], "--out", "s"), "no source is given: add --source PATH"),
        ((*UDA, "--search", "lr=1:2", "--out", "s"), "nobody is to judge the trials: add --select NAME"),
        ((*UDA, "--select", "snd", "--out", "s"), "nothing is to be searched: add --search"),
        ((*UDA, *SEARCH, "--trials", "0"), "--trials must be at least 1: got 0"),
        ((*UDA, *SEARCH, "--select", "sdn"), "unknown validator 'sdn': did you mean 'snd'"),
        (("--resume", "--out", "photos"), "photos is not a search's folder: "),
        ((*UDA, *SEARCH, "--out", "photos"), "photos exists and is not a search's folder: "),
    ],
)
def test_mistakes_are_told(hda, here, words, sentence):
    before = sorted(here.rglob("*"))
    assert hda("tune", *words).sentence.startswith(sentence)
    assert sorted(here.rglob("*")) == before
