"""One file from the web, whole or not at all: several mirrors, taken up where it broke off, checked before it has its name.

What has come so far lies in `NAME.part` beside the file to be, and what is known of it in `NAME.part.json`. Both outlive
an interruption of any kind; the next call goes on from there, where the server shows that it still has the same file.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hda.errors import UserError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such lock
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[int, int | None], object]

CHUNK = 1 << 18
STEP = 1 << 20  # so much more than ever before is progress: the tries begin anew
LEAST = 1 << 10  # fewer bytes than this within a whole timeout is a stall, though some came
PAUSE = 30.0  # seconds between two tries, at most
PAGES = ("text/html", "application/xhtml+xml")
PASSING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Download:
    """One file that a dataset is made of: where it is published, and where it goes.

    Args:
        urls: where it is published, to be tried in this order: the same file, or, without a checksum, one that will do.
        name: its name below the dataset's folder.
        sha256: checksum, where one is published.
        md5: checksum, where only this one is published.
        size: bytes, where published.
        extract: the folder below the dataset's to extract it into ("" is that folder itself); None: it stays as it is.
        unwrap: leave out the one folder that everything in the archive is in, whatever it is called.
        keep: keep the archive, too.
        holds: what lies in the folder when it is extracted; where all of it is there, nothing is downloaded.
    """

    urls: tuple[str, ...]
    name: str
    sha256: str | None = None
    md5: str | None = None
    size: int | None = None
    extract: str | None = None
    unwrap: bool = False
    keep: bool = False
    holds: tuple[str, ...] = ()


class DownloadError(UserError):
    """A file could not be had from any of its mirrors: `reasons` has what they did, `again` when to ask them again."""

    def __init__(self, path: Path, reasons: str, again: str) -> None:
        super().__init__(
            f"{path.name} cannot be downloaded ({reasons}): {again}, or fetch it by other means and save it as {path}"
        )
        self.reasons, self.again = reasons, again


def fetch(
    urls: str | Sequence[str],
    path: Path,
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    tries: int = 4,
    backoff: float = 1.0,
) -> Path:
    """Download a file, unless it is there already; returns its path.

    The first of `urls` that gives the file is taken. Proxies are those of the environment (`https_proxy`, `no_proxy`).

    Args:
        urls: http or https addresses of the same file.
        path: where it goes; its folder is made.
        sha256: its published checksum; or `md5`.
        md5: its published checksum of the old kind, where that is all there is.
        size: its published size in bytes.
        progress: called with (bytes so far, bytes in all or None).
        timeout: seconds without a sign of life, or with next to none, after which a connection is given up.
        tries: how often a mirror is tried without any progress.
        backoff: seconds before the second try; twice as long before each further one, half a minute at most.

    Raises:
        DownloadError: no mirror gave it; what came is kept, and gone on with the next time.
        UserError: what is there is not it, it cannot be written, or another process is at it.
    """
    urls = (urls,) if isinstance(urls, str) else tuple(urls)
    for url in urls:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise UserError(f"{url!r} is no web address: give one that starts with https:// or http://")
    wanted = _Wanted(sha256 and sha256.lower(), md5 and md5.lower(), size)
    if path.exists():
        return _already(path, wanted)
    with written(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with claimed(part, f"{path} is being downloaded by another process: wait until that is done") as file:
        if path.exists():  # by another process, while this one came here
            part.unlink(missing_ok=True)
            return _already(path, wanted)
        partial = _Partial(path, file)
        reasons = []
        try:
            for url in urls:
                reason = _Mirror(url, partial, wanted, progress, timeout, tries, backoff).get()
                if reason is None:
                    partial.finish()
                    return path
                reasons.append(f"{_host(url)} {reason}")
        finally:
            kept = partial.leave()
        again = f"try again later, when the {in_units(kept)} that came are gone on from" if kept else "try again later"
        raise DownloadError(path, "; ".join(reasons), again)


@contextmanager
def claimed(path: Path, busy: str) -> Iterator[io.FileIO]:
    """A file for this process alone, made if it is not there, open for reading and writing.

    It may be renamed or removed in here: the lock is on the file, not on its name.

    Raises:
        UserError: another process has it; the message is `busy`.
    """
    while True:
        with written(path):
            file = io.FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        with file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise UserError(busy) from None
                if not _is_at(file, path):  # renamed or removed between opening and locking
                    continue
            yield file
            return


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Failures of the disk, told in one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UserError(f"there is no room for {path} ({error.strerror}): free some and run again") from None
        raise UserError(
            f"{error.filename or path} cannot be written ({error.strerror or error}): see to its folder and run again"
        ) from None


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write without a buffer, whose rest would be tried again on closing, when the disk is full."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def digest_of(path: Path, kind: str) -> str:
    """The checksum of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def in_units(count: int) -> str:
    """A number of bytes for people.

    >>> in_units(999), in_units(1_270_909_081)
    ('999 bytes', '1.3 GB')
    """
    if count < 1000:
        return f"{count} bytes"
    power = 1 if count < 999_500 else 2 if count < 999_500_000 else 3
    size = count / 1000**power
    return f"{size:.{0 if size >= 99.5 else 1}f} {('kB', 'MB', 'GB')[power - 1]}"


