"""Archives from strangers, extracted whole or not at all, and never beyond their own folder.

Nothing in an archive is believed: names that lead elsewhere, links, devices, and more bytes or files than an archive of its
size can reasonably hold are refused. Everything goes into a draft beside the folder to be, which gets its name at the end.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from hda.data.download import claimed, write_all, written
from hda.errors import UserError

REFUSE = "do not use this archive"
MEMBERS = 2_000_000  # DomainNet has 600,000 pictures in all
SWELL = 100  # times the size of the archive; lists of names, which swell most, do so tenfold
ROOM = 64 << 20  # that small ones may hold whatever their size
CHUNK = 1 << 20

_KINDS = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gz"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bz2"),
)
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, EOFError),
    # what zipfile and tarfile stumble over in bytes that no packer has written
    *(struct.error, ValueError, IndexError, OverflowError, RuntimeError),
)


class ArchiveError(UserError):
    """An archive is damaged, or holds what it should not: `wrong` says what."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(f"{wrong}: {remedy}")
        self.wrong = wrong


def extract(
    archive: Path,
    into: Path,
    *,
    unwrap: bool = False,
    most_bytes: int | None = None,
    most_members: int = MEMBERS,
    progress: Callable[[int], object] | None = None,
) -> Path:
    """Extract a zip or a tar, compressed or not, as a new folder; returns its path.

    The folder is there when everything is in it, and not before. The draft of an extraction that was killed is removed by
    the next. What packers of macOS add (`__MACOSX`, `.DS_Store`) is left out.

    Args:
        archive: the file; its kind is told from its first bytes.
        into: the folder to be.
        unwrap: where everything is in one folder, let that be the folder.
        most_bytes: how much it may hold; if not given, a hundred times its own size and 64 MiB.
        most_members: how many files and folders it may hold.
        progress: called with the number of files so far.

    Raises:
        ArchiveError: it is damaged, or holds what it should not.
        UserError: something is in the way, or cannot be written.
    """
    with written(into):
        into.parent.mkdir(parents=True, exist_ok=True)
    draft = into.with_name(f".{into.name}.draft")
    lock = into.with_name(f".{into.name}.lock")
    with claimed(lock, f"{into} is being extracted by another process: wait until that is done"):
        try:
            if into.exists():
                raise UserError(f"{into} is there already: move it away, so that {archive.name} can be extracted")
            remove_draft(draft)
            _extract(archive, draft, most_bytes, most_members, progress)
            with written(into):
                _name(draft, into, unwrap)
        finally:
            remove_draft(draft)
            lock.unlink(missing_ok=True)
    return into


def remove_draft(draft: Path) -> None:
    """Delete what an extraction that was killed has left."""
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)


def _extract(
    archive: Path, draft: Path, most_bytes: int | None, most_members: int, progress: Callable[[int], object] | None
) -> None:
    try:
        if most_bytes is None:
            most_bytes = SWELL * archive.stat().st_size + ROOM
        with archive.open("rb") as file:
            start = file.read(8)
            file.seek(0)
            kind = next((kind for magic, kind in _KINDS if start.startswith(magic)), "tar")
            tree = _Tree(archive, draft, most_bytes, most_members, progress)
            with written(draft):
                draft.mkdir()
            with _damages(archive):
                if kind == "zip":
                    _unzip(file, tree)
                else:
                    _untar(file, kind, tree)
    except OSError as error:
        raise ArchiveError(f"{archive} cannot be read ({error.strerror or error})", "fetch it again") from None
    if not tree.files:
        raise ArchiveError(f"{archive} holds no files", "fetch it again")


def _name(draft: Path, into: Path, unwrap: bool) -> None:
    if hasattr(os, "sync"):
        os.sync()  # every file of the draft before its name, also when the power fails
    inside = list(draft.iterdir())
    whole = inside[0] if unwrap and len(inside) == 1 and inside[0].is_dir() else draft
    os.replace(whole, into)


