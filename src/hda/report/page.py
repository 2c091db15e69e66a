"""An HTML page in one file: sections, tables and figures, with nothing fetched from anywhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hda
from hda.report import draw


class Page:
    """A page under way: a title, a lead, then section by section.

    Args:
        title: its headline.
        lead: the sentences under the headline.
    """

    def __init__(self, title: str, lead: str = "") -> None:
        self.title, self.lead = title, lead
        self._sections: list[str] = []
        self._headings: dict[str, str] = {}

    def add(self, heading: str, *parts: str) -> None:
        """Add a section: its heading is text, its parts are HTML as the functions of this module give it."""
        name = f"section-{len(self._headings) + 1}"
        self._headings[name] = heading
        opened = [f'<section aria-labelledby="{name}">', f'<h2 id="{name}">{text(heading)}</h2>']
        self._sections.append("\n".join([*opened, *parts, "</section>"]))

    def html(self) -> str:
        lead = f'<p class="lead">{prose(self.lead)}</p>' if self.lead else ""
        return _PAGE.format(
            title=text(self.title),
            headline=prose(self.title),
            style=_STYLE,
            lead=lead,
            contents=self._contents(),
            sections="\n".join(self._sections),
            footer=text(f"Made by hda {hda.__version__}. The page is this one file; it loads nothing from elsewhere."),
        )

    def _contents(self) -> str:
        """Links to the sections, where there are enough of them to jump."""
        if len(self._headings) < 3:
            return ""
        links = "".join(f'<li><a href="#{name}">{text(heading)}</a></li>' for name, heading in self._headings.items())
        return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def text(value: object) -> str:
    """Text as HTML: escaped, numbers kept together with their percent signs, formulas with their equals signs."""
    whole = str(value).encode("utf-8", "replace").decode("utf-8")  # names of files may hold bytes that are no text
    return html.escape(whole).replace(" %", "\u00a0%").replace(" = ", "\u00a0=\u00a0")


def prose(words: str) -> str:
    """Text as HTML in which no line breaks within the arrow of a task."""
    return text(words).replace("-&gt;", "-\u2060&gt;")


def paragraph(*sentences: str) -> str:
    return f"<p>{prose(' '.join(sentences))}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of text: the first cell of a row heads it, columns of numbers stand to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    numbers = [column > 0 and all(_is_number(row[column]) for row in cells) for column in range(len(header))]
    sides = [' class="number"' if number else "" for number in numbers]
    head = "".join(f'<th scope="col"{side}>{text(name)}</th>' for name, side in zip(header, sides, strict=True))
    body = "\n".join(f"<tr>{_row(row, sides)}</tr>" for row in cells)
    named = text(f"Table: {next(filter(None, header), 'values')}")
    region = f'class="wide" tabindex="0" role="region" aria-label="{named}"'  # what scrolls is moved with the keys
    return f"<div {region}><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"


def figure(picture: str, caption: str = "") -> str:
    """A drawing of `hda.report.draw` on a white card, with its caption."""
    under = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    # A drawing that keeps its size may be wider than the window: its card is then moved with the keys.
    moves = ' tabindex="0" role="region" aria-label="Figure that may be wider than the window"'
    wide = moves if "max-width: none" in picture[:400] else ""
    return f'<figure><div class="card"{wide}>{picture}</div>{under}</figure>'


def part(heading: str, *parts: str) -> str:
    """A part of a section, with a heading of its own."""
    return "\n".join([f"<h3>{text(heading)}</h3>", *parts])


def gallery(pictures: Sequence[NDArray[np.uint8]], captions: Sequence[str], title: str) -> str:
    """Small pictures next to each other, each with its caption, under a title."""
    if not len(pictures):
        return ""
    items = "".join(
        f"<li><figure>{draw.picture(picture, caption)}<figcaption>{text(caption)}</figcaption></figure></li>"
        for picture, caption in zip(pictures, captions, strict=True)
    )
    return f'<p class="title">{text(title)}</p><ul class="gallery" aria-label="{text(title)}">{items}</ul>'


def code(words: str) -> str:
    """Words as they are typed."""
    return f"<p><code>{text(words)}</code></p>"


def listed(sentences: Iterable[str]) -> str:
    """Sentences with a dot each."""
    return f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"


def folded(summary: str, *parts: str) -> str:
    """Parts that are shown when asked for."""
    return f"<details><summary>{text(summary)}</summary>{''.join(parts)}</details>"


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
<h1>{headline}</h1>
{lead}
{contents}
</header>
{sections}
<footer>{footer}</footer>
</main>
</body>
</html>
"""

_STYLE = """
:root { --ink: #1d2430; --faint: #5b6472; --ground: #f6f7f9; --line: #d8dce2; --band: #eceff3; --link: #1f4fb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --faint: #a4adba; --ground: #14181f; --line: #39414d; --band: #1e242d; --link: #8fb6ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5; font-size: 16px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: clamp(1.5rem, 1.1rem + 1.6vw, 2.1rem); line-height: 1.25; margin: 0 0 1rem; max-width: 52rem; }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
p { margin: .5rem 0 1rem; max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 4px; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin: 1rem 0 0; padding: 0; }
nav a { display: inline-block; padding: .3rem 0; }
summary { cursor: pointer; padding: .4rem 0; }
li { max-width: 46rem; }
.title { margin: 1rem 0 .25rem; font-weight: 600; }
.gallery { list-style: none; display: grid; grid-template-columns: repeat(auto-fill, minmax(6.2rem, 1fr)); gap: .75rem;
  margin: .5rem 0 1rem; padding: 0; max-width: 46rem; }
.gallery figure { margin: 0; }
.gallery img { display: block; width: 100%; height: auto; border-radius: 4px; }
.gallery figcaption { margin-top: .2rem; font-size: .8rem; line-height: 1.3; white-space: pre-line;
  overflow-wrap: anywhere; }
.lead { font-size: 1.08rem; color: var(--faint); }
.wide { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .9rem; border-bottom: 1px solid var(--line); font-weight: inherit; }
th:first-child { padding-left: .25rem; }
thead th, tbody th { white-space: nowrap; }
thead th { color: var(--faint); font-size: .9rem; }
tbody tr:hover { background: var(--band); }
.number { text-align: right; }
@media (max-width: 36rem) { th, td { padding: .35rem .5rem; } thead th { white-space: normal; } }
figure { margin: .75rem 0 1.25rem; max-width: 100%; }
figcaption { margin-top: .5rem; font-size: .9rem; color: var(--faint); max-width: 46rem; }
.card { background: #fff; color: #1d2430; border: 1px solid var(--line); border-radius: 8px; padding: .75rem;
  overflow-x: auto; width: fit-content; max-width: 100%; }
.card svg { display: block; height: auto; max-width: 100%; stroke-linejoin: round; stroke-linecap: butt; }
.card img { display: block; height: auto; max-width: 100%; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 0 1.25rem;
  align-items: start; }
.beside .card { width: auto; }
.beside svg, .beside img { width: 100%; margin: 0 auto; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); color: var(--faint);
  font-size: .85rem; }
"""
