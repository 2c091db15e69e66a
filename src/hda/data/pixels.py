"""Pictures decoded once: every later start maps them from disk.

A store is one file: the decoded rows, then the index that says which picture each row is, what its file was like when
it was decoded, and which pictures were broken. It is written under another name and renamed when it is complete, so
that there is all of it or nothing. Stores of one set (whole, or the parts that different draws leave) lie together and
take rows from each other.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import shutil
import struct
import threading
import zipfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hda.data import decode
from hda.data.decode import DECODER, Broken, Picture
from hda.data.images import Images, Location
from hda.errors import UserError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such lock
    fcntl = None  # type: ignore[assignment]

Job = TypeVar("Job")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]

SPAN = 16  # pictures that a thread decodes in one go
AHEAD = 8  # spans for each thread that may be done before their turn
HASH = 16  # bytes
SUFFIX = ".pixels"
DRAFT = ".tmp"
END = struct.Struct("<Q8s")  # a store's last bytes: the length of the index, and
MAGIC = b"hda\0px01"
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, eq=False)
class Pixels:
    """Decoded pictures."""

    array: NDArray[np.uint8]  # (n, edge, edge, 3), read-only; memory-mapped unless the set is in memory
    kept: NDArray[np.int64]  # positions of the n rows among the images
    broken: tuple[str, ...]  # "path (reason)" of each picture that was left out


def load(
    images: Images,
    edge: int,
    *,
    cache: Location | None = None,
    workers: int | None = None,
    skip_broken: bool = False,
    progress: Progress | None = None,
) -> Pixels:
    """All pictures, decoded unless they already are.

    Args:
        images: which pictures; a set in memory is only resized.
        edge: height and width to resize them to.
        cache: the folder of the stores; `$HDA_CACHE`, or else `~/.cache/hda/pixels`, if not given.
        workers: threads; as many as there are cores if not given.
        skip_broken: leave out pictures that cannot be decoded, instead of stopping.
        progress: called with (done, of).

    Raises:
        UserError: a picture is broken or has gone, none is left, or the cache cannot be written.
    """
    if len(images) and images.array(0) is None:
        return _Loading(images, edge, cache_folder(cache)).pixels(workers or cores(), skip_broken, progress)
    array = np.empty((len(images), edge, edge, 3), dtype=np.uint8)
    for positions, rows in stream(images, edge, workers=workers):
        array[positions] = rows
        if progress:
            progress(int(positions[-1]) + 1, len(images))
    array.setflags(write=False)
    return Pixels(array, np.arange(len(images), dtype=np.int64), ())


def stream(
    images: Images,
    edge: int,
    *,
    chunk: int = 256,
    skip_broken: bool = False,
    broken: list[str] | None = None,
    workers: int | None = None,
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Positions and pictures, chunk by chunk; while one is used the next is decoded. Nothing is kept on disk.

    Args:
        images: which pictures.
        edge: height and width to resize them to.
        chunk: pictures at once.
        skip_broken: leave out pictures that cannot be decoded, instead of stopping.
        broken: is told "path (reason)" of each that is left out.
        workers: threads; as many as there are cores if not given.

    Raises:
        UserError: a picture is broken or has gone, or none is left.
    """
    workers = workers or cores()
    step = max(1, min(SPAN, chunk // workers))
    some = False
    reasons: dict[int, str] = {}

    def jobs() -> Iterator[_Part]:
        for start in range(0, len(images), chunk):
            positions = range(start, min(start + chunk, len(images)))
            rows = np.empty((len(positions), edge, edge, 3), dtype=np.uint8)
            yield from (_Part(span, positions, rows) for span in _cut(positions, step))

    def work(part: _Part) -> tuple[_Part, dict[int, str]]:
        def put(i: int) -> None:
            part.rows[i - part.chunk.start] = _decoded(images, edge, i)

        return part, _each(images, put, part.span)

    with closing(_ahead(work, jobs(), workers, -(-chunk // step))) as parts:
        for part, found in parts:
            if found and not skip_broken:
                raise _is_broken(images, found)
            reasons |= found
            if part.span.stop == part.chunk.stop:
                kept = np.array([i for i in part.chunk if i not in reasons], dtype=np.int64)
                if len(kept):
                    some = True
                    yield kept, part.rows if len(kept) == len(part.chunk) else part.rows[kept - part.chunk.start]
    if not some:
        raise _none_left(images)
    if broken is not None:
        broken.extend(f"{images.where(i)} ({reason})" for i, reason in sorted(reasons.items()))


def cache_folder(cache: Location | None = None) -> Path:
    """Where stores are kept: the folder given, else `$HDA_CACHE`, else `~/.cache/hda/pixels`."""
    if cache is None:
        cache = os.environ.get("HDA_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "hda" / "pixels"
    return Path(cache).expanduser().absolute()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class _Part:
    """What one thread does of a chunk in one go."""

    span: range
    chunk: range
    rows: NDArray[np.uint8]  # of the whole chunk


def _each(images: Images, put: Callable[[int], object], span: range) -> dict[int, str]:
    """Do something with each picture; why it could not be done with the broken ones."""
    reasons = {}
    for i in span:
        try:
            put(i)
        except Broken as error:
            reasons[i] = str(error)
    return reasons


def _decoded(images: Images, edge: int, i: int) -> Picture:
    array = images.array(i)
    return decode.decode(_read(images, i), edge) if array is None else decode.resize(array, edge)


def _read(images: Images, i: int) -> bytes:
    try:
        return images.read(i)
    except OSError as error:
        raise _has_gone(images, i, error) from None


def _cut(positions: range, step: int) -> list[range]:
    return [positions[i : i + step] for i in range(0, len(positions), step)]


def _ahead(
    work: Callable[[Job], Result], jobs: Iterable[Job], workers: int, waiting: int
) -> Generator[Result, None, None]:
    """What the jobs come to, in order, while threads work on those to come: so many may be done and wait.

    Threads are enough: reading, decoding, resizing and hashing all leave the interpreter to the others.
    """
    pool = ThreadPoolExecutor(workers, "decode")
    futures: deque[Future[Result]] = deque()
    try:
        for job in jobs:
            futures.append(pool.submit(work, job))
            if len(futures) > workers + waiting:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, eq=False)
class _Store:
    """What one file holds."""

    index: Mapping[str, NDArray[Any]]  # stamps, hashes, rows (-1 for broken pictures), and as text: paths, reasons
    array: NDArray[np.uint8]
    reasons: dict[int, str]

    @classmethod
    def open(cls, path: Path, edge: int) -> _Store | None:
        """The store at that path; None where there is none, or one that is not whole."""
        try:
            with path.open("rb") as file:
                end = file.seek(-END.size, os.SEEK_END)
                length, magic = END.unpack(file.read())
                if magic != MAGIC:
                    return None
                file.seek(end - length)
                index = np.load(io.BytesIO(file.read(length)), allow_pickle=False)
                shape = (int((index["rows"] >= 0).sum()), edge, edge, 3)
                if math.prod(shape) != end - length:
                    return None
                array = np.memmap(file, np.uint8, "r", shape=shape) if shape[0] else np.empty(shape, np.uint8)
                reasons = json.loads(index["reasons"].tobytes())
                return cls(index, array, {int(i): reason for i, reason in reasons.items()})
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None

    @property
    def stamps(self) -> NDArray[np.int64]:
        return self.index["stamps"]

    def paths(self) -> list[str]:
        return self.index["paths"].tobytes().decode("utf-8", "surrogateescape").split("\0")


class _Rows:
    """A file that threads write rows into, each at its place, past any memory map: that would fault on each page."""

    def __init__(self, file: FileIO, edge: int) -> None:
        self.file, self.bytes = file, edge * edge * 3
        self.lock = threading.Lock()

    def reserve(self, count: int) -> None:
        """Take the space now, rather than find the disk full later; and blocks that are there are written faster.

        Raises:
            OSError: there is too little of it.
        """
        need = count * self.bytes
        if shutil.disk_usage(self.file.name).free < need:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self.file.fileno(), 0, need)
            except OSError as error:
                if error.errno in FULL:
                    raise  # else it is the file system that cannot

    def write(self, row: int, picture: Picture) -> None:
        self._write(picture.data.cast("B"), row * self.bytes)

    def finish(self, kept: NDArray[np.int64], index: bytes) -> None:
        """Move the kept rows to the front and put the index behind them."""
        for row, position in enumerate(kept.tolist()):
            if row != position:
                self.file.seek(position * self.bytes)
                self._write(memoryview(self.file.read(self.bytes)), row * self.bytes)
        end = len(kept) * self.bytes
        self.file.truncate(end)
        self._write(memoryview(index), end)

    def _write(self, data: memoryview, at: int) -> None:
        while data:  # a disk that fills up takes a part, and only the next write fails
            done = self._write_some(data, at)
            data, at = data[done:], at + done

    def _write_some(self, data: memoryview, at: int) -> int:
        if hasattr(os, "pwrite"):
            return os.pwrite(self.file.fileno(), data, at)
        with self.lock:
            self.file.seek(at)
            return self.file.write(data)


@dataclass(frozen=True, eq=False)
class _Known:
    """A picture in an older store."""

    stamp: tuple[int, int]
    hash: bytes
    store: _Store
    row: int
    reason: str | None

    def take(self) -> Picture:
        if self.reason is not None:
            raise Broken(self.reason)
        row: Picture = self.store.array[self.row]
        return row


class _Loading:
    """One set at one edge on its way from the cache, or into it."""

    def __init__(self, images: Images, edge: int, cache: Path) -> None:
        self.images, self.edge = images, edge
        self.paths = "\0".join(map(images.where, range(len(images)))).encode("utf-8", "surrogateescape")
        kin = f"{images.origin and images.origin.resolve()}\0{edge}\0{DECODER}"
        self.folder = cache / hashlib.blake2b(kin.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        self.path = self.folder / (hashlib.blake2b(self.paths, digest_size=16).hexdigest() + SUFFIX)
        self.stamps = np.array([self._stamp(i) for i in range(len(images))], dtype=np.int64)
        self.hashes = np.zeros((len(images), HASH), dtype=np.uint8)
        self.known: dict[str, _Known] = {}

    def pixels(self, workers: int, skip_broken: bool, progress: Progress | None) -> Pixels:
        store = self._fresh()
        if store is None:
            with self._writing(), _locked(self.folder / "lock"):
                store = self._fresh()  # another process may just have built it
                if store is None:
                    self._build(workers, progress)
                    store = _Store.open(self.path, self.edge)
            if store is None:
                raise UserError(f"{self.path} has gone since it was written: does something else clean {self.folder}?")
        if progress:
            progress(len(self.images), len(self.images))
        if store.reasons and not skip_broken:
            raise _is_broken(self.images, store.reasons)
        if not len(store.array):
            raise _none_left(self.images)
        broken = tuple(f"{self.images.where(i)} ({reason})" for i, reason in store.reasons.items())
        return Pixels(store.array, np.flatnonzero(store.index["rows"] >= 0), broken)

    def _stamp(self, i: int) -> tuple[int, int]:
        try:
            return self.images.stamp(i)
        except OSError as error:
            raise _has_gone(self.images, i, error) from None

    def _fresh(self) -> _Store | None:
        """The set's store, unless a picture has changed since."""
        store = _Store.open(self.path, self.edge)
        return store if store is not None and np.array_equal(store.stamps, self.stamps) else None

    def _build(self, workers: int, progress: Progress | None) -> None:
        """Write the store: rows in order, then the index."""
        for left in self.folder.glob(f"*{DRAFT}"):  # by processes that were killed: the lock is ours
            left.unlink(missing_ok=True)
        self.known = self._look_around()
        draft = self.path.with_suffix(DRAFT)
        try:
            with draft.open("w+b", buffering=0) as file:
                rows = _Rows(file, self.edge)
                rows.reserve(len(self.images))
                reasons = self._decode(rows, workers, progress)
                kept = np.array([i for i in range(len(self.images)) if i not in reasons], dtype=np.int64)
                rows.finish(kept, self._index(kept, reasons))
            os.replace(draft, self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def _decode(self, rows: _Rows, workers: int, progress: Progress | None) -> dict[int, str]:
        """Write each picture as the row of its position; why that could not be done with the broken ones."""

        def work(span: range) -> tuple[range, dict[int, str]]:
            return span, _each(self.images, lambda i: rows.write(i, self._take(i)), span)

        spans = _cut(range(len(self.images)), max(1, min(SPAN, len(self.images) // (4 * workers))))
        reasons: dict[int, str] = {}
        with closing(_ahead(work, spans, workers, AHEAD * workers)) as parts:
            for span, found in parts:
                reasons |= found
                if progress:
                    progress(span.stop, len(self.images))
        return reasons

    def _index(self, kept: NDArray[np.int64], reasons: dict[int, str]) -> bytes:
        rows = np.full(len(self.images), -1, dtype=np.int64)
        rows[kept] = np.arange(len(kept))
        index = io.BytesIO()
        np.savez(
            index,
            paths=np.frombuffer(self.paths, dtype=np.uint8),
            stamps=self.stamps,
            hashes=self.hashes,
            rows=rows,
            reasons=np.frombuffer(json.dumps(reasons).encode(), dtype=np.uint8),
        )
        return index.getvalue() + END.pack(len(index.getvalue()), MAGIC)

    def _look_around(self) -> dict[str, _Known]:
        """Pictures of this set that older stores hold, this set's own before others."""
        wanted = set(self.paths.decode("utf-8", "surrogateescape").split("\0"))
        known: dict[str, _Known] = {}
        for path in sorted(self.folder.glob(f"*{SUFFIX}"), key=lambda path: path != self.path):
            store = _Store.open(path, self.edge)
            if store is None:
                continue
            stamps, hashes, rows = (store.index[name] for name in ("stamps", "hashes", "rows"))
            for i, where in enumerate(store.paths()):
                if where in wanted and where not in known:
                    size, time = stamps[i].tolist()
                    known[where] = _Known((size, time), hashes[i].tobytes(), store, int(rows[i]), store.reasons.get(i))
        return known

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make the folder, and say what to do where it cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            yield
        except OSError as error:
            problem, remedy = f"cannot be written ({error.strerror})", "set $HDA_CACHE to a folder that can"
            if error.errno in FULL:
                need = len(self.images) * self.edge * self.edge * 3 / 2**30
                problem = f"has too little space for {need:.2f} GiB of decoded pictures"
                remedy = "free some, or set $HDA_CACHE to a folder on a larger disk"
            raise UserError(f"{self.folder} {problem}: {remedy}") from None

    def _take(self, i: int) -> Picture:
        """One picture, copied where an older store has it: seen by its stamp, or else by its content."""
        known = self.known.get(self.images.where(i))
        if known is not None and known.stamp == tuple(self.stamps[i]):
            self.hashes[i] = np.frombuffer(known.hash, dtype=np.uint8)
            return known.take()
        data = _read(self.images, i)
        content = hashlib.blake2b(data, digest_size=HASH).digest()
        self.hashes[i] = np.frombuffer(content, dtype=np.uint8)
        return known.take() if known is not None and known.hash == content else decode.decode(data, self.edge)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file, once whoever holds it lets go or dies."""
    with path.open("a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_broken(images: Images, reasons: Mapping[int, str]) -> UserError:
    first = min(reasons)
    more = f", as are {len(reasons) - 1} more" if len(reasons) > 1 else ""
    remedy = "repair or remove it, or give --skip-broken"
    return UserError(f"{images.where(first)} is a broken image{more}: {reasons[first]} ({remedy})")


def _has_gone(images: Images, i: int, error: OSError) -> UserError:
    return UserError(f"{images.where(i)} cannot be read ({error.strerror}): restore it, or start again without it")


def _none_left(images: Images) -> UserError:
    return UserError(f"{images.name} has no image that can be decoded: give a set that has some")
