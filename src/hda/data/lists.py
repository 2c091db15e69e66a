"""Lists that published datasets come with: found below a folder, read, and matched with the pictures that are there.

Their numbers of classes differ from list to list, their pictures are often stored in another format than they say, and
domains are spelled in several ways; so a line's picture is found by the names of its class and its file's stem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hda.data.images import EXTENSIONS, LabelledImages, Location, read_lines, read_unlabelled
from hda.data.names import plain, stem
from hda.errors import UserError

HOMES = ("list", "split", "txt", "ssda", "multi")  # folders with one of these in their names may hold lists
ALSO = ("images",)  # folders between a domain's and its classes'


class Line(NamedTuple):
    """What one line of a list says: `Real/Alarm_Clock/00080.jpg 0`."""

    number: int
    picture: str
    domain: str  # "" where the path does not say
    folder: str  # the class's
    label: str  # "" where there is none


def parse(path: Path) -> Iterator[Line]:
    """The lines of a list, one by one.

    Raises:
        UserError: a line is no `path` or `path label`, or the path runs through no class folder.
    """
    for number, line in read_lines(path):
        whole = line.lower().endswith(EXTENSIONS)
        picture, label = (line, "") if whole else [*line.rsplit(maxsplit=1), ""][:2]
        above = [part for part in picture.split("/")[:-1] if part not in (".", "..", *ALSO)]
        if not above or not picture.lower().endswith(EXTENSIONS):
            raise UserError(
                f"line {number} of {path} reads {line!r}: write it as `domain/class/picture.jpg label`, as published"
            )
        yield Line(number, picture, above[-2] if len(above) > 1 else "", above[-1], label)


def find(where: Location, names: Iterable[str], accept: Callable[[Path], bool] = lambda _: True) -> Path | None:
    """The first of several files that is in a folder, or in one below it that is called after lists.

    Args:
        where: the folder.
        names: of the files, the one to prefer first; case, spaces and underscores do not matter.
        accept: whether a file that is called so is meant.
    """
    wanted = list(names)
    homes = _homes(Path(where).expanduser())
    return next((path for folder in homes if (path := find_here(folder, wanted, accept)) is not None), None)


def find_here(folder: Path, names: Iterable[str], accept: Callable[[Path], bool] = lambda _: True) -> Path | None:
    """The first of several files that is in a folder itself."""
    files = {plain(path.stem): path for path in sorted(folder.glob("*.txt"))}
    found = (files.get(plain(Path(name).stem)) for name in names)
    return next((path for path in found if path is not None and accept(path)), None)


def positions(
    lines: Iterable[Line], path: Path, pictures: LabelledImages, called: Callable[[str], str | None]
) -> NDArray[np.int64]:
    """Where the pictures that a list names are among those that are there, in ascending order, each once.

    Args:
        lines: of the list.
        path: the list's, for messages.
        pictures: those that are there.
        called: what class a folder's name means.

    Raises:
        UserError: some are not there.
    """
    index = _Index(pictures)
    found: list[int] = []
    missing: list[str] = []
    for line in lines:
        name = called(line.folder) or line.folder
        at = index.position(name, line.picture)
        if at is None:
            missing.append(line.picture)
        else:
            found.append(at)
    if not found and not missing:
        raise UserError(f"{path} names no pictures: get it anew")
    if missing:
        of = len(found) + len(missing)
        raise UserError(
            f"{len(missing):,} of the {of:,} pictures of {path} are not in {pictures.images.origin}, such as "
            f"{missing[0]}: give --data the folder of the whole dataset, or --lists the folder of its own lists"
        )
    return np.unique(np.array(found, dtype=np.int64))


def read_numbered(path: Path, folder: Path, classes: tuple[str, ...]) -> LabelledImages:
    """The pictures of a folder without class folders, their classes by a list of `path number` lines.

    Raises:
        UserError: a picture is in the list and not in the folder or the other way round, or a number is no class's.
    """
    images = read_unlabelled(folder)
    number = {}
    for at, line in read_lines(path):
        picture, _, label = line.rpartition(" ")
        if not label.isdecimal() or int(label) >= len(classes):
            raise UserError(f"line {at} of {path} reads {line!r}: the number is to be below {len(classes)}")
        number["/".join(picture.strip().split("/")[-1:])] = int(label)
    labels = []
    for name in images.names:
        file = name.rpartition("/")[2]
        if file not in number:
            raise UserError(f"{path} has no line for {name} of {folder}: get both anew")
        labels.append(number[file])
    return LabelledImages(images, np.array(labels, dtype=np.int64), classes)


class _Index:
    """Pictures by class and stem, whatever their format; where two share a stem, by the whole name of the file."""

    def __init__(self, pictures: LabelledImages) -> None:
        self._at: dict[str, int] = {}
        self._files: dict[str, int] = {}
        for at, (name, label) in enumerate(zip(pictures.images.names, pictures.labels.tolist(), strict=True)):
            key = f"{pictures.classes[label]}/{stem(name)}"
            if key in self._at:
                for other in {self._at[key], at} - {-1}:
                    file = pictures.images.names[other].rpartition("/")[2]
                    self._files[f"{pictures.classes[label]}/{file}"] = other
                self._at[key] = -1
            else:
                self._at[key] = at

    def position(self, name: str, picture: str) -> int | None:
        at = self._at.get(f"{name}/{stem(picture)}")
        return at if at is None or at >= 0 else self._files.get(f"{name}/{picture.rpartition('/')[2]}")


def _homes(where: Path) -> Iterator[Path]:
    """A folder and those of the two levels below it that may hold lists."""
    yield where
    for child in _folders(where):
        yield child
        if any(word in plain(child.name) for word in HOMES):
            yield from _folders(child)


def _folders(where: Path) -> list[Path]:
    try:
        return sorted(path for path in where.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise UserError(f"{where} cannot be read ({error.strerror}): check the path and its permissions") from None
