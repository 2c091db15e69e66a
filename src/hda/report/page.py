"""An HTML page in one file: sections, tables and figures, with nothing fetched from anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import hda


class Page:
    """A page under way: a title, a lead, then section by section.

    Args:
        title: its headline.
        lead: the sentences under the headline.
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title, self.lead = title, lead
        self._sections: list[str] = []

    def add(self, heading: str, *parts: str) -> None:
        """Add a section: its heading is text, its parts are HTML as the functions of this module give it."""
        self._sections.append("\n".join(["<section>", f"<h2>{text(heading)}</h2>", *parts, "</section>"]))

    def html(self) -> str:
        lead = f'<p class="lead">{text(self.lead)}</p>' if self.lead else ""
        return _PAGE.format(
            title=text(self.title),
            style=_STYLE,
            lead=lead,
            sections="\n".join(self._sections),
            footer=text(f"Made by hda {hda.__version__}. The page is this one file; it loads nothing from elsewhere."),
        )


def text(value: object) -> str:
    """Text as HTML: escaped, numbers kept together with their percent signs, formulas with their equals signs."""
    whole = str(value).encode("utf-8", "replace").decode("utf-8")  # names of files may hold bytes that are no text
    return html.escape(whole).replace(" %", "\u00a0%").replace(" = ", "\u00a0=\u00a0")


def paragraph(*sentences: str) -> str:
    return f"<p>{text(' '.join(sentences))}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of text: the first cell of a row heads it, columns of numbers stand to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    numbers = [column > 0 and all(_is_number(row[column]) for row in cells) for column in range(len(header))]
    sides = [' class="number"' if number else "" for number in numbers]
    head = "".join(f'<th scope="col"{side}>{text(name)}</th>' for name, side in zip(header, sides, strict=True))
    body = "\n".join(f"<tr>{_row(row, sides)}</tr>" for row in cells)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def figure(picture: str, caption: str = "") -> str:
    """A drawing of `hda.report.draw` on a white card, with its caption."""
    under = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="card">{picture}</div>{under}</figure>'


def beside(*figures: str) -> str:
    """Figures next to each other, as many as the window is wide enough for."""
    return f'<div class="beside">{"".join(figures)}</div>'


def settings_table(settings: Iterable[tuple[str, Any]]) -> str:
    """Names and values; of a path nothing that only this machine knows."""
    return table(("setting", "value"), ((name, shown(value)) for name, value in settings))


def shown(value: Any) -> str:
    """A setting's value as the command line would name it."""
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "true" if value else "false"
    return local(value) if isinstance(value, str) else str(value)


def local(path: str) -> str:
    """The last two parts of an absolute path; anything else as it is."""
    for kind in (PurePosixPath, PureWindowsPath):
        if kind(path).is_absolute():
            return "/".join(part for part in kind(path).parts[-2:] if part != kind(path).anchor)
    return path


def duration(seconds: float) -> str:
    """A time as one says it: 48 seconds, 3 min 5 s, 2 h 4 min."""
    whole = round(seconds)
    if whole < 100:
        return f"{seconds:.1f} seconds" if seconds < 10 else f"{whole} seconds"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _row(row: Sequence[str], sides: Sequence[str]) -> str:
    first, *rest = (f"{side}>{text(cell)}" for cell, side in zip(row, sides, strict=True))
    return f'<th scope="row"{first}</th>' + "".join(f"<td{cell}</td>" for cell in rest)


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "").replace("\u2212", "-").replace("\u2013", "0").removesuffix("%"))
    except ValueError:
        return False
    return True


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
{lead}
</header>
{sections}
<footer>{footer}</footer>
</main>
</body>
</html>
"""

_STYLE = """
:root { --ink: #1d2430; --faint: #5b6472; --ground: #f6f7f9; --line: #d8dce2; --band: #eceff3; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --faint: #a4adba; --ground: #14181f; --line: #39414d; --band: #1e242d; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: clamp(1.5rem, 1.1rem + 1.6vw, 2.1rem); line-height: 1.25; margin: 0 0 1rem; max-width: 52rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; }
p { margin: .5rem 0 1rem; max-width: 46rem; }
.lead { font-size: 1.08rem; color: var(--faint); }
.wide { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .9rem; border-bottom: 1px solid var(--line); font-weight: inherit; }
th:first-child { padding-left: .25rem; }
thead th, tbody th { white-space: nowrap; }
thead th { color: var(--faint); font-size: .9rem; }
tbody tr:hover { background: var(--band); }
.number { text-align: right; }
figure { margin: .75rem 0 1.25rem; max-width: 100%; }
figcaption { margin-top: .5rem; font-size: .9rem; color: var(--faint); max-width: 46rem; }
.card { background: #fff; color: #1d2430; border: 1px solid var(--line); border-radius: 8px; padding: .75rem;
  overflow-x: auto; width: fit-content; max-width: 100%; }
.card svg { display: block; height: auto; max-width: 100%; stroke-linejoin: round; stroke-linecap: butt; }
.card img { display: block; height: auto; max-width: 100%; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 0 1.25rem;
  align-items: start; }
.beside .card { width: auto; }
.beside svg, .beside img { width: 100%; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--faint);
  font-size: .85rem; }
"""
