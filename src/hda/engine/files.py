"""Writing files so that a kill at any moment leaves the old one or the new one, never half of one."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a file or folder under a temporary name, make it durable, then give it its name."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    remove(draft)
    try:
        fill(draft)
        for part in (*draft.rglob("*"), draft):
            _sync(part)
        os.replace(draft, path)
        _sync(path.parent)
    except BaseException:
        remove(draft)
        raise


def write_json(path: Path, data: Any) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    # What is no text in a file's name, as Python holds it, becomes an escape that JSON knows.
    write(path, lambda draft: _write_text(draft, text, "backslashreplace"))


def write_text(path: Path, text: str) -> None:
    write(path, lambda draft: _write_text(draft, text, "surrogateescape"))  # names of files as their own bytes


def copy(source: Path, path: Path) -> None:
    write(path, lambda draft: shutil.copyfile(source, draft))


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_drafts(folder: Path, of: str | None = None) -> None:
    """Delete what a kill in the middle of writing left behind: of every file, or of the one of that name."""
    for draft in folder.glob(".*.tmp" if of is None else f".{glob.escape(of)}.[0-9]*.tmp"):
        remove(draft)


def _write_text(path: Path, text: str, errors: str) -> None:
    path.write_text(text, encoding="utf-8", errors=errors)


def _sync(path: Path) -> None:
    if os.name != "posix":  # folders cannot be opened elsewhere
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
