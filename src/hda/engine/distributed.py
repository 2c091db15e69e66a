"""One run on several processes: whose rows are whose, and what the processes exchange.

Every process draws the same batches and the same random numbers. Each passes its own rows alone through the backbone; the
features of all are gathered, and everything behind them is computed by every process alike, on the whole batch. So a loss
means on N processes what it means on one, whatever it compares, and the gradients are those of one process too.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from hda.backbones import backbones_of
from hda.batch import Batch, Layout, Network, Progress
from hda.data.augment import Augmentation
from hda.engine.place import ALONE, Place, place
from hda.engine.step import Step, Vary
from hda.engine.watch import Watch, watch
from hda.errors import UserError
from hda.methods.base import Losses, LossFunction

T = TypeVar("T")
PATIENCE = timedelta(hours=12)  # of a process that waits for another to decode pictures: the dead are told by `Watch`


@dataclass(frozen=True)
class World:
    """The processes of a run, seen from one of them. Alone, it exchanges nothing."""

    place: Place = ALONE
    watch: Watch | None = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.place.first

    @property
    def alone(self) -> bool:
        return self.place.alone

    def from_first(self, make: Callable[[], T]) -> T:
        """What the first process makes, plain data, on every process; a `UserError` of its is every process's."""
        if self.watch is None:
            return make()
        if not self.first:
            found = json.loads(self.watch.hear())
            if "error" in found:
                raise UserError(found["error"])
            return cast(T, found["made"])
        try:
            made = make()
        except UserError as error:
            self.watch.say(json.dumps({"error": str(error)}))
            raise
        self.watch.say(json.dumps({"made": made}))
        return made

    def share(self, layout: Layout) -> Share | None:
        """This process's part of every batch; None where it has the whole.

        Raises:
            UserError: there are more processes than pictures of a domain.
        """
        if self.alone:
            return None
        batch, target = min(n for n in (layout.source, layout.labelled_target) if n), layout.target
        for option, rows in (("--batch", batch), ("--target-batch", target)):
            if 0 < rows < self.place.size:
                raise UserError(
                    f"{option} {rows} is too small to be shared by {self.place.size} processes, of which each needs a "
                    f"picture of every domain: give {option} {self.place.size} or more, or start {rows}"
                )
        return Share(self.place.rank, self.place.size, layout)

    def in_parts(self, count: int, look: Callable[[slice], Sequence[Tensor]]) -> list[NDArray[Any]]:
        """What is found of so many pictures, each process looking at a part of them.

        Args:
            count: of the pictures, at least one.
            look: given which of them, at least one, what is found: tensors of a row each.
        """
        rank, size = self.place.rank, self.place.size
        if self.alone:
            return [found.cpu().numpy() for found in look(slice(0, count))]
        most = -(-count // size)
        start, stop = (min(count, part * most) for part in (rank, rank + 1))
        first = min(start, count - 1)  # a process too many looks at the last picture for nothing
        own = [found[: stop - start] for found in look(slice(first, max(stop, first + 1)))]
        return [_everyone(found, size, most).flatten(0, 1)[:count].cpu().numpy() for found in own]

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Give every process the first one's values, in place."""
        if not self.alone:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    @torch.no_grad()
    def even_out(self, module: nn.Module) -> None:
        """Let the running statistics of batch norms be the mean over the processes, each of which has seen its rows."""
        norms = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
        running = [t for layer in norms for t in (layer.running_mean, layer.running_var) if t is not None]
        if self.alone or not running:
            return
        flat = torch.cat(running)
        dist.all_reduce(flat)
        for one, mean in zip(running, torch.split(flat / self.place.size, [len(t) for t in running]), strict=True):
            one.copy_(mean)


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Within: the processes that `torchrun` started work together; a process alone goes its way.

    Raises:
        ProcessLostError: another process has ended.
    """
    here = place()
    if here.alone:
        yield World()
        return
    watcher = watch()
    with watcher.heeding():
        ours = not dist.is_initialized()
        if ours:
            on_gpu = device.type == "cuda"
            if on_gpu:
                torch.cuda.set_device(device)
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=watcher.room(),
                rank=here.rank,
                world_size=here.size,
                timeout=PATIENCE,
                device_id=device if on_gpu else None,
            )
        try:
            yield World(here, watcher)
            dist.barrier()  # none leaves while another may still ask for something
        finally:
            if ours:
                dist.destroy_process_group()


class Share:
    """The rows of a batch that are this process's: of n processes, process r has the rows r, r + n, r + 2 n, ...

    So all have about equally many of every domain and of every source, whether n divides their numbers or not.
    """

    def __init__(self, rank: int, size: int, layout: Layout) -> None:
        self.rank, self.size, self.layout = rank, size, layout
        self.own = slice(rank, None, size)
        self.rows = self._before(layout.rows)
        self._seen, self._times = 0, 0

    def varying(self, augmentation: Augmentation) -> Vary:
        """That augmentation of our rows: parameters are drawn for all rows, as on one process."""

        def vary(pictures: Tensor) -> Tensor:
            drawn = augmentation.draw(self.layout.rows, pictures.device)
            return augmentation.apply(pictures, {name: values[self.own] for name, values in drawn.items()})

        return vary

    def through(self, network: Network, images: Tensor, rows: slice) -> Tensor:
        """Features of some rows of the whole batch, every process computing its own: (rows, width).

        Gradients flow back to our rows alone, times the number of processes, of whose gradients the mean is taken.

        Args:
            network: from pictures, and the sizes of groups with statistics of their own, to features.
            images: our pictures of the whole batch.
            rows: which rows of the whole batch.
        """
        start, stop, _ = rows.indices(self.layout.rows)
        own = images[self._before(start) : self._before(stop)]
        border = min(max(self.layout.labelled, start), stop)
        sizes = self._before(border) - self._before(start), self._before(stop) - self._before(border)
        with self._random_numbers(images.device):
            features = network(own, tuple(size for size in sizes if size))
        gathered: Tensor = _Gather.apply(features, (self.rank - start) % self.size, self.size, stop - start)
        return gathered

    def _before(self, row: int) -> int:
        """How many of the rows before that one are ours."""
        return len(range(self.rank, row, self.size))

    @contextmanager
    def _random_numbers(self, device: torch.device) -> Iterator[None]:
        """Within: random numbers of our own; after it those that all processes share go on as if none had been drawn.

        Dropout within a backbone draws for our rows. From the shared numbers it would draw the same for the rows of
        every process, and not equally many where their numbers differ. Ours are a function of the shared state, of the
        rank, and of how often that state has been met, so that a checkpoint holds them too.
        """
        state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
        digest = zlib.crc32(state.numpy().tobytes())
        self._times = self._times + 1 if digest == self._seen else 0
        self._seen = digest
        seed = zlib.crc32(f"{self.rank} {self._times}".encode(), digest)  # of 32 bits: a CPU's generator takes no more
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        else:
            torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            if device.type == "cuda":
                torch.cuda.set_rng_state(state, device)
            else:
                torch.set_rng_state(state)


def distribute(step: Step, synchronise: bool = False) -> None:
    """Let all processes take the same step: each phase's gradients become the mean over the processes'.

    Args:
        step: not run yet in this process.
        synchronise: take the statistics of batch norms over the rows of all processes.
    """
    if synchronise:
        for backbone in backbones_of(step.method):
            backbone.synchronise(total)
    with step.unchanged():
        for index, (phase, parameters) in enumerate(step.phases):
            step.phases[index] = replace(phase, losses=_averaging(step, phase.losses, parameters)), parameters


class _Losses(nn.Module):
    """The method as a whole, with a phase's losses for its forward: what `DistributedDataParallel` wraps."""

    def __init__(self, step: Step, losses: LossFunction) -> None:
        super().__init__()
        self.method, self.losses = step.method, losses

    def forward(self, batch: Batch, progress: Progress) -> Losses:
        return self.losses(batch, progress)


def _averaging(step: Step, losses: LossFunction, parameters: Sequence[nn.Parameter]) -> LossFunction:
    """Those losses, such that the gradients of the parameters they reach come out averaged over the processes.

    Which parameters those are is looked up once in the graph of a forward, and the others are kept from the wrapper: to
    let it look at each step (`find_unused_parameters`) would make the host wait for the device each time.
    """
    reached = _leaves(losses(step.batch(), step.progress).total) & {id(parameter) for parameter in parameters}
    module = _Losses(step, losses)
    others = [name for name, parameter in module.named_parameters() if id(parameter) not in reached]
    others += [name for name, _ in module.named_buffers()]  # statistics are each process's: see `World.even_out`
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, others)  # type: ignore[no-untyped-call]
    return DistributedDataParallel(module)


