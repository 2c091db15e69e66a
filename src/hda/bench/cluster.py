"""Hands on a Ray cluster: one on each GPU of it, or, where there is none, on each core.

The pictures, and the weights where they are a file, must lie at the same path on every node. Runs are written at the same
path, too: where the nodes share that file system, a run whose worker dies goes on from its last checkpoint. Where they do not,
it begins again; and of a run that is done the row and the small files come back, its weights stay on the node.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hda.bench.crew import GoneError, Hand, Message, Spec, attempt
from hda.bench.runner import Place, Planned
from hda.engine import files
from hda.engine.run import RESULT, SETTINGS
from hda.errors import UserError

SMALL = 8 * 2**20  # bytes of a file that comes back
FIRST = 600.0  # seconds for the first worker to come up


class Cluster:
    """A Ray cluster that this process is connected to; a context manager.

    Args:
        address: as Ray has it: "auto", "host:port", "ray://host:port".

    Raises:
        UserError: Ray is not installed, or there is no cluster.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def __enter__(self) -> Cluster:
        try:
            import ray
        except ImportError:
            raise UserError('--ray needs Ray, which is not installed: pip install "hda[cluster]"') from None
        self.ray: Any = ray  # which has few types
        try:
            self.ray.init(self.address, log_to_driver=False, logging_level=logging.ERROR, namespace="hda")
        except Exception as error:  # Ray raises many kinds
            first = str(error).strip().partition("\n")[0]
            raise UserError(f"there is no Ray cluster at {self.address} ({first}): give the address of one") from None
        there = self.ray.cluster_resources()
        gpus = int(there.get("GPU", 0))
        self.most: int | None = gpus or max(1, int(there.get("CPU", 1)))
        self.needs = {"num_cpus": 1, "num_gpus": 1 if gpus else 0}
        return self

    def __exit__(self, *error: object) -> None:
        self.ray.shutdown()

    @property
    def nodes(self) -> int:
        return sum(bool(node["Alive"]) for node in self.ray.nodes())

    def place(self) -> Place:
        """What its workers compute on; a cluster of like machines is taken for granted."""
        if not self.needs["num_gpus"]:
            return Place.here("cpu")
        there = self.ray.remote(_place).options(**self.needs)
        return Place(*self.ray.get(there.remote(), timeout=FIRST))

    def hands(self, spec: Spec) -> Workers:
        return Workers(self, spec)


class Workers:
    """Hands that are actors of the cluster."""

    def __init__(self, cluster: Cluster, spec: Spec) -> None:
        self.cluster, self.spec, self.most = cluster, spec, cluster.most

    def start(self, number: int) -> Hand:
        return _Actor(number, self.cluster, self.spec)

    def wait(self, hands: Sequence[Hand], seconds: float) -> None:
        awaited = [hand.awaited for hand in hands if isinstance(hand, _Actor)]
        if awaited:
            self.cluster.ray.wait(awaited, timeout=seconds)


class _Actor:
    """A worker somewhere in the cluster, seen from here."""

    def __init__(self, number: int, cluster: Cluster, spec: Spec) -> None:
        self.number, self.ready, self.ray = number, False, cluster.ray
        made = self.ray.remote(Worker).options(**cluster.needs, max_concurrency=2, max_restarts=0)
        self.actor = made.remote(spec)
        self.awaited = self.actor.hello.remote()
        self.listening: Any = None
        self.one: Planned | None = None

    def give(self, one: Planned) -> None:
        self.one = one
        self.awaited = self.actor.do.remote(one)

    def heard(self) -> list[Message]:
        try:
            return self._told() + self._ended()
        except self.ray.exceptions.RayActorError as error:
            raise GoneError(str(error).strip().partition("\n")[0].rstrip(". ")) from None
        except self.ray.exceptions.RayTaskError as error:
            raise GoneError(str(error).strip().splitlines()[-1]) from None

    def end(self) -> None:
        self.ray.kill(self.actor)

    def _told(self) -> list[Message]:
        if not self.ready or self.one is None:
            return []
        if self.listening is None:
            self.listening = self.actor.heard.remote()
        if not self._is_there(self.listening):
            return []
        found: list[Message] = self.ray.get(self.listening)
        self.listening = None
        return found

    def _ended(self) -> list[Message]:
        if (self.ready and self.one is None) or not self._is_there(self.awaited):
            return []
        found = self.ray.get(self.awaited)
        if not self.ready:
            self.ready = True
            return []
        message, small = found
        if self.one is not None and message[0] == "done":
            receive(self.one.folder, small)
        self.one = None
        return [message]

    def _is_there(self, reference: Any) -> bool:
        return bool(self.ray.wait([reference], timeout=0)[0])


class Worker:
    """What an actor does: a run when it is given one; meanwhile it says how that gets on."""

    def __init__(self, spec: Spec) -> None:
        self.bench = spec.bench()
        self.told: list[Message] = []
        self.lock = threading.Lock()

    def hello(self) -> None:
        """It is there."""

    def do(self, one: Planned) -> tuple[Message, dict[str, bytes]]:
        """Do a run: how it ended, and its small files."""

        def send(message: Message) -> None:
            with self.lock:
                self.told.append(message)

        message = attempt(self.bench, one, send)
        return message, small_files(one.folder) if message[0] == "done" else {}

    def heard(self) -> list[Message]:
        """What was told since this was last asked."""
        with self.lock:
            told, self.told = self.told, []
        return told


def _place() -> Place:
    return Place.here()


def small_files(folder: Path) -> dict[str, bytes]:
    """A run's files by name, without weights and checkpoints."""
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix in (".json", ".jsonl", ".csv") and path.stat().st_size <= SMALL
    }


def receive(folder: Path, small: dict[str, bytes]) -> None:
    """Put a run's small files where it would have been, unless it is there: then the nodes share it."""
    if (folder / RESULT).exists() or SETTINGS not in small:
        return

    def fill(draft: Path) -> None:
        draft.mkdir(parents=True)
        for name, data in small.items():
            (draft / name).write_bytes(data)

    files.remove(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    files.write(folder, fill)
