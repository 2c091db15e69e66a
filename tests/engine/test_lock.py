import subprocess
import sys

import pytest

from hda.engine.lock import locked
from hda.errors import UserError

HOLD = """
import sys
from pathlib import Path
from hda.engine.lock import locked

with locked(Path(sys.argv[1]), "busy"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_one_is_told_that_the_first_is_at_it_until_that_ends(tmp_path):
    path = tmp_path / ".lock"
    with locked(path, "busy"):
        with pytest.raises(UserError) as caught, locked(path, "this folder is in use: wait"):
            pytest.fail("held twice")
        assert str(caught.value) == "this folder is in use: wait"
    with locked(path, "busy"):
        pass


def test_an_error_gives_the_lock_back(tmp_path):
    with pytest.raises(KeyError), locked(tmp_path / ".lock", "busy"):
        raise KeyError
    with locked(tmp_path / ".lock", "busy"):
        pass


def test_different_files_are_held_at_once(tmp_path):
    with locked(tmp_path / "one", "busy"), locked(tmp_path / "other", "busy"):
        pass


def test_the_file_s_content_stays(tmp_path):
    (tmp_path / ".lock").write_text("kept")
    with locked(tmp_path / ".lock", "busy"):
        pass
    assert (tmp_path / ".lock").read_text() == "kept"


def test_a_process_that_is_killed_gives_the_lock_back(tmp_path):
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="busy"), locked(path, "busy"):
            pytest.fail("held twice")
        other.kill()
        other.wait()
    with locked(path, "busy"):
        pass
