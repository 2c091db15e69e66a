"""Sets of pictures: which there are, how to get at their bytes, and, for labelled ones, the class of each.

Pictures lie in a folder, in a `.tar` (read in place, never extracted), in the places that a list file names, or in
memory. Whatever the storage, a set is in the order of its names, so it is the same on every machine.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hda.errors import UserError

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
LISTS = (".txt", ".lst", ".list")
COMPRESSED = (".gz", ".tgz", ".xz", ".txz", ".bz2", ".tbz2", ".zst", ".zip", ".7z", ".rar")

Location = str | os.PathLike[str]
Indices = Sequence[int] | NDArray[np.integer]


class Storage(Protocol):
    """Where the pictures of a set lie; it knows each by its name."""

    def read(self, name: str) -> bytes: ...

    def stamp(self, name: str) -> tuple[int, int]: ...

    def where(self, name: str) -> str: ...


class Images:
    """Pictures without labels: a name each, and the way to their bytes. Nothing is decoded here.

    A name is a path relative to the set's folder, tar or list root. It may well run through a folder called after the
    picture's class, so names are for people, caches and tables: what a method is handed has none.
    """

    def __init__(self, storage: Storage, names: Iterable[str], origin: Path | None, name: str) -> None:
        self.storage = storage
        self.names = tuple(names)
        self.origin = origin  # what the user named, None for a set in memory
        self.name = name  # what to call the set in tables and pictures

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<{len(self)} images of {self.name}>"

    def read(self, index: int) -> bytes:
        """The encoded file of one picture (a PNG for a set in memory). Safe in threads and in forked processes.

        Raises:
            OSError: the file has gone since the set was read.
        """
        return self.storage.read(self.names[index])

    def array(self, index: int) -> NDArray[np.uint8] | None:
        """One picture as it lies in memory, (height, width, 3); None where the set is not in memory."""
        return self.storage.array(self.names[index]) if isinstance(self.storage, _Memory | _Several) else None

    def stamp(self, index: int) -> tuple[int, int]:
        """Size in bytes and modification time in nanoseconds: they change when the picture does.

        A picture in a tar has its tar's time; one in memory has a checksum instead.
        """
        return self.storage.stamp(self.names[index])

    def where(self, index: int) -> str:
        """The full path of one picture, for messages and for telling whether two sets share a file."""
        return self.storage.where(self.names[index])

    def select(self, indices: Indices) -> Images:
        """The pictures at those positions, in that order."""
        return Images(self.storage, (self.names[i] for i in indices), self.origin, self.name)

    def fingerprint(self) -> str:
        """A digest of every name and stamp: equal for equal sets, another after any change."""
        digest = hashlib.sha256()
        for index, name in enumerate(self.names):
            digest.update(f"{name}\0{self.stamp(index)}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Pictures and the class of each, as a position in `classes`."""

    images: Images
    labels: NDArray[np.int64]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        labels = np.array(self.labels, dtype=np.int64)
        if labels.shape != (len(self.images),):
            raise ValueError(f"{len(self.images)} images need as many labels, got the shape {labels.shape}")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
            raise ValueError(f"labels run from {labels.min()} to {labels.max()}, classes are {len(self.classes)}")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)

    def __len__(self) -> int:
        return len(self.images)

    def select(self, indices: Indices) -> LabelledImages:
        """The pictures at those positions, in that order; the classes stay all the same."""
        rows = np.asarray(indices, dtype=np.int64)
        return LabelledImages(self.images.select(rows), self.labels[rows], self.classes)

    def compact(self) -> LabelledImages:
        """The same pictures without the classes that none of them has."""
        present = np.unique(self.labels)
        table = np.full(len(self.classes), -1, dtype=np.int64)
        table[present] = np.arange(len(present))
        return LabelledImages(self.images, table[self.labels], tuple(self.classes[index] for index in present))

    def renumbered(self, classes: tuple[str, ...]) -> LabelledImages:
        """The same pictures, their classes matched by name with `classes`, which has them all."""
        number = {name: index for index, name in enumerate(classes)}
        table = np.array([number[name] for name in self.classes], dtype=np.int64)
        return LabelledImages(self.images, table[self.labels], classes)


