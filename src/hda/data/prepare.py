"""A published dataset made ready: downloaded, verified, extracted, checked; and what a person must do where that cannot be.

Until all is done, work lies in `.prepare` inside the dataset's folder, into which no reader of pictures looks. Killed at
any moment, the next call goes on. What an archive holds gets its place only when all of it has been extracted.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hda.data.archives import ArchiveError, extract
from hda.data.download import Download, DownloadError, claimed, fetch, in_units, written
from hda.data.lists import find
from hda.errors import UserError

WORK = ".prepare"
KEPT = "archives"
LISTS = "lists/"

Say = Callable[[str], object]
Check = Callable[[Path], Iterable[object]]


class Preparable(Protocol):
    """What is needed of a dataset, be it a class or an instance."""

    @property
    def name(self) -> str: ...

    @property
    def downloads(self) -> tuple[Download, ...]: ...

    @property
    def manual(self) -> str:
        """What to get from where and where to put it, where there are no downloads, or they fail."""
        ...


def prepare(
    dataset: Preparable,
    root: str | os.PathLike[str],
    check: Check,
    *,
    note: Say | None = None,
    progress: Say | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Bring a dataset into a folder, or see that it is there; returns what was done.

    Args:
        dataset: which files it is made of.
        root: its folder, made if it is not there.
        check: called with the folder; gives what is missing or wrong, a sentence each, or raises `UserError`.
        note: called with a sentence now and then.
        progress: called very often with how far a download or an extraction is.
        options: for `fetch`, such as `timeout` and `tries`.

    Raises:
        UserError: something cannot be had, written or trusted, or is missing in the end. What came is kept, and gone on
            with by the next call.
    """
    root, say = Path(root).expanduser(), note or _silent
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is no folder: give a folder for {dataset.name}, which need not be there yet")
    if root.is_dir() and not _faults(check, root):
        done = _lists(dataset, root, say, progress or _silent, options)
        return {"dataset": dataset.name, "root": str(root), "done": done}
    if not dataset.downloads:
        by_hand = _by_hand(dataset, root) or "no place is known where it is to be had"
        raise UserError(f"{dataset.name} cannot be downloaded by a program: {by_hand}")
    done = []
    with _work(dataset, root) as work:
        for download in dataset.downloads:
            if did := _Task(dataset, download, root, work, say, progress or _silent, options).do():
                say(did)
                done.append(download.name)
        faults = _faults(check, root)
        if faults:
            more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
            raise UserError(
                f"{dataset.name} in {root} is not whole ({'; '.join(faults[:3])}{more}): move away what is wrong and "
                f"run again, or {_by_hand(dataset, root) or 'see what `hda data check` says'}"
            )
        _tidy(work)
    say(f"{dataset.name} is in {root}, and whole")
    return {"dataset": dataset.name, "root": str(root), "done": done}


def _lists(dataset: Preparable, root: Path, say: Say, progress: Say, options: dict[str, Any]) -> list[str]:
    """Fetch what published lists are not there beside pictures that all are; the pictures will do without them."""
    away = [d for d in dataset.downloads if d.name.startswith(LISTS) and find(root, [d.name[len(LISTS) :]]) is None]
    done = []
    try:
        if away or (root / WORK).exists():  # the latter of a call that was killed at its very end
            with _work(dataset, root) as work:
                for download in away:
                    _Task(dataset, download, root, work, say, progress, options).do()
                    done.append(download.name)
                _tidy(work)
    except UserError as error:
        say(f"{dataset.name} is in {root} already, and whole but for published lists: {error}")
    else:
        what = f"{len(done)} published lists were fetched" if done else "there is nothing to do"
        say(f"{dataset.name} is in {root} already, and whole: {what}")
    return done


class Lines:
    """Plain lines on standard output, those of progress not more often than every few seconds."""

    def __init__(self, every: float = 5.0) -> None:
        self.every, self.shown = every, time.monotonic()

    def note(self, sentence: str) -> None:
        print(sentence, flush=True)

    def progress(self, sentence: str) -> None:
        if time.monotonic() - self.shown >= self.every:
            print(sentence, flush=True)
            self.shown = time.monotonic()


