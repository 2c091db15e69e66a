"""Plain text on a terminal: wrapped sentences and tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

_NUMBER = re.compile(r"[+\-\u2212]?\d[\d,]*(\.\d+)?|\u2013")  # a dash stands where there is none


def wrap(text: str, width: int = 100, indent: str = "") -> str:
    """A paragraph; words with hyphens, such as options, are kept whole."""
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def paragraphs(text: str, width: int = 100, indent: str = "") -> str:
    """Wrapped paragraphs; those that are indented stay as they are."""
    return "\n\n".join(
        part if part.startswith(" ") else wrap(part, width, indent) for part in text.strip("\n").split("\n\n")
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be; the first to the left, numbers to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    right = [i > 0 and all(_numeric(row[i]) for row in cells[1:]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)
        ).rstrip()

    return "\n".join([line(cells[0]), line(["-" * w for w in widths]), *(line(row) for row in cells[1:])])


def _numeric(cell: str) -> bool:
    return not cell or _NUMBER.fullmatch(cell) is not None
