"""One training step: vary the pictures, run the method's phases, update. Eagerly, or as one CUDA graph."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hda.backbones import backbones_of
from hda.batch import Batch, Layout, Progress, Share
from hda.methods.base import Method, Phase
from hda.recipes.base import Recipe

log = logging.getLogger("hda")

Vary = Callable[[Tensor], Tensor]  # uint8 (rows, edge, edge, 3) -> float (rows, 3, size, size), random on the device


class Step:
    """The whole step over buffers that stay where they are: `pictures`, `labels` and `domains` are written, then run.

    Everything the step reads or changes is a tensor on the device (weights, optimiser, progress, metrics), so the host
    only launches it, and a graph captured once is replayed for every step, and for every further task of this shape.
    """

    def __init__(
        self,
        method: Method,
        recipe: Recipe,
        vary: Vary,
        layout: Layout,
        steps: int,
        edge: int,
        device: torch.device,
        *,
        strong: Vary | None = None,
        share: Share | None = None,
    ) -> None:
        self.method, self.recipe, self.vary, self.layout, self.device = method, recipe, vary, layout, device
        self.strong, self.share = strong or vary, share  # `strong` for a method's strong views
        rows = layout.rows if share is None else share.rows
        self.pictures = torch.zeros((rows, edge, edge, 3), dtype=torch.uint8, device=device)
        self.labels = torch.zeros(layout.labelled, dtype=torch.int64, device=device)
        self.domains = torch.zeros(layout.rows, dtype=torch.int64, device=device)
        self.progress = Progress(torch.zeros((), device=device), steps)
        trained = {name: p for name, p in method.named_parameters() if p.requires_grad}
        self.parameters = trained
        self.optimiser = recipe.optimiser(
            [p for name, p in trained.items() if name.startswith("backbone.")],
            [p for name, p in trained.items() if not name.startswith("backbone.")],
        )
        self.phases: list[tuple[Phase, list[nn.Parameter]]] = [
            (phase, [p for name, p in trained.items() if name.startswith(phase.updates)]) for phase in method.phases()
        ]
        self.names: list[str] = []  # of the measured quantities, known after the first step
        self.sums: Tensor | None = None  # their sums since `measured` was last called
        self._graph: torch.cuda.CUDAGraph | None = None

    def run(self) -> None:
        """One update of everything, on what the buffers hold now."""
        if self._graph is None:
            self._run()
        else:
            self._graph.replay()

    @property
    def captured(self) -> bool:
        """Whether `run` replays a graph."""
        return self._graph is not None

    def capture(self, otherwise: str = "eager") -> bool:
        """Record the step as one CUDA graph; `run` replays it from then on. Nothing is changed by the recording.

        Returns:
            Whether it could be recorded; if not, a sentence is logged that says why, and how the step runs instead.
        """
        with self.unchanged():
            try:
                self._graph = self._record()
            except RuntimeError as error:
                if self.device.type == "cuda":
                    release_random_numbers(self.device)
                reason = _cause(error).partition("\n")[0]
                log.warning("the step cannot be recorded as a CUDA graph and runs %s: %s", otherwise, reason)
        return self.captured

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within: the step may run or be tried; after it state, sums and random numbers are what they were."""
        before = {name: tensor.clone() for name, tensor in self.tensors().items()}
        sums = None if self.sums is None else self.sums.clone()
        on_gpu = self.device.type == "cuda"
        random = torch.cuda.get_rng_state(self.device) if on_gpu else torch.get_rng_state()
        yield
        self.load(before)
        if on_gpu:
            torch.cuda.set_rng_state(random, self.device)
        else:
            torch.set_rng_state(random)
        if self.sums is not None:
            self.sums.zero_() if sums is None else self.sums.copy_(sums)

    def _record(self) -> torch.cuda.CUDAGraph:
        stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):  # lazily made workspaces, autotuning and compilation happen here, outside the graph
                self._run()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()  # what the eager steps held, the graph will not use
        graph = torch.cuda.CUDAGraph()
        # The outer stream comes back even where recording fails, which older PyTorch leaves on the graph's own.
        with torch.cuda.stream(torch.cuda.current_stream(self.device)), torch.cuda.graph(graph):
            self._run()
        return graph

    def tensors(self) -> dict[str, Tensor]:
        """Everything the next step depends on, by name: the method's, the optimiser's, the progress."""
        state: dict[str, Tensor] = {f"method.{name}": tensor for name, tensor in self.method.state_dict().items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimiser.state[parameter].items():
                state[f"optimiser.{name}.{key}"] = value
        state["progress.iteration"] = self.progress.iteration
        return state

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Write such a state back, in place."""
        own = self.tensors()
        misfits = own.keys() ^ state.keys() or {name for name in own if own[name].shape != state[name].shape}
        if misfits:
            raise ValueError(f"state does not fit: {sorted(misfits)[:5]}")
        for name, tensor in own.items():
            tensor.copy_(state[name])

    @torch.no_grad()
    def restart(self, method_state: dict[str, Tensor]) -> None:
        """Begin another run of the same shape from these weights: optimiser and progress at zero."""
        zeros = {name: torch.zeros_like(tensor) for name, tensor in self.tensors().items()}
        self.load(zeros | {f"method.{name}": tensor for name, tensor in method_state.items()})
        if self.sums is not None:
            self.sums.zero_()

    def batch(self) -> Batch:
        """What the buffers hold now, varied anew."""
        weak = self.method.views - self.method.strong_views
        views = tuple((self.vary if n < weak else self.strong)(self.pictures) for n in range(self.method.views))
        return Batch(views, self.labels, self.domains, self.layout, self.share)

    def measured(self, steps: int) -> dict[str, float]:
        """Means of losses and watched quantities over the last `steps` steps; waits for the device once."""
        assert self.sums is not None
        values = (self.sums / steps).tolist()
        self.sums.zero_()
        return dict(zip(self.names, values, strict=True))

    def _run(self) -> None:
        rate = self.recipe.set_rates(self.optimiser, self.progress)
        batch = self.batch()
        seen: dict[str, Tensor] = {}
        for phase, parameters in self.phases:
            for _ in range(phase.repeat):
                losses = phase.losses(batch, self.progress)
                total = losses.total
                self.optimiser.zero_grad(set_to_none=True)
                total.backward(inputs=parameters)  # type: ignore[no-untyped-call]
                self.optimiser.step()
            prefix = "" if len(self.phases) == 1 else f"{phase.name}."
            seen |= {prefix + name: value for name, value in {**losses, **losses.watched, "total": total}.items()}
        with torch.no_grad():
            self.method.after_step(self.progress)
            self.progress.iteration.add_(1)
            self._measure({"lr": rate, **seen})

    def _measure(self, seen: dict[str, Tensor]) -> None:
        values = torch.stack([value.detach().float() for value in seen.values()])
        if self.sums is None:
            self.names, self.sums = list(seen), torch.zeros_like(values)
        self.sums.add_(values)


class Kept:
    """The last step that was captured: many tasks of one shape in a process pay for compiling and capturing once."""

    def __init__(self) -> None:
        self._key: object = None
        self._step: Step | None = None

    def take(self, key: object) -> Step | None:
        """The step kept under an equal key. Another one is let go, with its memory."""
        if self._key != key:
            self._key = self._step = None
        return self._step

    def keep(self, key: object, step: Step) -> None:
        if step.captured:
            self._key, self._step = key, step


kept = Kept()


def prepare(step: Step, *, graph: bool, compile: bool) -> str:
    """Set a step's launch mode; says in a word or two what it became.

    A graph or a compilation that cannot be had is said in one logged sentence, and the step runs eagerly.
    """
    step.method.train()
    if step.captured:
        return "the graph of an earlier run"
    mode = "eager"
    if step.device.type != "cuda":
        return mode
    if compile and compile_backbones(step):
        mode = "compiled"
    if graph and step.capture(mode):
        mode = "graph" if mode == "eager" else f"{mode} graph"
    return mode


def compile_backbones(step: Step) -> bool:
    """Compile them, which the first step does; where that fails, say so in one sentence and leave them as they were."""
    from torch._dynamo.exc import TorchDynamoException

    nets = [backbone.net for backbone in backbones_of(step.method)]
    for net in nets:
        net.compile(dynamic=False)
    with step.unchanged():
        try:
            step.run()
        except TorchDynamoException as error:
            reason = str(error).strip().partition("\n")[0]
            log.warning("the backbone cannot be compiled and runs as it is: %s", reason)
            for net in nets:
                net._compiled_call_impl = None
            return False
        finally:
            step.optimiser.zero_grad(set_to_none=True)
    return True


def build_method(
    cls: type[Method], make: Callable[[], Any], classes: int, domains: int, settings: Any, seed: int
) -> Method:
    """A method with the weights that this seed gives, on the CPU, the caller's random state untouched."""
    with random_numbers(torch.device("cpu"), seed):
        return cls(make(), classes, domains, settings)


def release_random_numbers(device: torch.device) -> None:
    """Let the GPU draw again after a recording that failed: its generator takes itself to be recorded for ever after."""
    generator = torch.cuda.default_generators[device.index]
    generator.graphsafe_set_state(generator.clone_state())


def _cause(error: BaseException) -> str:
    """What went wrong first: the end of a recording that failed only says that something did."""
    while isinstance(error.__context__, RuntimeError):
        error = error.__context__
    return str(error)


@contextlib.contextmanager
def random_numbers(device: torch.device, seed: int) -> Iterator[None]:
    """Within: random numbers on the CPU and the device come from this seed; after it the caller's state is back."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` would set every GPU's, used here or not
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