@dataclass
class _Tree:
    """The draft: what may be written to it, and how much."""

    archive: Path
    draft: Path
    most_bytes: int
    most_members: int
    progress: Callable[[int], object] | None
    files: int = field(default=0, init=False)
    members: int = field(default=0, init=False)
    total: int = field(default=0, init=False)  # bytes
    folders: set[str] = field(default_factory=set, init=False)

    def refused(self, name: str, why: str) -> ArchiveError:
        return ArchiveError(f"{self.archive} holds {name!r}, {why}", REFUSE)

    def place(self, name: str) -> str | None:
        """Where below the draft a member belongs; None for those that are left out.

        Raises:
            UserError: anywhere else, or it is one too many.
        """
        self.members += 1
        if self.members > self.most_members:
            raise ArchiveError(f"{self.archive} holds more than {self.most_members:,} files", REFUSE)
        if "\\" in name or re.search(r"[\x00-\x1f\x7f]", name):
            raise self.refused(name, "a name that no packer of ours would give")
        if name.startswith("/") or re.match(r"[A-Za-z]:", name) or ".." in name.split("/"):
            raise self.refused(name, "which is outside of its own folder")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if not parts or "__MACOSX" in parts or parts[-1] in (".DS_Store",) or parts[-1].startswith("._"):
            return None
        return "/".join(parts)

    def folder(self, place: str) -> None:
        if place in self.folders:
            return
        with written(self.draft):
            try:
                os.makedirs(f"{self.draft}/{place}", exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise self.refused(place, "as a folder and as a file") from None
        self.folders.add(place)

    def file(self, name: str, place: str, source: IO[bytes]) -> None:
        """Write one file, counting what really comes."""
        above, slash, _ = place.rpartition("/")
        if slash:
            self.folder(above)
        with written(self.draft):
            try:
                file = io.FileIO(f"{self.draft}/{place}", "x")
            except (FileExistsError, IsADirectoryError):
                raise self.refused(name, "and holds it twice") from None
        with file:
            while data := source.read(CHUNK):
                self.total += len(data)
                if self.total > self.most_bytes:
                    limit = f"{self.most_bytes:,} bytes, which is too much for its size"
                    raise ArchiveError(f"{self.archive} holds more than {limit}", REFUSE)
                with written(self.draft):
                    write_all(file, data)
        self.files += 1
        if self.progress:
            self.progress(self.files)


def _unzip(file: IO[bytes], tree: _Tree) -> None:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            place = tree.place(info.orig_filename)
            if place is None:
                continue
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise tree.refused(info.filename, _what(stat.S_ISLNK(kind)))
            if info.flag_bits & 1:
                raise tree.refused(info.filename, "which asks for a password")
            if info.is_dir():
                tree.folder(place)
                continue
            with archive.open(info) as source:
                tree.file(info.filename, place, source)


def _untar(file: IO[bytes], kind: str, tree: _Tree) -> None:
    reader = _Reader(_uncompressed(file, kind), tree)
    with tarfile.open(fileobj=reader, mode="r:") as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # or it keeps a kilobyte for each
            place = tree.place(member.name)
            if place is None:
                continue
            if member.issparse() or not (member.isdir() or member.isfile()):
                raise tree.refused(member.name, _what(member.issym() or member.islnk()))
            _filter(member, tree)
            if member.isdir():
                tree.folder(place)
            elif (source := archive.extractfile(member)) is not None:
                with source:
                    tree.file(member.name, place, source)
    if any(reader.block):  # a tar ends with blocks of zeros; tarfile takes any nonsense for its end, too
        raise tarfile.ReadError("it breaks off")


def _uncompressed(file: IO[bytes], kind: str) -> IO[bytes]:
    match kind:
        case "gz":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file))
        case "xz":
            return cast(IO[bytes], lzma.LZMAFile(file))
        case "bz2":
            return cast(IO[bytes], bz2.BZ2File(file))
    return file


def _filter(member: tarfile.TarInfo, tree: _Tree) -> None:
    """Python's own opinion, where it has one (3.11.4 and later)."""
    check = getattr(tarfile, "data_filter", None)
    if check is not None:
        try:
            check(member, str(tree.draft))
        except tarfile.FilterError as error:
            raise tree.refused(member.name, f"which is not safe ({error})") from None


class _Reader(io.RawIOBase):
    """A tar's bytes, uncompressed: none of its headers may ask for more than a little, nor all for more than allowed."""

    def __init__(self, file: IO[bytes], tree: _Tree) -> None:
        self.inner, self.tree, self.block = file, tree, b"\1"

    def read(self, size: int = -1) -> bytes:
        limit = self.tree.most_bytes + 4096 * (self.tree.members + 16)  # headers, padding and the end
        if size < 0 or size > 8 * CHUNK or self.inner.tell() > limit:
            raise ArchiveError(f"{self.tree.archive} asks for more room than it should", REFUSE)
        data = self.inner.read(size)
        if size == tarfile.BLOCKSIZE:
            self.block = data if len(data) == size else b"\1"
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


def _what(is_link: bool) -> str:
    return "which is a link" if is_link else "which is no plain file"


@contextmanager
def _damages(archive: Path) -> Iterator[None]:
    """What a broken archive raises, told in one sentence."""
    try:
        yield
    except NotImplementedError as error:
        raise ArchiveError(
            f"{archive} is packed in a way not known here ({error})", "repack it as a zip or tar"
        ) from None
    except _DAMAGED as error:
        raise ArchiveError(f"{archive} is damaged, broken off or no archive ({error})", "fetch it again") from None
