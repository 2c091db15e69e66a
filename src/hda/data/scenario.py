"""Who is source and who is target, which target labels may be seen, and, apart from all that, the answers.

UDA, several sources and a few labelled target pictures differ only in what a scenario lists. Its unlabelled target is
of the type `Images`: names and pictures, no labels. A name may run through a folder called after the class, but the
batches that a method is handed carry no names, only pixels, the visible labels and domain numbers.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hda.data.images import (
    Images,
    Indices,
    LabelledImages,
    Location,
    is_list,
    read_labelled,
    read_unlabelled,
    unite,
)
from hda.errors import UserError

Setting = Literal["uda", "msda", "ssda"]


@dataclass(frozen=True, eq=False)
class Scenario:
    """One task: labelled sources, an unlabelled target, perhaps a labelled part of it. Data, no code."""

    sources: tuple[LabelledImages, ...]
    target: Images
    labelled: LabelledImages | None = None
    classes: tuple[str, ...] = ()  # every source and the labelled target are numbered by these; default: the first's
    notes: tuple[str, ...] = ()  # sentences on what was found and done

    def __post_init__(self) -> None:
        if not self.sources:
            raise ValueError("a scenario has at least one source")
        if not isinstance(self.target, Images):
            raise TypeError("the target is of the type Images, without labels: give labelled.images")
        if not self.classes:
            object.__setattr__(self, "classes", self.sources[0].classes)
        if any(part.classes != self.classes for part in self._labelled_parts):
            raise ValueError("the parts of a scenario are numbered by one tuple of classes: use Scenario.of")

    @classmethod
    def read(
        cls,
        source: Location | Sequence[Location],
        target: Location,
        labelled: Location | None = None,
        root: Location | None = None,
        *,
        shots: int | None = None,
        seed: int = 0,
    ) -> Scenario:
        """A scenario from what lies on disk: folders, `.tar` files and lists, in any mixture.

        Args:
            source: labelled pictures (`read_labelled`), or several such.
            target: pictures whose labels, if there are any, are not read (`read_unlabelled`).
            labelled: the labelled part of the target, with class names of the sources.
            root: the folder or `.tar` that the paths of lists start from; each list's own folder if not given.
            shots: instead of `labelled`: so many pictures of each class of the target, which has class folders, are
                drawn and labelled. Only their labels are kept.
            seed: of that draw.

        Raises:
            UserError: something cannot be read, is given twice, or does not go with the rest.
        """
        given = [source] if isinstance(source, str | os.PathLike) else list(source)
        if not given:
            raise UserError("no source is given: give the path of at least one")
        _check_paths(given, target, labelled, root)
        sources = [read_labelled(path, root) for path in given]
        if shots is not None:
            return cls._with_shots(sources, target, root, labelled, shots, seed)
        unlabelled = read_unlabelled(target, root)
        few = None if labelled is None else read_labelled(labelled, root, complete=False)
        return cls.of(sources, unlabelled, few)

    @classmethod
    def of(
        cls,
        sources: Sequence[LabelledImages],
        target: Images,
        labelled: LabelledImages | None = None,
        *,
        apart: bool = False,
    ) -> Scenario:
        """A scenario of sets that may number their classes differently: classes are matched by name.

        Pictures of the labelled target that are in the unlabelled one too are taken out of the latter, unless the two
        are known to be `apart`, since they are parts of one set.

        Raises:
            UserError: the labelled target has a class that no source has, or a set is left without pictures.
        """
        classes = tuple(sorted({name for source in sources for name in source.classes}))
        notes = [*_notes_on_sources(sources, classes)]
        _check_apart(sources, target)
        if labelled is not None:
            _check_classes(labelled, classes)
            target, taken = (target, 0) if apart else _without(target, labelled.images)
            if taken:
                notes.append(f"{_images(taken)} of the labelled target are taken out of the unlabelled target")
            lacking = sorted(set(classes) - set(labelled.classes))
            if lacking:
                notes.append(f"the labelled target {labelled.images.name} lacks {_classes(lacking, len(classes))}")
            labelled = labelled.renumbered(classes)
        return cls(tuple(source.renumbered(classes) for source in sources), target, labelled, classes, tuple(notes))

    @classmethod
    def _with_shots(
        cls,
        sources: Sequence[LabelledImages],
        target: Location,
        root: Location | None,
        labelled: Location | None,
        shots: int,
        seed: int,
    ) -> Scenario:
        from hda.data.splits import draw, shots_of

        if labelled is not None:
            raise UserError(
                f"{labelled} is the labelled target and {shots_of(shots)} to be drawn are asked for: give one of the two"
            )
        images = read_unlabelled(target, root)
        if not is_list(target) and all("/" not in name for name in images.names):
            raise UserError(
                f"{target} has no class folders to draw {shots_of(shots)} from: give --labelled PATH instead"
            )
        pictures = read_labelled(target, root, complete=False)
        classes = {name for source in sources for name in source.classes}
        if not classes & set(pictures.classes):
            raise UserError(_nothing_shared(target, pictures.classes, sorted(classes), "leave --shots out"))
        split = draw(pictures, shots, seed, classes)
        few = pictures.select(split.labelled).compact()
        scenario = cls.of(sources, pictures.images.select(split.unlabelled), few, apart=True)
        return replace(scenario, notes=(*scenario.notes, *split.notes))

    @property
    def setting(self) -> Setting:
        """What the literature calls it: semi-supervised with a labelled target, else multi-source or unsupervised."""
        if self.labelled is not None:
            return "ssda"
        return "msda" if len(self.sources) > 1 else "uda"

    @property
    def domains(self) -> int:
        """How many there are: the target, its labelled part if any, and every source."""
        return 1 + len(self._labelled_parts)

    @property
    def name(self) -> str:
        """The task as tables call it, for example "Art,Product->Clipart"."""
        return f"{','.join(source.images.name for source in self.sources)}->{self.target.name}"

    def combined(self) -> Scenario:
        """The same task with all sources as one domain: what the literature calls "sources combined"."""
        if len(self.sources) == 1:
            return self
        names = ", ".join(source.images.name for source in self.sources)
        note = f"the sources {names} are combined: methods see one domain"
        return replace(self, sources=(unite(self.sources),), notes=(*self.notes, note))

    def fingerprint(self) -> str:
        """A digest of every name, stamp and visible label: another after any change."""
        digest = hashlib.sha256(repr((self.setting, self.classes)).encode(errors="surrogateescape"))
        for part in self._labelled_parts:
            digest.update(part.images.fingerprint().encode())
            digest.update(part.labels.astype("<i8").tobytes())
        digest.update(self.target.fingerprint().encode())
        return digest.hexdigest()

    def keep(
        self, sources: Sequence[Indices] | None = None, labelled: Indices | None = None, target: Indices | None = None
    ) -> Scenario:
        """The scenario with only the pictures at those positions; None keeps all of a set.

        Raises:
            UserError: a set would be left without pictures.
        """
        kept = self.sources
        if sources is not None:
            kept = tuple(part.select(rows) for part, rows in zip(self.sources, sources, strict=True))
        few = self.labelled if self.labelled is None or labelled is None else self.labelled.select(labelled)
        rest = self.target if target is None else self.target.select(target)
        for images in (*(part.images for part in kept), *([] if few is None else [few.images]), rest):
            if not len(images):
                raise UserError(f"no image of {images.name} is left: give some that can be read")
        return replace(self, sources=kept, labelled=few, target=rest)

    @property
    def _labelled_parts(self) -> tuple[LabelledImages, ...]:
        return self.sources if self.labelled is None else (*self.sources, self.labelled)


@dataclass(frozen=True, eq=False)
class Answers:
    """The true classes of a target's pictures. Only the evaluator is handed these, never a method."""

    labels: NDArray[np.int64]  # one a picture, in the pictures' order; -1: not scored, the source lacks its class
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()
    images: Images | None = None  # the test pictures, where the target has a test part; None: the scenario's target
    common: NDArray[np.bool_] | None = None  # pictures on which to give the accuracy again: tested in other splits too

    def __post_init__(self) -> None:
        labels = np.array(self.labels, dtype=np.int64)
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def read(
        cls, target: Location, scenario: Scenario, root: Location | None = None, *, strict: bool = False
    ) -> Answers:
        """The target's folder names, or its list's labels, taken for the truth, in the order of `scenario.target`.

        Args:
            target: where the scenario's target was read from.
            scenario: whose target it is.
            root: where a list's paths start.
            strict: refuse a target with classes that the sources lack, instead of leaving them out of the accuracy.

        Raises:
            UserError: there are no class folders or labels, or none is a class of the source.
        """
        return cls.of(target, scenario.target, scenario.classes, root, strict=strict)

    @classmethod
    def of(
        cls,
        path: Location,
        images: Images,
        classes: Sequence[str],
        root: Location | None = None,
        *,
        strict: bool = False,
    ) -> Answers:
        """The true classes of `images`, which were read from that path without labels, as numbers into `classes`.

        Raises:
            UserError: there are no class folders or labels, or none is among `classes`.
        """
        if images.names and not is_list(path) and all("/" not in name for name in images.names):
            raise UserError(f"{path} has no class folders, so its true labels are unknown: leave --evaluate out")
        truth = read_labelled(path, root, complete=False)
        row = {name: index for index, name in enumerate(truth.images.names)}
        missing = next((name for name in images.names if name not in row), None)
        if missing is not None:
            raise UserError(f"{path} has no label for {missing}: give the target itself")
        own = truth.select([row[name] for name in images.names])
        return cls.known(replace(own, images=images), classes, path, strict=strict)

    @classmethod
    def known(
        cls, truth: LabelledImages, classes: Sequence[str], path: Location | None = None, *, strict: bool = False
    ) -> Answers:
        """The answers for pictures whose true classes are given, as numbers into `classes`.

        Raises:
            UserError: none is among `classes`, or, if `strict`, one is not.
        """
        number = {name: index for index, name in enumerate(classes)}
        table = np.array([number.get(name, -1) for name in truth.classes], dtype=np.int64)
        labels = table[truth.labels]
        present = [truth.classes[index] for index in np.unique(truth.labels)]
        if (labels < 0).all():
            raise UserError(_nothing_shared(path or truth.images.name, present, classes, "leave --evaluate out"))
        strange = [name for name in present if name not in number]
        if strict and strange:
            raise UserError(
                f"the target {truth.images.name} has {_classes(strange, len(present))}, which the source lacks: leave "
                "--strict out to train on them without labels and leave them out of the accuracy"
            )
        notes = tuple(_notes_on_answers(truth.labels, truth.classes, classes, truth.images.name))
        return cls(labels, tuple(classes), notes)

    def select(self, indices: Indices) -> Answers:
        """The answers for the pictures at those positions, in that order."""
        rows = np.asarray(indices, dtype=np.int64)
        return replace(
            self,
            labels=self.labels[rows],
            images=None if self.images is None else self.images.select(rows),
            common=None if self.common is None else self.common[rows],
        )


