"""Plain text on a terminal: wrapped sentences and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence


def wrap(text: str, width: int = 100) -> str:
    return textwrap.fill(" ".join(text.split()), width)


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
    return not cell or cell.lstrip("+-")[:1].isdigit()
