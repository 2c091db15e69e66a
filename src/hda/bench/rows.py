"""Result rows: one JSON object a line, one line a run, added to and never edited.

The fields of a row, version 1:

- `schema`: this version.
- `setting`: "uda", "msda" or "ssda"; `task`: "Art->Clipart", "Art,Product->Clipart"; `dataset`; `shots`, or null.
- `method`; `variant`: what its settings are called, empty where all are the default; `settings`: those given, by name.
- `seed`, `steps`, `batch`, `backbone`, `precision`; `weights`: what the backbone began with, `{"source"}`, of a file with
  its digest, `{"source", "sha256"}`.
- `accuracy`: of the target in percent, **at the last step**; `mean_class_accuracy`; `per_class`: by class name.
- `selected`: what a validator chose without target labels, `{"validator", "step", "accuracy"}`, or null.
- `oracle`: the best accuracy seen on the way, which only target labels can tell; `accuracies`: by step.
- `hold_out`: accuracy on target images that adaptation never saw, `{"share", "images", "accuracy"}`, or null.
- `device`, `seconds`, `images_per_second`, `peak_memory` (bytes).
- `hda`, `commit`, `torch`, `versions`: what computed it; `fingerprint`: of the pictures; `identity`: of the run.
- `command`: to do it again; `table`: the paper's table that the row belongs to, or empty.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hda.errors import UserError

SCHEMA = 1
Row = Mapping[str, Any]
NEEDED = ("task", "method", "seed", "accuracy")
KEPT = {"setting": "uda", "variant": "", "table": "", "shots": None, "steps": None, "batch": None, "backbone": ""}


def read(paths: Iterable[Path | str]) -> list[dict[str, Any]]:
    """The rows of result files, or of all `.jsonl` files in a folder, in order; a line cut short by a kill is left out.

    Raises:
        UserError: a file is not there, or a line of it is no row.
    """
    rows: list[dict[str, Any]] = []
    for path in (file for given in paths for file in _files(Path(given))):
        lines = path.read_text(encoding="utf-8").split("\n")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            row = _parsed(line)
            if row is None and number == len(lines):
                continue
            if row is None or not _is_row(row):
                if row is not None and "accuracy" not in row:
                    continue  # a row of another kind, such as one of speed
                raise UserError(f"line {number} of {path} is no result row: restore the file, or leave it out")
            if row.get("schema", SCHEMA) > SCHEMA:
                raise UserError(
                    f"line {number} of {path} is of the schema {row['schema']}, and this version of hda knows {SCHEMA}: "
                    "update hda"
                )
            rows.append(KEPT | row)
    return rows


def add(path: Path, row: Row) -> None:
    """Add a row to a file, as one whole line; half a line that a kill has left there is taken away.

    One process at a time: whoever lets several add to a file has them wait for each other.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"schema": SCHEMA, **row}, ensure_ascii=False) + "\n"
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def key(row: Row) -> tuple[str, str]:
    """What is one line of a table: a method with its variant."""
    return row["method"], row.get("variant") or ""


def newest(rows: Sequence[Row]) -> list[Row]:
    """The rows without those that a later one of the same run replaces."""
    last: dict[object, Row] = {}
    for row in rows:
        alike = (*key(row), row["task"], row.get("shots"), row["seed"], row.get("steps"), row.get("backbone"))
        same = row.get("identity") or alike
        last.pop(same, None)
        last[same] = row
    return list(last.values())


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.glob("*.jsonl"))
        if not found:
            raise UserError(f"{path} holds no .jsonl file: give files of result rows")
        return found
    if not path.is_file():
        raise UserError(f"{path} does not exist: give a file of result rows, or a folder of such files")
    return [path]


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_row(row: Row) -> bool:
    accuracy = row.get("accuracy")
    numbers = isinstance(accuracy, int | float) and math.isfinite(accuracy) and isinstance(row.get("seed"), int)
    return all(name in row for name in NEEDED) and numbers
