"""A few labelled pictures of a target: drawn, or as published lists for semi-supervised adaptation name them.

The published lists (Saito et al., ICCV 2019) have faults that decide what a result means, so whatever is done about
them is said: `Split.notes`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hda.data import lists
from hda.data.datasets.base import Dataset, Domain
from hda.data.images import LabelledImages, Location
from hda.data.names import stem
from hda.errors import UserError

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Which of a domain's pictures are labelled and which are the unlabelled target, as ascending positions."""

    labelled: Rows
    unlabelled: Rows  # what accuracy is measured on, too
    common: Rows | None = None  # those of the unlabelled ones that are test pictures whatever the number of shots
    notes: tuple[str, ...] = ()


def draw(pictures: LabelledImages, shots: int, seed: int, classes: Iterable[str] | None = None) -> Split:
    """So many pictures of each class, drawn.

    A picture's rank is a digest of the seed, its class and its file's stem. So a draw does not depend on the order, the
    storage or the format of the pictures, nor on other classes; and fewer shots are among more shots of the same seed.

    Args:
        pictures: of the target, with all their labels; those of the drawn ones alone leave this function.
        shots: pictures of each class.
        seed: of the draw.
        classes: those to draw from; all of the pictures' if not given.

    Raises:
        UserError: nothing would be left unlabelled.
    """
    drawn: list[int] = []
    short: list[str] = []
    among = set(pictures.classes if classes is None else classes)
    for label, name in enumerate(pictures.classes):
        if name not in among:
            continue
        rows = np.flatnonzero(pictures.labels == label).tolist()
        if len(rows) < shots:
            short.append(f"{name} ({len(rows)})")
        ranked = sorted((_rank(seed, name, pictures.images.names[row]), row) for row in rows)
        drawn += [row for _, row in ranked[:shots]]
    labelled = np.array(sorted(drawn), dtype=np.int64)
    rest = np.setdiff1d(np.arange(len(pictures)), labelled)
    if not len(rest):
        raise UserError(
            f"{shots_of(shots)} of each class are all {len(labelled):,} pictures of {pictures.images.name}: give fewer --shots"
        )
    notes = [
        f"{len(labelled):,} pictures of the target {pictures.images.name}, {shots} of each class, are drawn with seed "
        f"{seed} and labelled; they are no part of the unlabelled target"
    ]
    if short:
        notes.append(f"classes with fewer than {shots} pictures in the target, all labelled: {', '.join(short)}")
    return Split(labelled, rest, notes=tuple(notes))


def published(dataset: Dataset, domain: Domain, pictures: LabelledImages, files: Files) -> Split:
    """The split of a domain that published lists say.

    Args:
        dataset: whose domain it is.
        domain: the target.
        pictures: all of it that is there.
        files: the lists, as `find` finds them.

    Raises:
        UserError: the lists cannot be read, or name pictures that are not there.
    """
    few = dataset.positions(files.labelled, domain, pictures)
    rest = dataset.positions(files.unlabelled, domain, pictures)
    notes = [
        f"the labelled target is that of {files.labelled.name}, the unlabelled one that of {files.unlabelled.name}"
    ]
    both = np.intersect1d(few, rest)
    if len(both):
        notes.append(f"{_pictures(len(both))} of both lists are taken out of the unlabelled one")
        rest = np.setdiff1d(rest, both)
    neither = len(pictures) - len(few) - len(rest)
    if neither:
        notes.append(f"{_pictures(neither)} of {domain.name} in neither list are not used")
    notes += _on_shots(pictures, few, files.shots)
    notes += _on_numbers(dataset, domain, files)
    if files.validation is not None:
        within = np.isin(dataset.positions(files.validation, domain, pictures), rest).sum()
        if within:
            notes.append(
                f"{int(within):,} pictures of the published validation list are in the test list too: nothing is chosen "
                "by their labels, and they are tested on like the others"
            )
    common, more = _on_others(dataset, domain, pictures, files, few, rest)
    return Split(few, rest, common, (*notes, *more))


@dataclass(frozen=True)
class Files:
    """The published lists of one target."""

    shots: int
    labelled: Path
    unlabelled: Path
    validation: Path | None
    source: dict[str, Path]  # by domain
    others: dict[int, tuple[Path, Path]]  # labelled and unlabelled list for other numbers of shots


