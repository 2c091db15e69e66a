"""`hda bench`, killed at random moments and given again: the same runs, and the same numbers."""

import random

from hda.bench import rows


def test_killed_anywhere_and_given_again_it_ends_with_the_same_rows(forked, grid, data, tmp_path, told):
    words = ("bench", grid, "--data", data, "--hold-out", "0.2", "--out")
    whole = forked(*words, tmp_path / "whole")
    assert whole["code"] == 0, whole["err"]
    moments = random.Random(0)
    killed = 0
    for _ in range(10):
        ended = forked(*words, tmp_path / "killed", after=moments.uniform(0.03, 0.3) * whole["seconds"])
        assert ended["code"] in (0, None), ended["err"]
        killed += ended["code"] is None
    last = forked(*words, tmp_path / "killed")
    assert last["code"] == 0, last["err"]
    assert killed >= 3
    expected, found = (rows.read([tmp_path / name / "rows.jsonl"]) for name in ("whole", "killed"))
    assert len(expected) == len(found) == 6
    assert told(found) == told(expected)
    assert len({row["accuracy"] for row in found}) > 1
    assert not list((tmp_path / "killed").rglob("*.tmp"))
    folders = [{path.name for path in (tmp_path / name / "runs").iterdir()} for name in ("whole", "killed")]
    assert folders[0] == folders[1]
    for name in folders[0]:
        predictions = [
            (tmp_path / which / "runs" / name / "predictions.csv").read_bytes() for which in ("whole", "killed")
        ]
        assert predictions[0] == predictions[1]
