"""Draw the paper's figures of one run or several, as SVG and PNG, each with a sentence on what it shows here.

Of runs that differ in their seed alone means are drawn. Give a run of source-only on the same pictures as well, to see what
was gained. Target labels are looked at where a run was begun with --evaluate, and nowhere else.

  hda figures runs/hdan runs/source-only --out figures
  hda figures runs/hdan --target elsewhere/drawings --source elsewhere/photos
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.cli import options


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUN", help="runs' folders")
    parser.add_argument(
        "--out", metavar="DIR", help="a folder, made if need be (default: figures in the first run's folder)"
    )
    options.add_looking(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.engine import files

    runs = options.runs(args.runs)
    out = options.folder("--out", args.out) if args.out else runs[0].path / "figures"
    _, made = options.drawn(args, runs)
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for figure in made:
        written = []
        for stem, drawing in figure.files().items():
            for ending in (".svg", ".png"):
                path = out / f"{stem}{ending}"
                drawing.write(path)
                written.append(str(path))
        print(f"{figure.name}: {figure.sentence}")
        found[figure.name] = {"sentence": figure.sentence, "files": written, "numbers": figure.numbers}
    files.write_json(out / "figures.json", found)
    drawn = sum(bool(figure["files"]) for figure in found.values())
    print(f"{drawn} of {len(found)} figures are drawn, in {out}")
    return {"out": str(Path(out)), "figures": found}
