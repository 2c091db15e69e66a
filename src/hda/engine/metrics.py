"""`metrics.jsonl`: one JSON object a line, in the order of the steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hda.engine import files
from hda.errors import UserError


class Metrics:
    """The metrics file of a run, opened for adding lines.

    Args:
        path: the file.
        upto: keep the lines up to this step and drop the later ones, which the resumed run will write again.
    """

    def __init__(self, path: Path, upto: int) -> None:
        if path.exists():
            kept = [record for record in read(path) if record["step"] <= upto]
            files.write_text(path, "".join(_line(record) for record in kept))
        self._file = path.open("a", encoding="utf-8")

    def add(self, record: Mapping[str, Any]) -> None:
        self._file.write(_line(record))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines of a metrics file; a last line that a kill cut short is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return [_parsed(line, number, path) for number, line in enumerate(lines[:-1], start=1) if line]


def _parsed(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(line)
        int(record["step"])
    except (ValueError, TypeError, KeyError):
        raise UserError(f"line {number} of {path} is damaged: restore or remove it") from None
    return record


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record) + "\n"