def _check_paths(
    sources: Sequence[Location], target: Location, labelled: Location | None, root: Location | None
) -> None:
    parts = [*(("source", path) for path in sources), ("target", target)]
    parts += [] if labelled is None else [("labelled target", labelled)]
    seen: dict[Path, str] = {}
    for role, path in parts:
        real = Path(path).resolve()
        if os.fspath(path) and real in seen:
            twice = f"twice as {role}" if seen[real] == role else f"as {seen[real]} and as {role}"
            raise UserError(f"{path} is given {twice}: give each set of images once")
        seen[real] = role
    if root is not None and not any(is_list(path) for _, path in parts):
        raise UserError(f"the root {root} is for the paths in lists, and no list is given: leave it out")


def _check_apart(sources: Sequence[LabelledImages], target: Images) -> None:
    """A source's picture in the target would be a target label in reach."""
    if target.origin is None:
        return
    places = {target.where(index) for index in range(len(target))}
    for source in (source for source in sources if source.images.origin is not None):
        shared = [place for place in map(source.images.where, range(len(source))) if place in places]
        if shared:
            both = f"{source.images.name} and the target {target.name} share {_images(len(shared))}"
            raise UserError(f"the source {both}, such as {shared[0]}: give sets that share none")


def _check_classes(labelled: LabelledImages, classes: Sequence[str]) -> None:
    for name in labelled.classes:
        if name not in classes:
            near = _near(name, classes)
            remedy = f"name its folder or label {near!r} if that is meant" if near else "leave it out"
            where = f"the labelled target {labelled.images.name}"
            raise UserError(f"class {name!r} of {where} is not among the source's classes: {remedy}")


