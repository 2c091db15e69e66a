"""What the processes of a run know of one another's lives: when one ends, the others end too, with one sentence in all.

Each process has a thread that counts on in a store which all of them see (`torchrun` holds one, else the first process
does), and listens whether the others count on. The thread acts where the main one cannot, which may be waiting for a
message from the dead: in a library that hears no signal, or for a GPU.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import cache

from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]  # PyTorch does not list them
from torch.distributed.rendezvous import rendezvous

from hda.engine.place import Place, place
from hda.errors import ProcessLostError, UserError

BEAT = 0.5  # seconds between two counts
SILENCE = 10.0  # seconds after which a process that does not count counts as dead
SUSPICION = 2.0  # the same, when something has gone wrong already
INQUIRY = 4.0  # seconds to find out who has died
GRACE = 3.0  # seconds in which a process may end by itself
COMING = timedelta(minutes=10)  # in which all processes must have started
LOST, TERMINATED = 1, 128 + signal.SIGTERM


@cache
def watch() -> Watch:
    """The one of this process, begun when it is first asked for."""
    return Watch(place())


class Watch:
    """One process's eye on the others, and what it shares with them: `say` and `hear` small texts, `tell` the user."""

    def __init__(self, here: Place) -> None:
        self.place = here
        self.remedy = "start it again"
        attempt = f"hda/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
        self._store = _connected(here, attempt)
        self._lines = PrefixStore(attempt, _own_line())  # of the thread: a request of the main one may wait long
        self._rooms = self._said = self._dead = 0
        self._heeding = threading.Event()
        self._telling = threading.Lock()
        self._counts: dict[int, bytes] = {}
        self._changed: dict[int, float] = {}
        self._signals: int | None = None
        self._fate: int | None = None  # exit code of the process that told the user
        self._gone = False  # the store
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="watch", daemon=True)
        self._thread.start()
        atexit.register(self._stop)

    def room(self) -> Store:
        """A store of its own for a group of processes."""
        self._rooms += 1
        return PrefixStore(f"room/{self._rooms}", self._store)

    def say(self, text: str) -> None:
        """Give the other processes the text that they `hear`."""
        self._said += 1
        self._store.set(f"said/{self._said}", text)

    def hear(self) -> str:
        """The next text that the first process says, waited for as long as it takes."""
        self._said += 1
        key = f"said/{self._said}"
        while not self._store.check([key]):  # rather than `get`, which gives up at some time
            time.sleep(BEAT / 20)
        return bytes(self._store.get(key)).decode()

    @contextlib.contextmanager
    def heeding(self) -> Iterator[None]:
        """Within: the other processes must live.

        Raises:
            ProcessLostError: one has ended, as an error in here turned out to mean.
        """
        self._changed = dict.fromkeys(self._changed, time.monotonic())
        self._heeding.set()
        try:
            yield
        except RuntimeError as error:  # as all do that come from an exchange
            if isinstance(error, ProcessLostError) or (sentence := self._inquire()) is None:
                raise
            raise ProcessLostError(sentence) from error
        finally:
            self._heeding.clear()

    def tell(self, sentence: str, code: int) -> int:
        """Print a sentence, unless another process has told the user one.

        Returns:
            The exit code: this one, or that of the process that told the user.
        """
        with self._telling:
            if self._fate is None and self._may_tell():
                print(f"hda: {sentence}", file=sys.stderr, flush=True)
                self._fate = code
                with contextlib.suppress(RuntimeError):
                    self._lines.set("fate", str(code))
                    self._wait_for_others()
            return code if self._fate is None else self._fate

    def end_on_termination(self) -> None:
        """From now on SIGTERM, which torchrun sends to those that are left, ends this process with a sentence too."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # is written to even where Python cannot run
        self._signals = reading

    def _stop(self) -> None:
        """End the thread before the interpreter does: ended within the store's code, it would take the process down."""
        self._over.set()
        self._thread.join(GRACE)

    # The thread

    def _live(self) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            if self._terminated():
                self._end(self._inquire() or f"stopped by a signal: {self.remedy}", TERMINATED)
            self._try_to_look(count)
            if self._fate is not None:
                self._end_with(self._fate)
            elif self._heeding.is_set() and (sentence := self._missing(SILENCE)):
                self._end(sentence, LOST)

    def _try_to_look(self, count: int) -> None:
        if not self._gone:
            try:
                self._look(count)
            except RuntimeError:
                self._gone = True

    def _look(self, count: int) -> None:
        """Count on, and see who else does."""
        self._lines.set(f"count/{self.place.rank}", str(count))
        if self._fate is None and self._lines.check(["fate"]):
            self._fate = int(self._lines.get("fate"))
            self._lines.add("heard", 1)
        keys = [f"count/{rank}" for rank in range(self.place.size)]
        now = time.monotonic()
        for rank, counted in enumerate(self._lines.multi_get(keys)):
            if self._counts.get(rank) != counted:
                self._counts[rank], self._changed[rank] = counted, now

    def _terminated(self) -> bool:
        """Whether SIGTERM comes before the next count."""
        if self._signals is None:
            self._over.wait(BEAT)
            return False
        ready, _, _ = select.select([self._signals], [], [], BEAT)
        return bool(ready) and signal.SIGTERM in os.read(self._signals, 64)

    def _missing(self, silence: float) -> str | None:
        """The sentence on who has died, if anyone has."""
        size = self.place.size
        if self._gone:
            host = "torchrun" if _torchrun_has_store() else f"process 0 of {size}"
            return f"{host} has ended, and so do the other processes: {self.remedy}"
        silent = self._silences()
        rank = max(silent, key=lambda rank: silent[rank], default=None)
        if rank is None or silent[rank] < silence:
            return None
        self._dead = 1  # at least: nobody waits for it to hear of itself
        return f"process {rank} of {size} has ended, and so do the others: {self.remedy}"

    def _silences(self) -> dict[int, float]:
        """For how long each of the others has not counted on, in seconds."""
        now = time.monotonic()
        return {rank: now - since for rank, since in self._changed.items() if rank != self.place.rank}

    def _inquire(self) -> str | None:
        """After an error: the sentence on who has died, or else None; takes a few seconds where nobody has."""
        mine = threading.current_thread().name == "watch"
        until = time.monotonic() + INQUIRY
        while time.monotonic() < until:
            if self._fate is not None:
                return "another process has ended"  # and has said why: nobody will read this
            if sentence := self._missing(SUSPICION):
                return sentence
            time.sleep(BEAT / 2)
            if mine:
                self._try_to_look(time.monotonic_ns())
        return None

    def _end(self, sentence: str, code: int) -> None:
        self._leave(self.tell(sentence, code))

    def _end_with(self, code: int) -> None:
        """Another process told the user: end alike, if the main thread does not by itself."""
        if self._telling.locked():  # it was this one, which waits for the others to hear of it
            return
        if not self._over.wait(GRACE):
            self._leave(code)

    def _leave(self, code: int) -> None:
        if sys.stdout.isatty():
            os.write(sys.stdout.fileno(), b"\x1b[?25h")  # a progress bar hides the cursor
        os._exit(code)

    def _wait_for_others(self) -> None:
        """Stay for a moment where the store would go with us, before all have heard of it."""
        until = time.monotonic() + GRACE
        while not _torchrun_has_store() and self.place.first and time.monotonic() < until:
            if self._lines.add("heard", 0) >= self.place.size - 1 - self._dead:
                return
            time.sleep(BEAT / 10)

    def _may_tell(self) -> bool:
        """Whether this is the first process that has something to tell."""
        try:
            if self._lines.add("tellers", 1) == 1:
                return True
            self._lines.wait(["fate"], timedelta(seconds=GRACE))
            self._fate = int(self._lines.get("fate"))
            self._lines.add("heard", 1)
            return False
        except RuntimeError:  # the store has gone and nobody can be asked: one process of each machine speaks
            return self.place.local == 0 or self.place.rank == 1


def _connected(here: Place, attempt: str) -> Store:
    """The store that all processes see, once all have come.

    Raises:
        UserError: some do not come.
    """
    try:
        store, _, _ = next(rendezvous("env://", here.rank, here.size, timeout=COMING))
        shared = PrefixStore(attempt, store)
        shared.set(f"count/{here.rank}", "0")
        if shared.add("come", 1) == here.size:
            shared.set("complete", "")
        shared.wait(["complete"], COMING)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"the {here.size} processes do not come together ({reason}): see that all are started and that "
            f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} is free and within reach"
        ) from error
    return shared


def _own_line() -> Store:
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=SILENCE))


def _torchrun_has_store() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
