"""From pictures in memory to a step's buffers: resident on the device where they fit, streamed where they do not."""

from __future__ import annotations

import mmap
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hda.data.samplers import Sampler
from hda.engine.step import Step

WAITING = 4  # batches that are gathered ahead where pictures are streamed
HELD = 2**28  # bytes read from memory maps before this process lets go of them; the system may keep them


class Bank:
    """Several sets of pictures as one: row i is picture i of all of them in order."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays
        self.starts = np.cumsum([0, *(len(array) for array in arrays)])
        self.edge = arrays[0].shape[1]
        self._read = 0  # bytes, since the maps were let go of

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def gather(self, rows: np.ndarray, out: np.ndarray) -> None:
        """Write those pictures into `out`, (rows, edge, edge, 3) uint8."""
        for array, start, stop in zip(self.arrays, self.starts, self.starts[1:], strict=False):
            mine = np.flatnonzero((rows >= start) & (rows < stop))
            if not len(mine):
                continue
            wanted, first, last = rows[mine] - start, mine[0], mine[-1] + 1
            if last - first == len(mine):  # one after the other, as those of a single source or target are
                np.take(array, wanted, axis=0, out=out[first:last], mode="clip")  # "raise" would go through a copy
            else:
                out[mine] = array[wanted]
        self._count(out.nbytes)

    def part(self, start: int, stop: int) -> np.ndarray:
        """A copy of those pictures, one after the other."""
        copied = np.empty((stop - start, self.edge, self.edge, 3), dtype=np.uint8)
        self.gather(np.arange(start, stop), copied)
        return copied

    def to(self, device: torch.device) -> Tensor:
        """All pictures as one tensor on the device, copied in pieces."""
        whole = torch.empty((len(self), self.edge, self.edge, 3), dtype=torch.uint8, device=device)
        for array, start in zip(self.arrays, self.starts, strict=False):
            for i in range(0, len(array), 1024):
                piece = np.array(array[i : i + 1024])
                whole[start + i : start + i + len(piece)] = torch.from_numpy(piece).to(device)
                self._count(piece.nbytes)
        return whole

    def _count(self, read: int) -> None:
        """Keep what is mapped of a large store from growing to all of it: as memory in use that looks like a leak."""
        self._read += read
        if self._read > HELD and hasattr(mmap, "MADV_DONTNEED"):
            self._read = 0
            for array in self.arrays:
                mapped = getattr(array, "_mmap", None)  # numpy's memory maps have it
                if mapped is not None:
                    mapped.madvise(mmap.MADV_DONTNEED)


def fits(bank: Bank, device: torch.device, limit_gib: float | None) -> bool:
    """Whether a bank may live on the device: within the limit asked for, or half of the memory free now."""
    if device.type != "cuda":
        return False  # on a CPU the memory map is as near as a copy
    limit = torch.cuda.mem_get_info(device)[0] / 2 if limit_gib is None else limit_gib * 2**30
    return bank.bytes <= limit


@dataclass
class _Ready:
    pictures: Tensor | None
    rows: Tensor
    domains: Tensor
    state: dict[str, Any]


class Feeder:
    """Fills a step's buffers with the sampler's next batch.

    Resident pictures are gathered on the device. Others are gathered by one thread a few batches ahead, through pinned
    memory; `state` is always the sampler's after the batch that was fed last, never after one that waits.
    """

    def __init__(
        self,
        sampler: Sampler,
        bank: Bank,
        labels: np.ndarray,
        device: torch.device,
        resident: Tensor | None,
        own: slice = slice(None),
    ) -> None:
        self.own = own  # the rows whose pictures are fed; the labels and domains are of all
        self.sampler, self.bank, self.device, self.resident = sampler, bank, device, resident
        self.labels = torch.from_numpy(np.ascontiguousarray(labels)).to(device)
        self.state = sampler.state()
        self._pinned = device.type == "cuda"
        self._ahead: queue.Queue[_Ready | BaseException] = queue.Queue(WAITING)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if resident is None and device.type == "cuda":
            self._thread = threading.Thread(target=self._prefetch, daemon=True)
            self._thread.start()

    def feed(self, step: Step) -> None:
        """Write the next batch into the step's buffers."""
        ready = self._next()
        self.state = ready.state
        rows = ready.rows.to(self.device, non_blocking=True)
        if self.resident is not None:
            torch.index_select(self.resident, 0, rows[self.own], out=step.pictures)
        else:
            assert ready.pictures is not None
            step.pictures.copy_(ready.pictures, non_blocking=True)
        torch.index_select(self.labels, 0, rows[: step.layout.labelled], out=step.labels)
        step.domains.copy_(ready.domains, non_blocking=True)

    def close(self) -> None:
        self._stop.set()
        while self._thread is not None and self._thread.is_alive():
            try:
                self._ahead.get(timeout=0.05)
            except queue.Empty:
                continue

    def _next(self) -> _Ready:
        if self._thread is None:
            return self._draw()
        ready = self._ahead.get()
        if isinstance(ready, BaseException):
            raise ready
        return ready

    def _draw(self) -> _Ready:
        draw = self.sampler.next()
        pictures = None
        if self.resident is None:
            own = draw.pictures[self.own]
            shape = (len(own), self.bank.edge, self.bank.edge, 3)
            pictures = torch.empty(shape, dtype=torch.uint8, pin_memory=self._pinned)
            self.bank.gather(own, pictures.numpy())
        return _Ready(pictures, self._pin(draw.pictures), self._pin(draw.domains), self.sampler.state())

    def _pin(self, values: np.ndarray) -> Tensor:
        tensor = torch.from_numpy(values)
        return tensor.pin_memory() if self._pinned else tensor

    def _prefetch(self) -> None:
        try:
            while not self._stop.is_set():
                self._ahead.put(self._draw())
        except BaseException as error:  # handed to the thread that trains
            self._ahead.put(error)