def read_labelled(
    path: Location, root: Location | None = None, name: str | None = None, *, complete: bool = True
) -> LabelledImages:
    """Pictures with their classes.

    Args:
        path: a folder or a `.tar` of class folders, with or without folders above that hold them all; or a list
            file of `path label` lines. A list's classes are called after the folders of its paths where these and the labels
            go together one to one, since numbers differ from list to list; else after the labels. A line that says
            the same twice counts once.
        root: the folder or `.tar` that a list's paths start from; the list's own folder if not given.
        name: what to call the set; if not given, the folder that holds all class folders, or else the path itself.
        complete: insist on two classes or more and on no class folder without pictures.

    Raises:
        UserError: there is no such thing, or it is not such a thing.
    """
    path = _existing(path)
    match _kind(path):
        case "list":
            storage, labels = _read_list(path, root, labelled=True)
            class_of = _names_of_numbers(labels)
        case "image":
            raise UserError(f"{path} is a single image: give a folder of class folders")
        case _:
            storage, entries = _scan(path)
            class_of = _classes_by_folder(entries, path, complete)
    classes = tuple(sorted(set(class_of.values())))
    if complete and len(classes) < 2:
        raise UserError(f"{path} has images of the single class {classes[0]!r}: give at least two classes")
    names = sorted(class_of)
    number = {label: index for index, label in enumerate(classes)}
    labels_in_order = np.fromiter((number[class_of[image]] for image in names), np.int64, len(names))
    return LabelledImages(Images(storage, names, path, name or _called(path, names)), labels_in_order, classes)


def read_unlabelled(path: Location, root: Location | None = None, name: str | None = None) -> Images:
    """Pictures without labels; if there are any, they are passed over.

    Args:
        path: a folder (flat or not), a `.tar`, a list file of lines `path` or `path label`, or one image file.
        root: the folder or `.tar` that a list's paths start from; the list's own folder if not given.
        name: what to call the set; if not given, as for `read_labelled`.

    Raises:
        UserError: there is no such thing, or it is not such a thing.
    """
    path = _existing(path)
    storage: Storage
    names: Iterable[str]
    match _kind(path):
        case "list":
            storage, names = _read_list(path, root, labelled=False)
        case "image":
            storage, names = _Folder(str(path.resolve().parent)), [path.resolve().name]
        case _:
            storage, entries = _scan(path)
            names = (entry for entry in entries if not entry.endswith("/"))
    names = sorted(names)
    return Images(storage, names, path, name or _called(path, names))


@overload
def from_arrays(pixels: NDArray[np.uint8], *, name: str = ...) -> Images: ...


@overload
def from_arrays(
    pixels: NDArray[np.uint8], labels: ArrayLike, classes: Sequence[str], name: str = ...
) -> LabelledImages: ...


def from_arrays(
    pixels: NDArray[np.uint8], labels: ArrayLike | None = None, classes: Sequence[str] = (), name: str = "arrays"
) -> Images | LabelledImages:
    """Pictures in memory, (rows, height, width, 3) of 8 bits, with labels (numbers into `classes`) or without."""
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[3] != 3:
        raise ValueError(f"pixels are uint8 of the shape (rows, height, width, 3), got {pixels.dtype} {pixels.shape}")
    rows = {f"{row:07d}": row for row in range(len(pixels))}
    images = Images(_Memory(pixels, rows, name), rows, None, name)
    return images if labels is None else LabelledImages(images, np.asarray(labels), tuple(classes))


def unite(parts: Sequence[LabelledImages]) -> LabelledImages:
    """Several sets, numbered by one tuple of classes, as one; each name begins with its set's."""
    if any(part.classes != parts[0].classes for part in parts):
        raise ValueError("sets to unite are numbered by one tuple of classes")
    name = "+".join(part.images.name for part in parts)
    places: dict[str, tuple[Storage, str]] = {}
    for number, part in enumerate(parts):
        called = part.images.name if len({p.images.name for p in parts}) == len(parts) else f"{number}"
        places |= {f"{called}/{own}": (part.images.storage, own) for own in part.images.names}
    labels = np.concatenate([part.labels for part in parts])
    origins = [part.images.origin.resolve() for part in parts if part.images.origin is not None]
    origin = Path(os.path.commonpath(origins)) / name if len(origins) == len(parts) else None
    return LabelledImages(Images(_Several(places), places, origin, name), labels, parts[0].classes)


