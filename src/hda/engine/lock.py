"""One process at a time: a lock that the system gives back when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hda.errors import UserError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such lock
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock file at `path`.

    Raises:
        UserError: somebody else holds it; the message is `busy`.
    """
    with path.open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(busy) from None
        yield