def _without(target: Images, labelled: Images) -> tuple[Images, int]:
    """The target without the labelled pictures, and how many those were.

    A picture counts as the same where it lies in the same place, or has the same file name and the same bytes: labelled
    parts are often copies or links. Equal bytes under two names stay: published splits of sets with duplicates have
    such. Sets in memory are taken as they are.
    """
    if target.origin is None or labelled.origin is None:
        return target, 0
    places = {labelled.where(index) for index in range(len(labelled))}
    by_name: dict[str, list[int]] = {}
    for index, name in enumerate(labelled.names):
        by_name.setdefault(posixpath.basename(name), []).append(index)

    def is_labelled(index: int) -> bool:
        if target.where(index) in places:
            return True
        others = by_name.get(posixpath.basename(target.names[index]), ())
        alike = [other for other in others if labelled.stamp(other)[0] == target.stamp(index)[0]]
        return bool(alike) and target.read(index) in map(labelled.read, alike)

    try:
        rest = [index for index in range(len(target)) if not is_labelled(index)]
    except OSError as error:
        raise UserError(f"{error.filename} cannot be read ({error.strerror}): check the file") from None
    if not rest:
        raise UserError(f"every image of the target {target.name} is in its labelled part too: give others as target")
    return target.select(rest), len(target) - len(rest)


