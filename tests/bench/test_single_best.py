"""The script that names the best single source."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "single_best.py"


def test_a_mistake_is_told_in_a_sentence_before_any_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "data").mkdir()
    runs = tmp_path / "runs"
    words = ["--task", "office-home:Art,Nope->Clipart", "--data", str(tmp_path / "data"), "--runs", str(runs)]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("single_best.py: Office-Home has no domain 'Nope'")
    assert not runs.exists()
