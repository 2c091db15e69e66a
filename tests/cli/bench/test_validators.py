import json
from pathlib import Path

import pytest

QUICK = ("--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu", "--steps", "3", "--batch", "4")
KEPT = (
    "--source",
    "photos",
    "--target",
    "drawings",
    *QUICK,
    "--evaluate",
    "--evaluate-every",
    "1",
    "--keep-checkpoints",
)


def test_validators_are_compared_over_the_checkpoints_below_a_folder(hda, here):
    assert hda("fit", *KEPT, "--out", "runs/a").code == 0
    assert hda("fit", *KEPT, "--method", "source-only", "--out", "runs/b").code == 0
    told = hda("bench", "validators", "runs", "--out", "rows.jsonl", "--json")
    assert told.code == 0
    assert "checkpoints: 6, runs: 2" in told.out
    names = {row["validator"] for row in told.json}
    assert names == {"class-ami", "entropy", "infomax", "nuclear-norm", "ranks", "reverse", "snd", "last iteration"}
    assert [json.loads(line) for line in Path("rows.jsonl").read_text().splitlines()] == told.json
    assert all(row["checkpoints"] == 6 for row in told.json)
    losses = [row["lost"] for row in told.json if row["lost"] is not None]
    assert losses == sorted(losses)
    again = hda("bench", "validators", "runs/a", "runs/b", "--json")
    assert again.json == told.json
    assert "measured by" not in again.out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "WHAT must be given"),
        (("validaters", "run"), "unknown bench 'validaters': did you mean 'validators'"),
        (("validators",), "RUN must be given"),
        (("validators", "photos"), "photos holds no run: give the folder of one"),
        (("validators", "gone"), "gone holds no run: "),
        (("validators", "run"), "no run there has kept a checkpoint of known accuracy: fit with --keep-checkpoints"),
        (("validators", "run", "--out", "rows.csv"), "--out rows.csv does not end in .jsonl"),
    ],
)
def test_mistakes_are_told(hda, run, words, sentence):
    assert hda("bench", *words).sentence.startswith(sentence)


def test_the_help_lists_what_there_is_and_how_each_is_called(hda):
    assert "validators" in hda("bench", "--help").out
    shown = hda("bench", "validators", "--help")
    assert shown.code == 0
    assert shown.out.startswith("usage: hda bench validators ")
    assert "--device" in shown.out
