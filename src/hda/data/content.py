"""What pictures hold, whatever their files' times: equal for two copies of the same data.

`Images.fingerprint` looks at sizes and times, which takes no reading and tells any change since a run was begun. Results are
compared across machines and copies, where times differ and contents do not: for these every file is read once, and what it
came to is kept beside the decoded pictures until a size or a time changes.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hda.data.images import Images
from hda.data.pixels import cache_folder, cores
from hda.data.scenario import Answers, Scenario
from hda.errors import UserError

SUFFIX = ".content"
_known: dict[str, str] = {}  # of this process


def of_task(scenario: Scenario, answers: Answers | None = None) -> str:
    """A digest of every name, picture and visible label, and of the answers that accuracy is measured with.

    Raises:
        UserError: a picture cannot be read.
    """
    digest = hashlib.sha256(repr((scenario.setting, scenario.classes)).encode(errors="surrogateescape"))
    for part in (*scenario.sources, *([scenario.labelled] if scenario.labelled else [])):
        digest.update(of(part.images).encode())
        digest.update(part.labels.astype("<i8").tobytes())
    digest.update(of(scenario.target).encode())
    if answers is not None:
        digest.update(answers.labels.astype("<i8").tobytes())
        digest.update(b"" if answers.images is None else of(answers.images).encode())
    return digest.hexdigest()


def of(images: Images) -> str:
    """A digest of every name and picture, in order.

    Raises:
        UserError: a picture cannot be read.
    """
    if not len(images) or images.array(0) is not None:
        return _read(images)
    places = "\0".join(map(images.where, range(len(images)))).encode("utf-8", "surrogateescape")
    key = hashlib.sha256(places + images.fingerprint().encode()).hexdigest()
    if key not in _known:
        path = cache_folder() / f"{key[:32]}{SUFFIX}"
        _known[key] = _kept(path) or _keep(path, _read(images))
    return _known[key]


def _read(images: Images) -> str:
    def one(index: int) -> bytes:
        array = images.array(index)
        try:
            data = images.read(index) if array is None else array.tobytes()
        except OSError as error:
            raise UserError(f"{images.where(index)} cannot be read ({error.strerror}): restore it first") from None
        name = images.names[index].encode("utf-8", "surrogateescape")
        return hashlib.blake2b(name + b"\0" + hashlib.blake2b(data).digest(), digest_size=32).digest()

    digest = hashlib.sha256()
    with ThreadPoolExecutor(cores(), "content") as pool:
        for part in pool.map(one, range(len(images)), chunksize=64):
            digest.update(part)
    return digest.hexdigest()


def _kept(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return text if len(text) == 64 else None


def _keep(path: Path, found: str) -> str:
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(found, encoding="ascii")
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)  # a cache that cannot be written costs reading again, and no more
    return found