@dataclass(frozen=True)
class _Several:
    """Pictures of several storages."""

    places: Mapping[str, tuple[Storage, str]]

    def array(self, name: str) -> NDArray[np.uint8] | None:
        storage, own = self.places[name]
        return storage.array(own) if isinstance(storage, _Memory) else None

    def read(self, name: str) -> bytes:
        storage, own = self.places[name]
        return storage.read(own)

    def stamp(self, name: str) -> tuple[int, int]:
        storage, own = self.places[name]
        return storage.stamp(own)

    def where(self, name: str) -> str:
        storage, own = self.places[name]
        return storage.where(own)


@dataclass(frozen=True)
class _Folder:
    """Files below a folder."""

    root: str  # without links, so that one file has one path

    def read(self, name: str) -> bytes:
        with open(self.where(name), "rb") as file:
            return file.read()

    def stamp(self, name: str) -> tuple[int, int]:
        status = os.stat(self.where(name))
        return status.st_size, status.st_mtime_ns

    def where(self, name: str) -> str:
        return (
            os.path.normpath(os.path.join(self.root, name)) if name.startswith(("..", "/")) else f"{self.root}/{name}"
        )


@dataclass(frozen=True)
class _Tar:
    """Members of an uncompressed tar, read in place.

    Each reading opens the file anew: a shared handle has one position, which threads and forks would fight over, and
    opening costs little beside decoding.
    """

    path: str
    modified: int
    members: Mapping[str, tuple[int, int]]  # name -> offset, size

    def read(self, name: str) -> bytes:
        offset, size = self.members[name]
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            return file.read(size)

    def stamp(self, name: str) -> tuple[int, int]:
        return self.members[name][1], self.modified

    def where(self, name: str) -> str:
        return f"{self.path}/{name}"


@dataclass(frozen=True)
class _Memory:
    """Rows of an array."""

    pixels: NDArray[np.uint8]
    rows: Mapping[str, int]
    name: str

    def array(self, name: str) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self.pixels[self.rows[name]]
        return pixels

    def read(self, name: str) -> bytes:
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.array(name)).save(file, "PNG")
        return file.getvalue()

    def stamp(self, name: str) -> tuple[int, int]:
        pixels = self.array(name)
        return pixels.nbytes, zlib.crc32(pixels.tobytes())

    def where(self, name: str) -> str:
        return f"{self.name}[{self.rows[name]}]"


def is_list(path: Location) -> bool:
    """Whether a path would be read as a list of images, which has a root."""
    return Path(path).suffix.lower() in LISTS and not Path(path).is_dir()


def _existing(path: Location) -> Path:
    if not os.fspath(path):
        raise UserError("a path is empty: give a folder, a .tar or a list of images")
    try:
        found = Path(path).expanduser()
        there = found.exists()
    except (OSError, RuntimeError) as error:
        raise UserError(f"{path} cannot be reached ({error}): check the path and its permissions") from None
    if not there:
        raise UserError(f"{found} does not exist: check the path")
    return found


def _called(path: Path, names: Sequence[str]) -> str:
    """What to call a set: the folder that holds all class folders if there is one, else the file or folder itself."""
    depth = _depth(names, names)
    above = names[0].split("/")[:depth] if depth else []
    if above and ".." not in above:
        return above[-1]
    path = path.resolve()
    return (path.name if path.is_dir() else path.stem) or "images"


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if path.is_dir():
        return "folder"
    if suffix == ".tar":
        return "tar"
    if suffix in LISTS:
        return "list"
    if suffix in EXTENSIONS:
        return "image"
    if suffix in COMPRESSED:
        raise UserError(
            f"{path} is compressed, and images are read in place: uncompress it to a folder or a .tar first"
        )
    raise UserError(f"{path} is of an unknown kind: give a folder, a .tar, a list ({', '.join(LISTS)}) or an image")


