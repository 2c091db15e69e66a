"""Measure a trained run on labelled pictures: accuracy, accuracy of each class, confusion matrix.

Classes are matched by name; pictures of classes that the run does not know are left out.

  hda evaluate runs/drawings labelled-drawings
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.cli import options
from hda.cli.text import table

WORST = 10


def arguments(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "path", metavar="PATH", help="a folder or .tar of class folders, or a list of `path label` lines"
    )
    parser.add_argument(
        "--picture",
        metavar="FILE.png",
        help="the confusion matrix, as a new file (default: confusion-PATH.png in the run's folder, drawn anew)",
    )
    options.add_reading(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    import numpy as np

    from hda.cli.terminal import reporting
    from hda.engine.run import Run
    from hda.report.draw import write_confusion

    trained = Run(args.run)
    drawn_anew = trained.path / f"confusion-{Path(args.path).resolve().stem}.png"
    picture = options.new_file("--picture", args.picture, ".png") if args.picture else drawn_anew
    options.check_root(args.root, args.path)
    with reporting() as reporter:
        found = trained.evaluate(
            args.path,
            root=args.root,
            device=args.device,
            checkpoint=args.checkpoint,
            skip_broken=args.skip_broken,
            progress=reporter.reading("pictures", 0),
        )
    for sentence in found.left_out:
        print(f"left out: {sentence}", file=sys.stderr)
    print(
        f"accuracy {found.accuracy:.2f} %, mean of the classes' accuracies {found.mean_class_accuracy:.2f} %, "
        f"{found.images:,} images"
    )
    order = [index for index in np.argsort(found.per_class, kind="stable") if found.confusion[index].sum()]
    rows = []
    for index in order[:WORST]:
        images, wrong = f"{found.confusion[index].sum():,}", _taken_for(found.confusion, index, trained.classes)
        rows.append((trained.classes[index], f"{found.per_class[index]:.1f}", images, wrong))
    print(table(("class (worst first)", "accuracy %", "images", "most often taken for"), rows))
    write_confusion(picture, found.confusion, trained.classes)
    print(f"the confusion matrix is in {picture}")
    return {
        "accuracy": found.accuracy,
        "mean_class_accuracy": found.mean_class_accuracy,
        "images": found.images,
        "confusion": str(picture),
    }


def _taken_for(confusion: Any, row: int, classes: Sequence[str]) -> str:
    wrong = confusion[row].copy()
    wrong[row] = 0
    return classes[int(wrong.argmax())] if wrong.any() else ""
