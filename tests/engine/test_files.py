import json
import os
from pathlib import Path

import pytest

from hda.engine import files


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill_folder(draft: Path, text: str) -> None:
    (draft / "deep").mkdir(parents=True)
    (draft / "a.txt").write_text(text)
    (draft / "deep" / "b.txt").write_text(text)


def test_a_file_is_written_and_replaced_without_leaving_drafts(tmp_path):
    path = tmp_path / "file.txt"
    for text in ("first", "second, ä"):
        files.write_text(path, text)
        assert path.read_text(encoding="utf-8") == text
        assert names(tmp_path) == ["file.txt"]


def test_json_is_readable_and_ends_in_a_newline(tmp_path):
    data = {"name": "Büro", "none": None, "numbers": [1, 2.5]}
    files.write_json(tmp_path / "data.json", data)
    text = (tmp_path / "data.json").read_text(encoding="utf-8")
    assert json.loads(text) == data
    assert "Büro" in text
    assert text.endswith("}\n")


def test_a_folder_is_written_under_its_name(tmp_path):
    files.write(tmp_path / "folder", lambda draft: fill_folder(draft, "new"))
    assert names(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "deep" / "b.txt").read_text() == "new"


def test_the_file_has_its_name_only_when_it_is_filled(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fill(draft: Path) -> None:
        draft.write_text("half")
        assert draft.parent == tmp_path  # the same file system, so that renaming is one act
        assert draft != path
        assert path.read_text() == "old"
        draft.write_text("whole")

    files.write(path, fill)
    assert path.read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_while_filling_leaves_the_old_file_and_no_draft(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fill(draft: Path) -> None:
        draft.write_text("half of the n")
        raise error

    with pytest.raises(error):
        files.write(path, fill)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_an_exception_while_filling_a_folder_leaves_nothing(tmp_path):
    def fill(draft: Path) -> None:
        fill_folder(draft, "half")
        raise ValueError

    with pytest.raises(ValueError):
        files.write(tmp_path / "folder", fill)
    assert names(tmp_path) == []


def test_what_cannot_be_written_as_json_leaves_the_old_file(tmp_path):
    files.write_json(tmp_path / "data.json", {"kept": 1})
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "data.json", {"kept": object()})
    assert json.loads((tmp_path / "data.json").read_text()) == {"kept": 1}
    assert names(tmp_path) == ["data.json"]


def test_a_draft_that_the_same_process_left_is_begun_anew(tmp_path):
    fill_folder(tmp_path / f".folder.{os.getpid()}.tmp", "left over")
    files.write(tmp_path / "folder", lambda draft: draft.mkdir())
    assert names(tmp_path) == ["folder"]
    assert names(tmp_path / "folder") == []


def test_copying_replaces_a_file_whole(tmp_path):
    (tmp_path / "one").write_bytes(b"\x00\xff")
    (tmp_path / "other").write_bytes(b"longer than before")
    files.copy(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == b"\x00\xff"
    with pytest.raises(FileNotFoundError):
        files.copy(tmp_path / "gone", tmp_path / "other")
    assert names(tmp_path) == ["one", "other"]


def test_removing_takes_files_folders_and_nothing_but_the_link(tmp_path):
    fill_folder(tmp_path / "folder", "text")
    (tmp_path / "file").write_text("text")
    fill_folder(tmp_path / "target", "text")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("folder", "file", "link", "not there"):
        files.remove(tmp_path / name)
    assert names(tmp_path) == ["target"]
    assert names(tmp_path / "target") == ["a.txt", "deep"]


def test_drafts_that_kills_left_are_removed_and_nothing_else(tmp_path):
    fill_folder(tmp_path / ".checkpoint.123.tmp", "half")
    (tmp_path / ".run.json.99999.tmp").write_text("half")
    for kept in ("run.json", ".lock", "notes.tmp"):
        (tmp_path / kept).write_text("kept")
    files.remove_drafts(tmp_path)
    assert names(tmp_path) == [".lock", "notes.tmp", "run.json"]


def test_what_a_kill_leaves_of_a_write_is_what_remove_drafts_removes(tmp_path):
    def fill(draft: Path) -> None:
        draft.write_text("half")
        (tmp_path / "seen").write_text(draft.name)

    files.write(tmp_path / "file.txt", fill)
    draft = tmp_path / (tmp_path / "seen").read_text()
    draft.write_text("half")
    files.remove_drafts(tmp_path)
    assert names(tmp_path) == ["file.txt", "seen"]