def _scan(path: Path) -> tuple[Storage, list[str]]:
    """What a folder or a tar holds: images by name, and folders, whose names end in a slash."""
    try:
        storage, entries = (_Folder(str(path.resolve())), list(_walk(str(path)))) if path.is_dir() else _index_tar(path)
    except OSError as error:
        raise UserError(f"{error.filename or path} cannot be read ({error.strerror}): check its permissions") from None
    if all(entry.endswith("/") for entry in entries):
        packed = sorted(path.glob("*.tar")) if path.is_dir() else []
        if packed:
            raise UserError(
                f"{path} holds no images but {packed[0].name}: give that .tar itself, or a task with --data"
            )
        raise UserError(f"{path} holds no images: files that end in {', '.join(EXTENSIONS)} count")
    return storage, entries


def _walk(folder: str, prefix: str = "", above: frozenset[tuple[int, int]] = frozenset()) -> Iterator[str]:
    status = os.stat(folder)
    here = (status.st_dev, status.st_ino)
    if here in above:  # a link to a folder that it lies in
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if _hidden(entry.name):
                continue
            if entry.is_dir():
                yield f"{name}/"
                yield from _walk(entry.path, f"{name}/", above | {here})
            elif entry.is_file():
                if _is_image(entry.name):
                    yield name
            elif entry.is_symlink() or _is_image(entry.name):
                raise UserError(
                    f"{entry.path} is a link to nothing, or no file: restore what it stands for or remove it"
                )


def _index_tar(path: Path) -> tuple[_Tar, list[str]]:
    members: dict[str, tuple[int, int]] = {}
    folders: set[str] = set()
    try:
        with tarfile.open(path, "r:") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # or it keeps a kilobyte for each
                name = posixpath.normpath(member.name)
                if name == "." or _hidden(name):
                    continue
                _check_member(member, path)
                if member.isfile() and _is_image(name):
                    members[name] = (member.offset_data, member.size)
                else:
                    folders.add(f"{name if member.isdir() else posixpath.dirname(name)}/")
            end = tar.offset
    except tarfile.TarError as error:
        raise UserError(f"{path} is damaged or is not an uncompressed tar ({error}): get it anew") from None
    if not _ends(path, end):
        raise UserError(f"{path} breaks off or is damaged at byte {end:,}: get it anew")
    folders.discard("/")
    return _Tar(str(path.resolve()), path.stat().st_mtime_ns, members), [*members, *folders]


def first_image(path: Path) -> str | None:
    """The name of the first image in a tar; None where there is none, or it is no tar."""
    try:
        with tarfile.open(path, "r:") as tar:
            names = (posixpath.normpath(member.name) for member in tar if member.isfile())
            return next((name for name in names if _is_image(name) and not _hidden(name)), None)
    except (OSError, tarfile.TarError):
        return None