def _notes_on_sources(sources: Sequence[LabelledImages], classes: Sequence[str]) -> Iterable[str]:
    for source in sources:
        lacking = sorted(set(classes) - set(source.classes))
        if lacking:
            yield f"the source {source.images.name} lacks {_classes(lacking, len(classes))}"
    alike: dict[str, list[str]] = {}
    for name in classes:
        alike.setdefault(_plain(name), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"the classes {_list(names)} are kept apart: rename their folders if they are one"


def _notes_on_answers(
    raw: NDArray[np.int64], truth: Sequence[str], classes: Sequence[str], target: str
) -> Iterable[str]:
    present = [truth[index] for index in np.unique(raw)]
    strange = [name for name in present if name not in classes]
    if strange:
        count = int(np.isin(raw, [index for index, name in enumerate(truth) if name in strange]).sum())
        many = "1 class" if len(strange) == 1 else f"{len(strange)} classes"
        near = {name: _near(name, classes, exactly=True) for name in strange}
        hints = [f"{name!r} may be the source's {other!r}" for name, other in near.items() if other]
        hint = f"; {', '.join(hints[:5])}" if hints else ""
        left_out = f"{_images(count)} of {many} the source lacks are left out of the accuracy"
        yield f"{left_out}: {_list(strange, most=20)}{hint}"
    lacking = [name for name in classes if name not in present]
    if lacking:
        yield f"the target {target} lacks {_classes(lacking, len(classes))}"


def _nothing_shared(path: Location, truth: Sequence[str], classes: Sequence[str], otherwise: str) -> str:
    near = next(((name, other) for name in truth if (other := _near(name, classes))), None)
    remedy = f"rename its {near[0]!r} to {near[1]!r} and so on" if near else otherwise
    return f"no class of {path} ({_list(truth)}) is among the source's ({_list(classes)}): {remedy}"


def _near(name: str, known: Sequence[str], exactly: bool = False) -> str | None:
    """The known class spelt alike but for case, spaces and underscores, or else (not `exactly`) a close one."""
    plain = {_plain(other): other for other in known}
    if _plain(name) in plain:
        return plain[_plain(name)]
    close = [] if exactly else difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return close[0] if close else None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"


def _classes(names: Sequence[str], of: int) -> str:
    return f"{len(names)} of the {of} classes: {_list(names)}"


def _list(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