def find(dataset: Dataset, domain: Domain, shots: int, lists_in: Location | None = None) -> Files | None:
    """Where the published lists of a target are; None where there are none for that number of shots.

    Raises:
        UserError: one of two is there, or the folder given has another dataset's.
    """
    where = dataset.root if lists_in is None else Path(lists_in).expanduser()
    if not where.is_dir():
        raise UserError(f"{where} is no folder: give --lists the folder of the published lists")
    names = [_file("labeled_target_images", name, shots) for name in domain.folders]

    def meant(path: Path) -> bool:
        """What is looked for may be another dataset's; what the user names is read, and refused if it is."""
        return lists_in is not None or _is_of(path, dataset)

    labelled = lists.find(where, names, meant)
    if labelled is None:
        return None
    home = labelled.parent

    def of(kind: str, named: Domain, count: int | None = None) -> Path | None:
        return lists.find_here(home, [_file(kind, name, count) for name in named.folders])

    unlabelled = of("unlabeled_target_images", domain, shots)
    if unlabelled is None:
        missing = _file("unlabeled_target_images", domain.folders[-1], shots)
        raise UserError(f"{home} has {labelled.name} and not {missing}: put all of the published lists there")
    others = {}
    for count in {1, 3} - {shots}:
        pair = of("labeled_target_images", domain, count), of("unlabeled_target_images", domain, count)
        if pair[0] is not None and pair[1] is not None:
            others[count] = (pair[0], pair[1])
    sources = {
        other.name: path for other in dataset.domains if (path := of("labeled_source_images", other)) is not None
    }
    return Files(shots, labelled, unlabelled, of("validation_target_images", domain, 3), sources, others)


def shots_of(count: int) -> str:
    """A number of shots in words."""
    return "1 shot" if count == 1 else f"{count} shots"


def _on_shots(pictures: LabelledImages, few: Rows, shots: int) -> Iterator[str]:
    count = Counter(pictures.labels[few].tolist())
    odd = [name for label, name in enumerate(pictures.classes) if count[label] != shots]
    if odd:
        yield f"{len(odd)} classes have not {shots} labelled pictures in the published list, such as {odd[0]}"


def _on_numbers(dataset: Dataset, domain: Domain, files: Files) -> Iterator[str]:
    pairs = {(line.label, dataset.called(line.folder) or "") for line in dataset.lines(files.labelled, domain)}
    numbers, names = {number for number, _ in pairs}, {name for _, name in pairs}
    if not len(pairs) == len(numbers) == len(names):
        yield "the lists' numbers do not go with their folders one to one: the folders' names are the classes"
    elif all(number.isdecimal() for number in numbers):
        ordered = [name for _, name in sorted(pairs, key=lambda pair: int(pair[0]))]
        if ordered != sorted(ordered):
            yield "the lists' class numbers are not in the order of the names: classes are matched by name"


def _on_others(
    dataset: Dataset, domain: Domain, pictures: LabelledImages, files: Files, few: Rows, rest: Rows
) -> tuple[Rows | None, list[str]]:
    common, notes = None, []
    for count, (labelled, unlabelled) in files.others.items():
        other = dataset.positions(labelled, domain, pictures)
        small, large = sorted((few, other), key=len)
        shared = len(np.intersect1d(small, large))
        if shared < len(small):
            notes.append(
                f"of the {len(small):,} labelled pictures of the smaller list only {shared} are in the larger one"
            )
        common = np.intersect1d(rest, dataset.positions(unlabelled, domain, pictures))
        notes.append(
            f"the test lists of {min(count, files.shots)} and {max(count, files.shots)} shots share "
            f"{_pictures(len(common))}: accuracies of different shots are to be compared on these, and the result has it"
        )
    return common, notes


def _is_of(path: Path, dataset: Dataset) -> bool:
    """Whether a list found by its name is one of this dataset: another's domains may be called alike."""
    return all(dataset.called(line.folder) is not None for line in lists.parse(path))


def _file(kind: str, name: str, shots: int | None = None) -> str:
    return f"{kind}_{name}.txt" if shots is None else f"{kind}_{name}_{shots}.txt"


def _rank(seed: int, name: str, file: str) -> tuple[bytes, str]:
    return hashlib.sha256(f"{seed}\0{name}\0{stem(file)}".encode(errors="surrogateescape")).digest(), file


def _pictures(count: int) -> str:
    return "1 picture" if count == 1 else f"{count:,} pictures"