def _ends(path: Path, offset: int) -> bool:
    """Whether a tar's end mark, a block of zeros, is there: tarfile silently takes a damaged header for the end."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(tarfile.BLOCKSIZE) == bytes(tarfile.BLOCKSIZE)


def _check_member(member: tarfile.TarInfo, path: Path) -> None:
    if member.issym() or member.islnk():
        remedy = "pack it with tar's --dereference and --hard-dereference"
        raise UserError(f"{path} holds a link, {member.name}, where images are read in place: {remedy}")
    if member.name.startswith("/") or ".." in member.name.split("/"):
        raise UserError(f"{path} holds {member.name}, outside of its own folder: pack it with relative paths")
    if not (member.isdir() or member.isfile()) or member.issparse():
        raise UserError(f"{path} holds {member.name}, which is no plain file: pack it without")


def _hidden(name: str) -> bool:
    return any((part.startswith(".") and part != "..") or part == "__MACOSX" for part in name.split("/"))


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS)


def _classes_by_folder(entries: Sequence[str], path: Path, complete: bool) -> dict[str, str]:
    """The class of each image of a tree: its first folder below those that hold everything."""
    images = [entry for entry in entries if not entry.endswith("/")]
    depth = _depth(entries, images)
    for image in images:
        if "/" not in image:
            raise UserError(f"{path} has images directly in it, such as {image}: put each in a folder of its class")
    class_of = {image: image.split("/")[depth] for image in images}
    folders = {entry.split("/")[depth] for entry in entries if entry.count("/") > depth}
    empty = sorted(folders - set(class_of.values()))
    if complete and empty:
        raise UserError(f"class {empty[0]!r} in {path} has no images: add some or remove the folder")
    return class_of


def _depth(entries: Sequence[str], images: Sequence[str]) -> int:
    """How many folders, one in another, hold all of a tree and are above the folders of its images."""
    depth = 0
    while (
        all(image.count("/") >= depth + 2 for image in images)
        and len({entry.split("/")[depth] for entry in entries if entry.count("/") > depth}) == 1
    ):
        depth += 1
    return depth


def _read_list(path: Path, root: Location | None, labelled: bool) -> tuple[Storage, dict[str, str]]:
    """The files that a list names, each with its label (an empty one unless `labelled`)."""
    root = path.parent if root is None else _existing(root)
    storage, find = _finder(root)
    labels: dict[str, str] = {}
    for number, line in read_lines(path):
        image, label = (line, "") if _is_image(line) else [*line.rsplit(maxsplit=1), ""][:2]
        if not _is_image(image) or (labelled and not label):
            form = "path label" if labelled else "path"
            raise UserError(f"line {number} of {path} reads {line!r}: write it as `{form}`, the path being an image's")
        found = find(posixpath.normpath(image))
        if found is None:
            raise UserError(f"line {number} of {path} names {image}, which is not in {root}: give the lists' root")
        label = sys.intern(label) if labelled else ""
        if labels.setdefault(found, label) != label:
            before = labels[found]
            raise UserError(f"line {number} of {path} gives {image} the label {label}, a line above {before}: keep one")
    if not labels:
        raise UserError(f"{path} names no images: write one `path label` a line")
    return storage, labels


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text and their numbers, without those that are empty or begin with a `#`."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, start=1):
                line = line.strip()
                if line and not line.startswith("#"):
                    yield number, line
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text in UTF-8: give a list of `path label` lines") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}): check its permissions") from None


def _finder(root: Path) -> tuple[Storage, Callable[[str], str | None]]:
    """How a path of a list is found below a root: as it stands, or as the only image of that stem.

    Published lists say `.jpg` where copies of the images are often stored otherwise. Every folder is listed once, which
    answers for all its files.
    """
    storage, listing = _listing(root)
    files: dict[str, frozenset[str]] = {}
    stems: dict[str, dict[str, list[str]]] = {}

    def find(path: str) -> str | None:
        folder, slash, file = path.rpartition("/")
        if folder not in files:
            files[folder] = frozenset(listing(folder))
        if file in files[folder]:
            return path
        if folder not in stems:
            stems[folder] = {}
            for name in filter(_is_image, files[folder]):
                stems[folder].setdefault(name.rpartition(".")[0], []).append(name)
        same = stems[folder].get(file.rpartition(".")[0], [])
        return f"{folder}{slash}{same[0]}" if len(same) == 1 else None

    return storage, find


def _listing(root: Path) -> tuple[Storage, Callable[[str], Iterable[str]]]:
    if root.is_dir():

        def listing(folder: str) -> Iterable[str]:
            try:
                return os.listdir(root / folder)
            except (FileNotFoundError, NotADirectoryError):
                return ()

        return _Folder(str(root.resolve())), listing
    if _kind(root) != "tar":
        raise UserError(f"{root} cannot be the root of a list: give a folder or a .tar")
    storage, entries = _scan(root)
    files: dict[str, list[str]] = {}
    for entry in entries:
        folder, _, file = entry.rpartition("/")
        files.setdefault(folder, []).append(file)
    return storage, lambda folder: files.get(folder, ())


def _names_of_numbers(labels: Mapping[str, str]) -> dict[str, str]:
    """The folders' names instead of numbers, where each number goes with one folder; other labels as they are."""
    folder_of = {image: posixpath.basename(posixpath.dirname(image)) for image in labels}
    pairs = {(folder, labels[image]) for image, folder in folder_of.items()}
    folders, numbers = {folder for folder, _ in pairs}, {number for _, number in pairs}
    one_to_one = len(pairs) == len(folders) == len(numbers) and "" not in folders
    return folder_of if one_to_one and all(number.isdecimal() for number in numbers) else dict(labels)
