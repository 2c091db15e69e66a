"""What a published dataset is: its domains, classes and counts, where they lie on disk, and how they are read."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hda.data import lists
from hda.data.images import COMPRESSED, Images, LabelledImages, Location, first_image, read_labelled
from hda.data.names import plain
from hda.errors import UserError, nearest

Part = Literal["all", "train", "test"]


@dataclass(frozen=True)
class Domain:
    """One domain as published."""

    name: str  # as tables call it
    short: str  # what else a task may call it
    spellings: tuple[str, ...] = ()  # other names of its folder; case, spaces, hyphens and underscores never matter
    images: int | None = None  # published pictures of all parts; None: not known for certain, so not checked
    per_class: tuple[int, ...] = ()  # published pictures of each class, in the order of the dataset's classes
    train: int | None = None  # published pictures of the official training part, where there is one
    test: int | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """How its folder, and lists, may call it."""
        return (self.name, *self.spellings)

    @property
    def names(self) -> tuple[str, ...]:
        """How a task may call it."""
        return (self.name, self.short, *self.spellings)


class Dataset:
    """A published dataset. One file, one subclass: its facts, and whatever of its layout is peculiar.

    The folder of an instance may hold one folder or one `.tar` a domain, spelled in any of the ways seen in the wild,
    or may have these one or two folders further down. A `.tar` directly in it may also be called otherwise, if the
    folder in it is spelled so.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    domains: tuple[Domain, ...] = ()
    classes: tuple[str, ...] = ()  # as their folders are called
    citation: ClassVar[str]
    licence: ClassVar[str]
    homepage: ClassVar[str]
    aliases: ClassVar[Mapping[str, str]] = {}  # other names of class folders
    others: ClassVar[bool] = True  # whether folders of other classes are read too; else they are passed over
    numbering: ClassVar[str] = ""  # how the files of a class are numbered without gaps, for example "frame_{:04d}"
    parts: ClassVar[bool] = False  # whether there is an official training and test part
    more: ClassVar[bool] = False  # whether folders hold more pictures than the published lists and counts
    optional: ClassVar[tuple[str, ...]] = ()  # domains that most do without
    # Where `hda.data.sources` has nothing: files for `hda data prepare` to fetch, and what a person fetches and puts where
    downloads: ClassVar[tuple[Any, ...]] = ()
    manual: ClassVar[str] = ""

    def __init__(self, root: Location) -> None:
        self.root = Path(root).expanduser()
        if not self.root.is_dir():
            raise UserError(f"{root} is no folder: give the folder that {self.title} lies in")

    def domain(self, word: str) -> Domain:
        """The domain of that name, short name or spelling.

        Raises:
            UserError: there is none; the sentence names the nearest.
        """
        for domain in self.domains:
            if plain(word) in map(plain, domain.names):
                return domain
        known = ", ".join(d.name if d.short == d.name else f"{d.name} ({d.short})" for d in self.domains)
        near = nearest(word, sorted({name for domain in self.domains for name in domain.names if len(name) > 1}))
        raise UserError(f"{self.title} has no domain {word!r}{near} (known: {known})")

    def where(self, domain: Domain) -> Path | None:
        """The folder or `.tar` of a domain; None where there is none.

        Raises:
            UserError: there are two.
        """
        for found in self._candidates(domain):
            folders = [path for path in found if path.is_dir()]
            if len(folders or found) > 1:
                one, other = (folders or found)[:2]
                raise UserError(f"{domain.name} of {self.title} is there twice, as {one} and {other}: remove one")
            if found:
                return (folders or found)[0]
        return None

    def read(self, domain: Domain, part: Part = "all", lists_in: Location | None = None) -> LabelledImages:
        """The pictures of a domain, in the order of their names, with classes called as in `classes`.

        Args:
            domain: one of `domains`.
            part: "train" or "test" of the official split, where there is one.
            lists_in: where the lists of the official split lie; looked for below the root if not given.

        Raises:
            UserError: the domain, or the list of the part, is not there.
        """
        path = self.where(domain)
        if path is None:
            raise UserError(f"{self.root} has no {domain.name} of {self.title}: {self.advice(domain)}")
        pictures = self.named(self._pictures(domain, path), domain)
        if part == "all" or not self.parts:
            return pictures
        return pictures.select(self.positions(self.part_list(domain, part, lists_in), domain, pictures))

    def advice(self, domain: Domain) -> str:
        """What to do about a domain that is not there."""
        spelled = " or ".join(repr(name) for name in domain.folders[:2])
        known = [plain(name) for name in domain.folders]
        others = [path for path in self._at(self.root) if not any(self._is(path, other) for other in self.domains)]
        if any(path.is_dir() and self.called(path.name) for path in others):
            return f"it has class folders itself, so give the folder above, such as {self.root.resolve().parent}"
        bare = {path: plain(path.name.partition(".")[0]).removeprefix(plain(self.name)) for path in others}
        near = [path for path in others if difflib.get_close_matches(bare[path], known, cutoff=0.75)]
        if near and near[0].suffix.lower() in COMPRESSED:
            return f"unpack {near[0].name!r} there, or make it a .tar without compression, if that is it"
        if near:
            ending = "" if near[0].is_dir() else near[0].suffix
            return f"rename {near[0].name!r} to {domain.name + ending!r} if that is it"
        return f"put its folder there as {spelled} (`hda data check {self.name}` looks again)"

    def part_list(self, domain: Domain, part: Part, lists_in: Location | None = None) -> Path:
        """The file that lists a part of a domain's official split.

        Raises:
            UserError: it is not there.
        """
        wanted = [f"{name}_{part}.txt" for name in domain.folders]
        found = lists.find(lists_in or self.root, wanted)
        if found is None:
            raise UserError(
                f"{wanted[0].lower()} of {self.title} is not in {lists_in or self.root}: get it from {self.homepage} "
                "and put it there, or say with --lists where it is"
            )
        return found

    def positions(self, path: Path, domain: Domain, pictures: LabelledImages) -> NDArray[np.int64]:
        """Where the pictures that a list names are among the domain's, in ascending order.

        Raises:
            UserError: the list is not of this domain, cannot be read, or names pictures that are not there.
        """
        return lists.positions(self.lines(path, domain), path, pictures, self.called)

    def lines(self, path: Path, domain: Domain) -> Iterator[lists.Line]:
        """The lines of a list of one domain.

        Raises:
            UserError: one is of another domain or class.
        """
        spelled = set(map(plain, domain.folders))
        for line in lists.parse(path):
            of_domain = not line.domain or plain(line.domain) in spelled
            if not of_domain or self.called(line.folder) is None:
                wrong = f"the class {line.folder!r}, which it lacks" if of_domain else f"the domain {line.domain!r}"
                raise UserError(
                    f"line {line.number} of {path} is no line of {self.title}'s {domain.name} but names {wrong}: give "
                    "--lists the folder of its own lists"
                )
            yield line

    def called(self, folder: str) -> str | None:
        """The class that a folder's name means, whatever its case, spaces and underscores; None where it is none."""
        if not hasattr(self, "_called"):
            self._called = {plain(name): name for name in self.classes}
            self._called |= {plain(other): name for other, name in self.aliases.items()}
        return self._called.get(plain(folder))

    def named(self, pictures: LabelledImages, domain: Domain) -> LabelledImages:
        """The same pictures with the dataset's own names of classes; of other classes only where `others` says so."""
        meant = [self.called(name) or (name if self.others else None) for name in pictures.classes]
        classes = tuple(sorted({name for name in meant if name is not None}))
        if not any(map(self.called, pictures.classes)):
            raise UserError(
                f"{self.where(domain) or self.root} has none of the classes of {self.title}, but "
                f"{', '.join(pictures.classes[:3])}...: give another folder"
            )
        number = {name: index for index, name in enumerate(classes)}
        table = np.array([-1 if name is None else number[name] for name in meant], dtype=np.int64)
        labels = table[pictures.labels]
        kept = np.flatnonzero(labels >= 0)
        old = pictures.images
        names = old.names if len(kept) == len(labels) else [old.names[index] for index in kept]
        return LabelledImages(Images(old.storage, names, old.origin, domain.name), labels[kept], classes)

    def _pictures(self, domain: Domain, path: Path) -> LabelledImages:
        """A domain's pictures with classes as they are called on disk."""
        inside = path / "images"
        path = inside if inside.is_dir() else path
        if path.is_dir() and not any(child.is_dir() and self.called(child.name) for child in path.iterdir()):
            numbers = self._numbers(domain, path)
            if numbers is not None:
                return lists.read_numbered(numbers, path, self.classes)
        return read_labelled(path, complete=False)

    def _numbers(self, domain: Domain, path: Path) -> Path | None:
        """The list that numbers the classes of a domain without class folders."""
        wanted = [f"{name}{end}.txt" for name in domain.folders for end in ("", "List")]
        return lists.find(path, ["image_list.txt"]) or lists.find(self.root, wanted)

    def _candidates(self, domain: Domain) -> Iterator[list[Path]]:
        """What may be a domain, the likeliest first: by its own name at each level, or by that of the folder in it."""
        for level in (self._at(self.root), self._below(self.root, 1), self._below(self.root, 2)):
            yield [path for path in level if self._is(path, domain)]
        yield [path for path in self._at(self.root) if self._packs(path, domain)]

    def _packs(self, path: Path, domain: Domain) -> bool:
        """Whether a `.tar` that is called after no domain holds a domain's folder."""
        if path.suffix.lower() != ".tar" or path.is_dir() or any(self._is(path, other) for other in self.domains):
            return False
        spelled = set(map(plain, domain.folders))
        return any(plain(folder) in spelled for folder in (first_image(path) or "").split("/")[:-2])

    def _is(self, path: Path, domain: Domain) -> bool:
        """Whether something is a domain's folder or `.tar` by its name, which may begin with the dataset's."""
        if not path.is_dir() and path.suffix.lower() != ".tar":
            return False
        name = plain(path.name if path.is_dir() else path.stem)
        spelled = set(map(plain, domain.folders))
        return name in spelled or name.removeprefix(plain(self.name)) in spelled

    def _at(self, folder: Path) -> Iterable[Path]:
        try:
            return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            raise UserError(f"{folder} cannot be read ({error.strerror}): check its permissions") from None

    def _below(self, folder: Path, depth: int) -> Iterator[Path]:
        """What lies that many folders further down, but not below a domain: classes may be called like domains."""
        for path in self._at(folder):
            if path.is_dir() and not any(self._is(path, domain) for domain in self.domains):
                with suppress(UserError):  # what cannot be read beside a dataset, such as lost+found, is not of it
                    yield from self._at(path) if depth == 1 else self._below(path, depth - 1)


def words(text: str) -> tuple[str, ...]:
    """Names of classes, written one after the other."""
    return tuple(text.split())


def numbers(text: str) -> tuple[int, ...]:
    """Counts of classes, written one after the other."""
    return tuple(map(int, text.split()))