@dataclass(frozen=True)
class _Task:
    """One download, and what becomes of it."""

    dataset: Preparable
    download: Download
    root: Path
    work: Path
    note: Say
    progress: Say
    options: dict[str, Any]

    def do(self) -> str | None:
        """Do what is left to do; returns what was done in a sentence, or None."""
        return self._place() if self.download.extract is None else self._extract(self.root / self.download.extract)

    def _place(self) -> str | None:
        path = self.root / self.download.name
        if path.exists():
            self._fetch(path)  # which does no more than verify what is there
            return None
        file = self._fetch(self._mine)
        with written(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, path)
        return f"{self.download.name} is in {self.root}"

    def _extract(self, into: Path) -> str | None:
        whole, list_of_all = self._beside(".whole"), self._beside(".json")
        if not whole.exists():
            if self._there(into, list_of_all):
                return None
            saved = self.root / self.download.name  # by the user, who has fetched it by other means
            archive = self._fetch(saved if saved.is_file() else self._mine)
            self.note(f"extracting {self.download.name}")
            try:
                extract(archive, whole, unwrap=self.download.unwrap, progress=self._files)
            except ArchiveError as error:
                remedy = "fetch it anew" if archive == saved else "it was removed, run again to fetch it anew"
                self._mine.unlink(missing_ok=True)
                by_hand = _by_hand(self.dataset, self.root)
                raise UserError(f"{error.wrong}: {remedy}{by_hand and ', or ' + by_hand}") from None
        with written(into):
            if not list_of_all.exists():
                names = sorted(path.name for path in whole.iterdir())
                list_of_all.with_suffix(".tmp").write_text(json.dumps(names), encoding="utf-8")
                os.replace(list_of_all.with_suffix(".tmp"), list_of_all)
            into.mkdir(parents=True, exist_ok=True)
            for path, place in list(_moves(whole, into)):
                os.replace(path, place)
            shutil.rmtree(whole)
            self._put_away()
        return f"{self.download.name} is extracted into {into}"

    def _there(self, into: Path, list_of_all: Path) -> bool:
        """Whether all that the archive holds has its place already."""
        if list_of_all.exists():
            if all((into / name).exists() for name in json.loads(list_of_all.read_text(encoding="utf-8"))):
                return True
            list_of_all.unlink()  # something was taken away since
        present = [name for name in self.download.holds if (into / name).exists()]
        if present and len(present) == len(self.download.holds):
            self.note(f"{' and '.join(present)} is in {into} already: {self.download.name} was not downloaded")
            return True
        if present:
            raise UserError(
                f"{into / present[0]} is there, but not all that {self.download.name} holds: move it away, so that all of "
                "it can be extracted"
            )
        return False

    def _put_away(self) -> None:
        if self.download.keep and self._mine.exists():
            kept = self.root / KEPT / self._mine.name
            kept.parent.mkdir(exist_ok=True)
            os.replace(self._mine, kept)
        self._mine.unlink(missing_ok=True)

    def _fetch(self, path: Path) -> Path:
        wanted = self.download
        try:
            return fetch(
                wanted.urls,
                path,
                sha256=wanted.sha256,
                md5=wanted.md5,
                size=wanted.size,
                progress=self._bytes,
                **self.options,
            )
        except DownloadError as error:
            name, by_hand = self.download.name, _by_hand(self.dataset, self.root)
            raise UserError(
                f"{name} of {self.dataset.name} cannot be downloaded ({error.reasons}): {error.again}, or save it as "
                f"{self.root / name} and run again{by_hand and ', or ' + by_hand}"
            ) from None

    def _bytes(self, done: int, of: int | None) -> None:
        self.progress(f"{self.download.name}: {in_units(done)}{f' of {in_units(of)}' if of else ''}")

    def _files(self, done: int) -> None:
        self.progress(f"{self.download.name}: {done:,} files extracted")

    @property
    def _mine(self) -> Path:
        return self._beside("")

    def _beside(self, ending: str) -> Path:
        return self.work / f"{self.download.name.replace('/', '_')}{ending}"


@contextmanager
def _work(dataset: Preparable, root: Path) -> Iterator[Path]:
    """The folder for work under way, for this process alone; if nothing is left in it, it goes."""
    made = [folder for folder in (root, *root.parents) if not folder.exists()]
    work = root / WORK
    with written(work):
        work.mkdir(parents=True, exist_ok=True)
    lock = work / "lock"
    with claimed(lock, f"{dataset.name} is being prepared in {root} by another process: wait until that is done"):
        try:
            yield work
        finally:
            if [path.name for path in work.iterdir()] == [lock.name]:
                lock.unlink()
                with suppress(OSError):
                    for folder in (work, *made):
                        folder.rmdir()


def _tidy(work: Path) -> None:
    with written(work):
        for path in work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()


def _moves(source: Path, into: Path) -> Iterator[tuple[Path, Path]]:
    """What to rename to bring all of a folder into another; folders that are there on both sides are joined.

    Raises:
        UserError: a file is in the way.
    """
    for path in sorted(source.iterdir()):
        place = into / path.name
        if not place.exists() and not place.is_symlink():
            yield path, place
        elif path.is_dir() and place.is_dir():
            yield from _moves(path, place)
        else:
            raise UserError(f"{place} is in the way of what was downloaded: move it away and run again")


def _faults(check: Check, root: Path) -> list[str]:
    try:
        return [str(fault) for fault in check(root)]
    except UserError as error:
        return [str(error)]


def _by_hand(dataset: Preparable, root: Path) -> str:
    return dataset.manual and f"{dataset.manual} (the folder being {root})"


def _silent(sentence: str) -> None:
    pass
