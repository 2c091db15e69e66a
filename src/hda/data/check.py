"""Whether a dataset on disk is whole: what is missing or extra, as exactly as what is published allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hda.data import lists, splits
from hda.data.datasets.base import Dataset, Domain, Part
from hda.data.images import LabelledImages, Location
from hda.data.names import plain, stem
from hda.errors import UserError, nearest

NAMED = 10  # pictures that a sentence names; `--json` has all


@dataclass
class Found:
    """What is there of one domain, or of one official part of it."""

    domain: str
    path: str | None
    pictures: int = 0
    published: int | None = None
    classes: int = 0
    missing: list[str] = field(default_factory=list)  # pictures, as class/stem
    extra: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)  # sentences
    told: list[str] = field(default_factory=list)  # sentences on what is no mistake


@dataclass(frozen=True)
class Report:
    """All that a check has found."""

    dataset: str
    root: str
    found: tuple[Found, ...]

    @property
    def wrong(self) -> list[str]:
        return [sentence for found in self.found for sentence in found.wrong]

    @property
    def whole(self) -> bool:
        return not self.wrong

    def as_dict(self) -> dict[str, Any]:
        domains = [asdict(found) for found in self.found]
        return {"dataset": self.dataset, "root": self.root, "whole": self.whole, "domains": domains}


def check(dataset: Dataset, lists_in: Location | None = None) -> Report:
    """Look for every domain of a dataset and compare it with what is published.

    Published may be: the number of pictures, of each class, or every picture's name, by a list or since the files of
    a class are numbered.

    Args:
        dataset: at the root where it is.
        lists_in: the folder of published lists; looked for below the root if not given.
    """
    found = []
    for domain in dataset.domains:
        parts: tuple[Part, ...] = ("train", "test") if dataset.parts else ("all",)
        found += [_part(dataset, domain, part, lists_in) for part in parts]
    return Report(dataset.name, str(dataset.root), tuple(found))


def _part(dataset: Dataset, domain: Domain, part: Part, lists_in: Location | None) -> Found:
    number = {"all": domain.images, "train": domain.train, "test": domain.test}[part]
    found = Found(domain.name if part == "all" else f"{domain.name} {part}", None, published=number)
    try:
        where = dataset.where(domain)
        if where is None:
            sentence = f"{domain.name} is missing: {dataset.advice(domain)}"
            (found.told if domain.name in dataset.optional else found.wrong).append(sentence)
            return found
        found.path = str(where)
        pictures = dataset.read(domain, part, lists_in)
        found.pictures, found.classes = len(pictures), len(np.unique(pictures.labels))
        if part == "all":
            _compare(dataset, domain, pictures, found, lists_in)
        elif number is not None and number != len(pictures):
            found.wrong.append(f"{found.domain} has {len(pictures):,} pictures, published are {number:,}: get it anew")
    except UserError as error:
        found.wrong.append(str(error))
    return found


def _compare(
    dataset: Dataset, domain: Domain, pictures: LabelledImages, found: Found, lists_in: Location | None
) -> None:
    there = _by_class(pictures)
    published = _names(dataset, domain, lists_in)
    counted = dict(zip(dataset.classes, domain.per_class, strict=False))
    found.wrong += _on_classes(dataset, domain, there, counted)
    exactly = _Exactly(published, dataset.numbering)
    for name in sorted(set(there) | set(counted) | set(published)):
        if name in there and name in dataset.classes:
            lacks, more = exactly.compare(name, there[name], counted.get(name))
            found.missing += [f"{name}/{picture}" for picture in lacks]
            found.extra += [] if dataset.more else [f"{name}/{picture}" for picture in more]
            few = counted.get(name)
            if not lacks and not more and few is not None and few != len(there[name]):
                found.wrong.append(
                    f"class {name!r} of {domain.name} has {len(there[name]):,} pictures, published are {few:,}"
                )
    empty = [f"{name}/{stem(file)}" for name, file in _without_bytes(pictures)]
    if empty:
        found.wrong.append(f"{_some(empty)} of {domain.name} without a byte, so get them anew: {_list(empty)}")
    if found.missing:
        found.wrong.append(f"{_some(found.missing)} of {domain.name} missing: {_list(found.missing)}")
    if found.extra:
        found.wrong.append(f"{_some(found.extra)} of {domain.name} not in the published dataset: {_list(found.extra)}")
    if not found.wrong and found.published is not None:
        wrong = len(pictures) < found.published if dataset.more else len(pictures) != found.published
        if wrong:
            found.wrong.append(
                f"{domain.name} has {len(pictures):,} pictures, published are {found.published:,}; which are missing or "
                "extra is not known"
            )
    found.told += _on_lists(dataset, domain, pictures, found, lists_in)


def _on_classes(
    dataset: Dataset, domain: Domain, there: dict[str, list[str]], counted: dict[str, int]
) -> Iterator[str]:
    if dataset.name == "folder":
        lacks = sorted(set(dataset.classes) - set(there))
        if lacks:
            yield f"{domain.name} lacks {len(lacks)} of the {len(dataset.classes)} classes: {_list(lacks)}"
        return
    missing = [name for name in dataset.classes if name not in there]
    for name in sorted(set(there) - set(dataset.classes)):
        near = [other for other in missing if nearest(plain(name), [plain(other)])]
        near = near or [other for other in missing if counted.get(other) == len(there[name])]
        remedy = f"rename it to {near[0]!r} if that is it" if near else "take it out"
        yield f"{domain.name} has the class folder {name!r}, which {dataset.title} has not: {remedy}"
    for name in missing:
        of = f" ({counted[name]:,} pictures)" if name in counted else ""
        yield f"class {name!r} of {domain.name} is missing{of}"


@dataclass(frozen=True)
class _Exactly:
    """Which pictures of a class there should be, where that is known."""

    published: dict[str, list[str]]  # stems by class
    numbering: str

    def compare(self, name: str, there: Sequence[str], count: int | None) -> tuple[list[str], list[str]]:
        """What is missing and what is extra."""
        if name in self.published:
            wanted = self.published[name]
        elif self.numbering and count is not None:
            wanted = [self.numbering.format(number) for number in range(1, count + 1)]
        else:
            return [], []
        lacks, more = Counter(wanted) - Counter(there), Counter(there) - Counter(wanted)
        return sorted(lacks.elements()), sorted(more.elements())


def _names(dataset: Dataset, domain: Domain, lists_in: Location | None) -> dict[str, list[str]]:
    """The stems of all pictures of a domain by class, where a list says them."""
    names = [f"labeled_source_images_{name}.txt" for name in domain.folders]
    path = lists.find(lists_in or dataset.root, names, lambda path: _of(path, dataset))
    published: dict[str, list[str]] = {}
    for line in dataset.lines(path, domain) if path else ():
        published.setdefault(dataset.called(line.folder) or line.folder, []).append(stem(line.picture))
    return published


def _of(path: Path, dataset: Dataset) -> bool:
    return all(dataset.called(line.folder) is not None for line in lists.parse(path))


def _on_lists(
    dataset: Dataset, domain: Domain, pictures: LabelledImages, found: Found, lists_in: Location | None
) -> Iterator[str]:
    for shots in (1, 3):
        files = splits.find(dataset, domain, shots, lists_in)
        if files is None or found.wrong:
            continue
        try:
            split = splits.published(dataset, domain, pictures, files)
        except UserError as error:
            found.wrong.append(str(error))
            continue
        yield (
            f"{domain.name}, published lists of {splits.shots_of(shots)}: {len(split.labelled):,} labelled pictures, "
            f"{len(split.unlabelled):,} unlabelled ones, all there"
        )


def _by_class(pictures: LabelledImages) -> dict[str, list[str]]:
    there: dict[str, list[str]] = {}
    for name, label in zip(pictures.images.names, pictures.labels.tolist(), strict=True):
        there.setdefault(pictures.classes[label], []).append(stem(name))
    return there


def _without_bytes(pictures: LabelledImages) -> Iterator[tuple[str, str]]:
    """Class and name of pictures of no size, which a copy that broke off leaves."""
    for at, name in enumerate(pictures.images.names):
        if pictures.images.stamp(at)[0] == 0:
            yield pictures.classes[pictures.labels[at]], name


def _some(names: Sequence[str]) -> str:
    return "1 picture" if len(names) == 1 else f"{len(names):,} pictures"


def _list(names: Iterable[str]) -> str:
    names = list(names)
    shown = ", ".join(names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED:,} more"
