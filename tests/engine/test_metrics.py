import json

import pytest

from hda.engine.metrics import Metrics, read
from hda.errors import UserError


def record(step: int) -> dict[str, float]:
    return {"step": step, "loss": step / 2}


def written(path, *steps: int) -> None:
    metrics = Metrics(path, upto=0)
    for step in steps:
        metrics.add(record(step))
    metrics.close()


def test_records_are_read_as_they_were_added(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, 1, 20, 40)
    assert read(path) == [record(1), record(20), record(40)]
    assert [json.loads(line) for line in path.read_text().splitlines()] == read(path)


def test_a_record_is_in_the_file_as_soon_as_it_is_added(tmp_path):
    metrics = Metrics(tmp_path / "metrics.jsonl", upto=0)
    metrics.add(record(1))
    assert read(tmp_path / "metrics.jsonl") == [record(1)]
    metrics.close()


def test_there_are_no_records_where_there_is_no_file(tmp_path):
    assert read(tmp_path / "metrics.jsonl") == []


@pytest.mark.parametrize("cut", [1, 5, 14])
def test_a_last_line_that_was_cut_short_is_left_out(tmp_path, cut):
    path = tmp_path / "metrics.jsonl"
    written(path, 1, 20, 40)
    path.write_bytes(path.read_bytes()[:-cut])
    assert read(path) == [record(1), record(20)]


def test_a_damaged_line_in_the_middle_is_not_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"^line 2 of .*metrics\.jsonl is damaged"):
        read(path)


def test_a_resumed_run_keeps_the_records_up_to_its_step_and_adds_behind_them(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, 1, 20, 40, 60)
    metrics = Metrics(path, upto=40)
    assert read(path) == [record(1), record(20), record(40)]
    metrics.add({"step": 60, "loss": -1.0})
    metrics.close()
    assert read(path) == [record(1), record(20), record(40), {"step": 60, "loss": -1.0}]


def test_a_resumed_run_does_not_write_behind_half_a_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, 1, 20)
    with path.open("a") as file:
        file.write('{"step": 40, "lo')
    metrics = Metrics(path, upto=1000)
    metrics.add(record(60))
    metrics.close()
    assert read(path) == [record(1), record(20), record(60)]


def test_a_run_from_the_start_keeps_nothing(tmp_path):
    path = tmp_path / "metrics.jsonl"
    written(path, 1, 20)
    Metrics(path, upto=0).close()
    assert path.read_text() == ""


@pytest.mark.parametrize("line", [b"[1]", b'{"total": 1.0}', b"\xff"])
def test_a_line_that_is_no_record_is_damaged(line, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b"\n")
    with pytest.raises(UserError, match=r"^line 2 of .*metrics\.jsonl is damaged"):
        read(path)
