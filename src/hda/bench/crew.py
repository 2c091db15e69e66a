"""Who does the runs of a grid: this process, several processes on one device, or a Ray cluster's workers.

A hand does one run at a time and tells how it gets on. A hand may die at any moment: what it had in hand goes back to what
is left, and another goes on from the run's last checkpoint.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import statistics
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hda.bench.runner import Bench, Place, Planned
from hda.data.pixels import cores
from hda.engine.reporter import Reporter
from hda.errors import NotFiniteError, UserError

Message = tuple[Any, ...]  # what is told, then what belongs to it
Kind = tuple[str, ...]
Send = Callable[[Message], None]

DEATHS = 3  # of hands over one run, before it is given up
TOLD_EVERY = 0.2  # seconds between two words on how far a run is


class Board:
    """Is told how the runs get on. Every method may be overridden; the base class is silent."""

    def started(self, one: Planned) -> None:
        """A run was begun, or goes on."""

    def at(self, one: Planned, step: int) -> None:
        """A run has done so many steps."""

    def rate(self, one: Planned, images: float) -> None:
        """So many pictures a second."""

    def done(self, one: Planned, row: Mapping[str, Any]) -> None:
        """A run is done, and its row is written."""

    def stopped(self, one: Planned) -> None:
        """A run is under way no more; another hand will go on with it."""

    def failed(self, one: Planned, sentence: str) -> None:
        """Training has left the numbers."""

    def note(self, sentence: str, one: Planned | None = None) -> None:
        """Something the user should know."""


class Spec(NamedTuple):
    """What a hand needs to know to do runs as this process would."""

    out: Path
    data: Path
    hold_out: float
    source: str
    lists: Path | None
    place: Place | None
    grid: Path | None = None  # a file of the user's own that may register methods

    @classmethod
    def of(cls, bench: Bench, grid: Path | None = None) -> Spec:
        lists = None if bench.lists is None else bench.lists.absolute()
        own = None if grid is None else grid.absolute()
        return cls(bench.out.absolute(), bench.data.absolute(), bench.hold_out, bench.source, lists, bench.place, own)

    def bench(self) -> Bench:
        if self.grid is not None:
            from hda.bench import grid

            grid.read(self.grid)
        return Bench(
            self.out, self.data, hold_out=self.hold_out, source=self.source, lists=self.lists, place=self.place
        )


class GoneError(Exception):
    """A hand has died; the message says of what."""


class Hand(Protocol):
    """Somebody who does one run at a time."""

    number: int
    ready: bool

    def give(self, one: Planned) -> None:
        """Let it do a run; it has none, and is ready."""

    def heard(self) -> list[Message]:
        """What it has told since.

        Raises:
            GoneError: it has died.
        """

    def end(self) -> None:
        """Stop it at once, whatever it does."""


class Hands(Protocol):
    """Where hands come from."""

    most: int | None  # so many there can be

    def start(self, number: int) -> Hand: ...

    def wait(self, hands: Sequence[Hand], seconds: float) -> None:
        """Until one of them has something to tell, or for that long."""


class Schedule:
    """What is left to do. A hand keeps to the shape it has begun with, for which it need not compile again."""

    def __init__(self, planned: Iterable[Planned]) -> None:
        self.left: dict[tuple[str, ...], deque[Planned]] = {}
        for one in planned:
            if not one.done:
                self.left.setdefault(one.job.shape, deque()).append(one)

    def __len__(self) -> int:
        return sum(map(len, self.left.values()))

    def take(self, last: tuple[str, ...] | None = None, busy: Iterable[tuple[str, ...]] = ()) -> Planned | None:
        """The next run for a hand.

        Args:
            last: the shape of its last run.
            busy: the shapes of the other hands' runs: they are left to them, until nothing else is.
        """
        if last in self.left:
            return self._from(last)
        others = set(busy)
        free = next((shape for shape in self.left if shape not in others), None)
        if free is None:  # to help with the shape of which most is left
            free = max(self.left, key=lambda shape: len(self.left[shape]), default=None)
        return None if free is None else self._from(free)

    def put_back(self, one: Planned) -> None:
        """Let it be the next of its shape."""
        self.left.setdefault(one.job.shape, deque()).appendleft(one)

    def _from(self, shape: tuple[str, ...] | None) -> Planned:
        assert shape is not None
        runs = self.left[shape]
        one = runs.popleft()
        if not runs:
            del self.left[shape]
        return one


class Fixed:
    """A crew of one size."""

    measuring = False
    kind: Kind | None = None

    def __init__(self, size: int) -> None:
        self.want = size

    def rate(self, hand: int, images: float) -> str | None:
        return None

    def begun(self, hand: int, kind: Kind) -> str | None:
        return None

    def died(self, hand: int) -> str | None:
        return None


class Measured:
    """A crew that grows while more hands on one device do clearly more pictures a second together.

    One hand is measured, then a second is started beside it, and so on; the last that brought too little is stopped, and
    what it had in hand is done later. The first lines of a run tell of compiling, not of speed, and are left out.
    """

    MOST = 4
    GAIN = 1.1  # so much more than before is clearly more
    SETTLE = 5  # lines of a run that do not count
    WINDOW = 15  # lines of every hand that do

    def __init__(self) -> None:
        self.want = 1
        self.kept, self.best = 0, 0.0
        self.measuring = True
        self.kind: Kind | None = None  # of the runs measured: like is measured with like
        self.lines: Counter[int] = Counter()  # of each hand, since it began its run
        self.rates: dict[int, list[float]] = {}

    def begun(self, hand: int, kind: Kind) -> str | None:
        """A hand has begun a run; says what is decided by it, if anything is."""
        self.lines[hand] = 0
        self.rates.clear()  # what the others do while it loads and compiles does not count
        if kind == self.kind or not self.measuring:
            return None
        self.kind, before = kind, self.kind
        if before is None or self.want == 1:
            return None
        self.want, self.measuring = max(self.kept, 1), False
        return f"there is nothing left to measure {self.kept + 1} at once with, so {_at_once(self.kept)}"

    def rate(self, hand: int, images: float) -> str | None:
        """A hand has told its speed; says what is decided by it, if anything is."""
        if not self.measuring:
            return None
        self.lines[hand] += 1
        if len(self.lines) < self.want or min(self.lines.values()) <= self.SETTLE:
            return None  # they do not all run at their speed yet
        self.rates.setdefault(hand, []).append(images)
        if len(self.rates) < self.want or min(map(len, self.rates.values())) < self.WINDOW:
            return None
        total = sum(statistics.median(rates[-self.WINDOW :]) for rates in self.rates.values())
        return self._decide(total)

    def died(self, hand: int) -> str | None:
        """A hand is no more; says what is decided by it."""
        self.lines.pop(hand, None)
        self.rates.pop(hand, None)
        if not self.measuring or self.want == 1 or self.want == self.kept:
            return None
        self.want, self.measuring = self.kept, False
        return f"{self.kept + 1} at once do not do, so {_at_once(self.kept)}"

    def _decide(self, total: float) -> str:
        size, before = self.want, self.best
        self.rates.clear()
        if size > 1 and total < self.GAIN * before:
            self.want, self.measuring = self.kept, False
            return f"{size} at once do {total:,.0f} images/s together, {self.kept} {before:,.0f}: {_at_once(self.kept)}"
        self.kept, self.best = size, total
        self.measuring = size < self.MOST
        self.want = min(size + 1, self.MOST)
        if size == 1:
            return f"one at a time does {total:,.0f} images/s: a second is started beside it, to measure both"
        more = ", and one more is tried" if self.measuring else ""
        return f"{size} at once do {total:,.0f} images/s together, {size - 1} {before:,.0f}: {size} are kept{more}"


def _at_once(size: int) -> str:
    return "it stays at one at a time" if size == 1 else f"it stays at {size} at once"


@dataclass
class Crew:
    """Hands at work on what is left.

    Args:
        bench: writes the rows.
        planned: the runs.
        board: is told everything.
        hands: where hands come from.
        size: how many are wanted.
    """

    bench: Bench
    planned: Sequence[Planned]
    board: Board
    hands: Hands
    size: Fixed | Measured
    failed: list[tuple[Planned, str]] = field(default_factory=list)

    def work(self) -> list[tuple[Planned, str]]:
        """Do all that is not done; gives the runs that failed, each with a sentence.

        Raises:
            UserError: something is wrong that no other hand can mend.
        """
        self.schedule = Schedule(self.planned)
        self.crew: dict[int, Hand] = {}
        self.doing: dict[int, Planned] = {}
        self.last: dict[int, tuple[str, ...]] = {}
        self.deaths: Counter[str] = Counter()
        self.started = 0
        try:
            while len(self.schedule) or self.doing:
                self._fill()
                self.hands.wait(list(self.crew.values()), TOLD_EVERY)
                for hand in list(self.crew.values()):
                    self._hear(hand)
        finally:
            for hand in self.crew.values():
                hand.end()
        return self.failed

    def _fill(self) -> None:
        """Have as many hands as are wanted and can be used, and none of them idle."""
        want = min(self.size.want, len(self.doing) + len(self.schedule), self.hands.most or self.size.want)
        while len(self.crew) > max(want, 1) and len(self.crew) > self.size.want:
            self._let_go(max(self.crew))
        while len(self.crew) < want:
            self.started += 1
            self.crew[self.started] = self.hands.start(self.started)
        for number, hand in self.crew.items():
            if hand.ready and number not in self.doing:
                one = self._next(number)
                if one is not None:
                    self.doing[number], self.last[number] = one, one.job.shape
                    hand.give(one)
                    self.board.started(one)
                    self._say(self.size.begun(number, one.job.kind))

    def _next(self, number: int) -> Planned | None:
        busy = [one.job.shape for one in self.doing.values()]
        last = self.last.get(number)
        if self.size.measuring and last not in self.schedule.left:
            kinds = {shape: runs[0].job.kind for shape, runs in self.schedule.left.items()}
            last = next((shape for shape, kind in kinds.items() if kind == self.size.kind), None)
        return self.schedule.take(last, busy)

    def _let_go(self, number: int) -> None:
        self.crew.pop(number).end()
        one = self.doing.pop(number, None)
        if one is not None:
            self.schedule.put_back(one)
            self.board.stopped(one)

    def _hear(self, hand: Hand) -> None:
        try:
            for message in hand.heard():
                self._take(hand.number, message)
        except GoneError as gone:
            self._replace(hand.number, str(gone))

    def _take(self, number: int, message: Message) -> None:
        what, *rest = message
        one = self.doing.get(number)
        if what == "note":
            self.board.note(rest[0], one)
        elif one is None:
            return
        elif what == "at":
            self.board.at(one, rest[0])
        elif what == "rate":
            self.board.rate(one, rest[0])
            self._say(self.size.rate(number, rest[0]))
        elif what == "done":
            del self.doing[number]
            self.bench.add(rest[0])
            self.board.done(one, rest[0])
        elif what == "failed":
            del self.doing[number]
            self.failed.append((one, rest[0]))
            self.board.failed(one, rest[0])
        elif what == "wrong":
            raise UserError(rest[0])

    def _replace(self, number: int, reason: str) -> None:
        self.crew.pop(number).end()
        one = self.doing.pop(number, None)
        name = "" if one is None else one.identity
        self.deaths[name] += 1
        self._say(self.size.died(number))
        if one is not None:
            self.schedule.put_back(one)
            self.board.stopped(one)
        at = f"in the middle of {one.job.title}" if one else "before its first run"
        if self.deaths[name] >= DEATHS:
            raise UserError(f"{DEATHS} workers have ended {at} ({reason}): see to it, then give the same command again")
        self.board.note(f"a worker has ended {at} ({reason}): another goes on in its place")

    def _say(self, sentence: str | None) -> None:
        if sentence:
            self.board.note(sentence)


def alone(bench: Bench, planned: Sequence[Planned], board: Board) -> list[tuple[Planned, str]]:
    """Do all that is not done in this process, one after the other; gives the runs that failed."""
    failed = []
    for one in planned:
        if one.done:
            continue
        board.started(one)

        def tell(message: Message, one: Planned = one) -> None:
            what, told = message
            getattr(board, what)(told, one) if what == "note" else getattr(board, what)(one, told)

        try:
            row = bench.do(one, Telling(tell))
        except NotFiniteError as error:
            failed.append((one, str(error)))
            board.failed(one, str(error))
        else:
            bench.add(row)
            board.done(one, row)
    return failed


class Telling(Reporter):
    """Tells how a run gets on, but not more often than anybody can read."""

    def __init__(self, send: Send) -> None:
        self.send, self.told = send, 0.0

    def note(self, sentence: str) -> None:
        self.send(("note", sentence))

    def begin(self, start: int, steps: int) -> None:
        self.send(("at", start))

    def advance(self, step: int) -> None:
        now = time.monotonic()
        if now - self.told >= TOLD_EVERY:
            self.told = now
            self.send(("at", step))

    def record(self, record: Mapping[str, object]) -> None:
        if "images_per_second" in record:
            self.send(("rate", record["images_per_second"]))


def attempt(bench: Bench, one: Planned, send: Send) -> Message:
    """Do a run in a hand; the message that it ends with.

    Raises:
        Exception: whatever is no mistake of the user's; the hand dies of it.
    """
    try:
        if bench.identity(one.job) != one.identity:
            return "wrong", (
                f"{os.uname().nodename} has other pictures in {bench.data}, or another version of hda, than where the command "
                "was given: make them the same"
            )
        return "done", bench.do(one, Telling(send))
    except NotFiniteError as error:
        return "failed", str(error)
    except UserError as error:
        return "wrong", str(error)


class Processes:
    """Hands that are processes on this machine."""

    def __init__(self, spec: Spec, at_once: int | None = None) -> None:
        self.spec, self.most = spec, at_once
        self.context = multiprocessing.get_context("spawn")  # a forked process cannot use the GPU

    def start(self, number: int) -> Hand:
        return _Process(number, self.context, self.spec, self.most)

    def wait(self, hands: Sequence[Hand], seconds: float) -> None:
        wait([hand.connection for hand in hands if isinstance(hand, _Process)], seconds)


class _Process:
    """A process that does runs."""

    def __init__(self, number: int, context: Any, spec: Spec, at_once: int | None) -> None:
        self.number, self.ready = number, False
        self.connection, theirs = context.Pipe()
        threads = None if at_once is None else max(1, cores() // at_once)
        self.process = context.Process(target=_serve, args=(theirs, spec, threads), name=f"hda bench worker {number}")
        with _deaf():
            self.process.start()
        theirs.close()

    def give(self, one: Planned) -> None:
        with contextlib.suppress(OSError):  # it has died: `heard` will tell
            self.connection.send(one)

    def heard(self) -> list[Message]:
        found: list[Message] = []
        try:
            while self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, OSError):
            if not found:
                raise GoneError(self._reason()) from None
        self.ready = self.ready or ("ready",) in found
        crashed = next((message for message in found if message[0] == "crashed"), None)
        if crashed:
            raise GoneError(crashed[1])
        return found

    def end(self) -> None:
        self.process.kill()  # a run's folder is whole at every moment
        self.process.join()
        self.connection.close()

    def _reason(self) -> str:
        self.process.join(5)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C goes to all of a terminal's processes, and one is to answer: those begun within never hear it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, spec: Spec, threads: int | None) -> None:
    """What a process does: a run after the other, as they are given, until there is nobody to give them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    if threads is not None and "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(threads)
    try:
        bench = spec.bench()
        connection.send(("ready",))
        while True:
            connection.send(attempt(bench, connection.recv(), connection.send))
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        traceback.print_exc()
        connection.send(("crashed", f"{type(error).__name__}: {error}, {Path(last.filename).name} line {last.lineno}"))