def _leaves(loss: Tensor) -> set[int]:
    """The identities of the parameters that a loss depends on."""
    found, seen, waiting = set(), set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        waiting.extend(following for following, _ in node.next_functions)
    return found


def total(x: Tensor) -> Tensor:
    """The sum over all processes of a tensor of theirs, on every process; gradients are summed likewise."""
    summed: Tensor = _Total.apply(x)
    return summed


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.contiguous().clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return total(gradient)


class _Gather(torch.autograd.Function):
    """All rows from every n-th of each process, in order; `turn` is the place of our first one among the first n."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, turn: int, size: int, rows: int) -> Tensor:
        ctx.turn, ctx.size = turn, size
        first = (dist.get_rank() - turn) % size  # the process that has the first row
        everyone = _everyone(own, size, -(-rows // size)).roll(-first, 0)
        return everyone.transpose(0, 1).flatten(0, 1)[:rows].contiguous()  # what was filled up lies at the end

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.size * gradient[ctx.turn :: ctx.size], None, None, None


def _everyone(own: Tensor, size: int, most: int) -> Tensor:
    """(own rows, ...) of all processes: (processes, most, ...), filled up with zeros."""
    missing = own.new_zeros((most - len(own), *own.shape[1:]))
    filled = torch.cat([own.detach(), missing]) if len(missing) else own.detach().contiguous()
    everyone = filled.new_empty((size * most, *filled.shape[1:]))
    dist.all_gather_into_tensor(everyone, filled)
    return everyone.view(size, most, *filled.shape[1:])