@dataclass(frozen=True)
class _Wanted:
    """What is published of a file."""

    sha256: str | None
    md5: str | None
    size: int | None

    def wrong(self, path: Path) -> str | None:
        """How a file differs from what is published; None where it does not."""
        size = path.stat().st_size
        if not size and self.size is None:
            return "is empty"
        if self.size is not None and size != self.size:
            return f"has {size:,} bytes and not {self.size:,}"
        for kind, right in (("sha256", self.sha256), ("md5", self.md5)):
            if right and (found := digest_of(path, kind)) != right:
                return f"has the {kind} {found[:12]}... and not {right[:12]}..."
        return None


@dataclass
class _Origin:
    """Where a part came from, and how to tell whether the server still has the same file."""

    url: str = ""
    etag: str | None = None
    modified: str | None = None
    total: int | None = None

    @property
    def validator(self) -> str | None:
        """What `If-Range` may carry: a strong entity tag, else a date."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified

    def agrees(self, now: _Origin) -> bool:
        """Whether an answer to a range may go on with what came from here."""
        same = self.url != now.url or (self.etag, self.modified) == (now.etag, now.modified)
        return same and (None in (self.total, now.total) or self.total == now.total)


class _Partial:
    """What has come of a file so far."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self.path, self.file = path, file
        self.part = path.with_name(f"{path.name}.part")
        self.notes = path.with_name(f"{path.name}.part.json")
        self.length = self.most = file.seek(0, os.SEEK_END)
        self.origin = self._recall() if self.length else _Origin()
        self.answers = int(self.length > 0)  # that it was put together from

    def begin(self, origin: _Origin) -> None:
        """Start from nothing; the old is gone before what is known of the new is written down."""
        self.discard()
        with written(self.path):
            self.notes.write_text(json.dumps(asdict(origin)), encoding="utf-8")
            free = shutil.disk_usage(self.part.parent).free
            if (origin.total or 0) > free:
                raise OSError(errno.ENOSPC, f"{in_units(origin.total or 0)} are needed and {in_units(free)} free")
        self.origin = origin

    def discard(self) -> None:
        with written(self.path):
            self.file.seek(0)
            self.file.truncate()
        self.length, self.answers, self.origin = 0, 0, _Origin()

    def add(self, data: bytes) -> None:
        with written(self.path):
            write_all(self.file, data)
        self.length += len(data)
        self.most = max(self.most, self.length)

    def finish(self) -> None:
        """Durable first, then under its name."""
        with written(self.path):
            os.fsync(self.file.fileno())
            if os.name == "nt":  # where an open file has no other name
                self.file.close()
            os.replace(self.part, self.path)
            self.notes.unlink(missing_ok=True)

    def leave(self) -> int:
        """Leave what came for the next time, or nothing where nothing came; returns how much that is."""
        if self.path.exists():
            return 0
        length = os.fstat(self.file.fileno()).st_size
        if not length:
            with written(self.path):
                self.notes.unlink(missing_ok=True)
                self.part.unlink(missing_ok=True)
        return length

    def _recall(self) -> _Origin:
        try:
            return _Origin(**json.loads(self.notes.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # not there, or torn: then nothing is known of the part
            return _Origin()


class _MirrorError(Exception):
    """What a server did instead of giving the file; worth another try, or not."""

    def __init__(self, what: str, *, again: bool, wait: float = 0.0) -> None:
        super().__init__(what)
        self.again, self.wait = again, wait


@dataclass(frozen=True)
class _Mirror:
    """One address, and the attempts to get the file from there."""

    url: str
    partial: _Partial
    wanted: _Wanted
    progress: Progress | None
    timeout: float
    tries: int
    backoff: float

    def get(self) -> str | None:
        """None where the file has come, whole and right; else what the server did."""
        failed = 0
        while True:
            most = self.partial.most
            try:
                self._attempt()
                self._verify()
                return None
            except _MirrorError as failure:
                failed = 1 if self.partial.most - most >= STEP else failed + 1
                if not failure.again:
                    return str(failure)
                if failed >= self.tries:
                    return f"{failure}{f', {failed} times in a row' if failed > 1 else ''}"
                time.sleep(min(PAUSE, max(failure.wait, self.backoff * 2 ** (failed - 1))))

    def _attempt(self) -> None:
        offset = self._offset()
        if offset and offset == self.partial.origin.total:  # an end came between the last byte and the name
            self.partial.answers += 1
            return
        try:
            with self._open(offset) as response:
                self._receive(response, offset)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, offset)
        except (OSError, http.client.HTTPException) as error:
            raise _in_words(error, self.timeout) from None

    def _offset(self) -> int:
        """From which byte to ask on: 0 where what came cannot be gone on with."""
        partial, checked = self.partial, bool(self.wanted.sha256 or self.wanted.md5)
        if partial.origin.url == self.url and (checked or partial.origin.validator):
            return partial.length
        # At another mirror the same file has the same length; whether it was the same, the checksum tells in the end.
        known = checked and self.wanted.size is not None and partial.origin.total == self.wanted.size
        return partial.length if known else 0

    def _open(self, offset: int) -> http.client.HTTPResponse:
        headers = {"User-Agent": "hda", "Accept": "*/*", "Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            origin = self.partial.origin
            if origin.url == self.url and origin.validator:
                headers["If-Range"] = origin.validator
        opener = urllib.request.build_opener(_Redirects)
        request = urllib.request.Request(self.url, headers=headers)
        response: http.client.HTTPResponse = opener.open(request, timeout=self.timeout)
        return response

    def _receive(self, response: http.client.HTTPResponse, offset: int) -> None:
        said, partial = response.headers, self.partial
        origin = _Origin(self.url, said.get("ETag"), said.get("Last-Modified"), response.length)
        if response.status == http.client.PARTIAL_CONTENT:
            first, origin.total = _content_range(said.get("Content-Range"))
            if not offset or first != offset or not partial.origin.agrees(origin):
                raise self._discarded("no longer has the same file", again=True)
        elif response.headers.get_content_type() in PAGES:
            self._refuse_page()
        if self.wanted.size is not None and origin.total not in (None, self.wanted.size):
            raise _MirrorError(f"has a file of {origin.total:,} bytes and not {self.wanted.size:,}", again=False)
        if response.status != http.client.PARTIAL_CONTENT:
            partial.begin(origin)
        partial.answers += 1
        self._read(response, self.wanted.size if origin.total is None else origin.total)

    def _read(self, response: http.client.HTTPResponse, total: int | None) -> None:
        partial = self.partial
        began, came = time.monotonic(), 0
        if response.will_close:  # then all that comes is read, and what goes beyond the announced length is seen
            response.length = None
        while data := self._some(response, total):
            if not partial.length and data.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
                self._refuse_page()
            partial.add(data)
            if self.progress:
                self.progress(partial.length, total)
            if total is not None and partial.length > total:
                raise self._discarded(f"sent more than the {total:,} bytes that were announced", again=False)
            came += len(data)
            if (spent := time.monotonic() - began) >= self.timeout:
                if came < LEAST:
                    raise _MirrorError(f"sent {came} bytes in {spent:.1f} s", again=True)
                began, came = time.monotonic(), 0
        if total is not None and partial.length < total:
            raise _MirrorError(f"broke off after {in_units(partial.length)} of {in_units(total)}", again=True)

    def _some(self, response: http.client.HTTPResponse, total: int | None) -> bytes:
        """What is there of the answer by now, at least a byte; none at its end."""
        try:
            return response.read1(CHUNK)
        except http.client.IncompleteRead as error:  # an answer in chunks without the last one
            self.partial.add(error.partial)
            raise _MirrorError(f"broke off after {in_units(self.partial.length)}", again=True) from None
        except TimeoutError:
            if self.partial.length == total:  # all is there, though the server does not close, as it said it would
                return b""
            raise

    def _refuse_page(self) -> None:
        if self.partial.path.suffix.lower() in (".html", ".htm"):
            return
        why = " as Google Drive does for large files and after many downloads" if "google" in _host(self.url) else ""
        raise _MirrorError(f"answered with a web page instead of the file{',' if why else ''}{why}", again=False)

    def _refused(self, error: urllib.error.HTTPError, offset: int) -> None:
        """An answer without the file; returns where the server only says that there is nothing after the last byte."""
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and offset:
            _, total = _content_range(error.headers.get("Content-Range"))
            if total == offset:
                self.partial.answers += 1
                return
            raise self._discarded("no longer has the same file", again=True)
        if error.code in range(300, 400):
            raise _MirrorError("redirected in a circle, or off the web", again=False)
        wait = error.headers.get("Retry-After", "")
        raise _MirrorError(
            f"answered {error.code} {http.client.responses.get(error.code, '')}".strip(),
            again=error.code in PASSING,
            wait=float(wait) if wait.isdecimal() else 0.0,
        )

    def _verify(self) -> None:
        with written(self.partial.path):
            wrong = self.wanted.wrong(self.partial.part)
        if wrong:  # put together from several answers it may be right the next time, when it comes at once
            raise self._discarded(f"gave a file that {wrong}", again=self.partial.answers != 1)

    def _discarded(self, what: str, *, again: bool) -> _MirrorError:
        self.partial.discard()
        return _MirrorError(what, again=again)


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 10

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        """From the web to the web alone."""
        if not newurl.startswith(("https://", "http://")):
            raise urllib.error.HTTPError(req.full_url, code, newurl, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _already(path: Path, wanted: _Wanted) -> Path:
    with written(path):
        path.with_name(f"{path.name}.part.json").unlink(missing_ok=True)  # of an end between two acts
        wrong = wanted.wrong(path) if path.is_file() else "is no file"
    if wrong:
        raise UserError(f"{path} is there, but {wrong}: move it away, so that it can be downloaded")
    return path


def _in_words(error: Exception, timeout: float) -> _MirrorError:
    """What went wrong on the way, as a server's doing."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    match reason:
        case TimeoutError():
            return _MirrorError(f"was silent for {timeout:g} s", again=True)
        case ssl.SSLCertVerificationError():
            return _MirrorError(f"has no valid certificate: {reason.verify_message}", again=False)
        case socket.gaierror():
            return _MirrorError(f"cannot be found: {reason.strerror}", again=reason.errno == socket.EAI_AGAIN)
        case ConnectionRefusedError():
            return _MirrorError("refused the connection", again=True)
        case ConnectionError():
            return _MirrorError("broke off the connection", again=True)
        case OSError():
            return _MirrorError(f"cannot be reached: {reason.strerror or reason}", again=True)
    return _MirrorError(f"gave an answer that is none: {str(reason) or type(reason).__name__}", again=True)


def _is_at(file: io.FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _content_range(said: str | None) -> tuple[int | None, int | None]:
    """First byte and total of `bytes 10-99/100` or `bytes */100`; None for what is not told."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", (said or "").strip())
    first, total = found.groups() if found else (None, None)
    return first and int(first), total and int(total)  # type: ignore[return-value]


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc
