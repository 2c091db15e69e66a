"""Checkpoints: weights and training state as safetensors, the rest as plain JSON, written whole or not at all."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from hda.engine import files
from hda.engine.step import Step
from hda.errors import UserError

MODEL = "model.safetensors"
_TRAINING = "training.safetensors"
_STATE = "state.json"
_REST = ("measured.", "random.")  # names of tensors that are not the step's


@dataclass(frozen=True)
class Checkpoint:
    """All of a run's state after `step` updates: what going on exactly needs."""

    step: int
    tensors: dict[str, Tensor]  # `Step.tensors()`, the metrics' running sums and the random states, on the CPU
    plain: dict[str, Any]  # sampler, names of the metrics, how many steps the sums hold

    @property
    def model(self) -> dict[str, Tensor]:
        return {k.removeprefix("method."): v for k, v in self.tensors.items() if k.startswith("method.")}

    def rest(self) -> dict[str, Any]:
        """What there is besides the step's own tensors, as plain data for other processes: see `restore_rest`."""
        values = {name: tensor.tolist() for name, tensor in self.tensors.items() if name.startswith(_REST)}
        return {"plain": self.plain, "values": values}


def capture(step: int, state: Step, sampler: dict[str, Any], summed: int, seconds: float) -> Checkpoint:
    """Copy a run's state to the CPU."""
    tensors = {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.tensors().items()}
    if state.sums is not None:
        tensors["measured.sums"] = state.sums.to("cpu", copy=True)
    tensors["random.cpu"] = torch.get_rng_state()
    if state.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(state.device)
    plain = {"step": step, "sampler": sampler, "summed": summed, "seconds": seconds, "names": state.names}
    return Checkpoint(step, tensors, plain)


def restore(checkpoint: Checkpoint, state: Step) -> None:
    """Put a run's state back: weights, optimiser, progress, metrics and random numbers.

    Raises:
        ValueError, KeyError, TypeError, RuntimeError: it is another run's.
    """
    state.load({name: tensor for name, tensor in checkpoint.tensors.items() if not name.startswith(_REST)})
    restore_rest(checkpoint.rest(), state)


def restore_rest(rest: dict[str, Any], state: Step) -> None:
    """Put back what `Checkpoint.rest` gave: metrics and random numbers."""
    values = rest["values"]
    if "measured.sums" in values:
        sums = torch.tensor(values["measured.sums"], device=state.device)
        state.names = list(rest["plain"]["names"])
        if len(state.names) != len(sums):
            raise ValueError(f"{len(sums)} sums and {len(state.names)} names for them")
        if state.sums is None:
            state.sums = sums
        else:
            state.sums.copy_(sums)
    torch.set_rng_state(torch.tensor(values["random.cpu"], dtype=torch.uint8))
    if state.device.type == "cuda" and "random.cuda" in values:
        torch.cuda.set_rng_state(torch.tensor(values["random.cuda"], dtype=torch.uint8), state.device)


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write `folder/step-NNNNNNNN` atomically, then delete the older ones.

    Raises:
        UserError: the disk does not take it; the older ones are still there.
    """

    def fill(draft: Path) -> None:
        draft.mkdir(parents=True)
        training = {name: t for name, t in checkpoint.tensors.items() if not name.startswith("method.")}
        save_file(_contiguous(checkpoint.model), draft / MODEL)
        save_file(_contiguous(training), draft / _TRAINING)
        (draft / _STATE).write_text(json.dumps(checkpoint.plain), encoding="utf-8")

    path = folder / _name(checkpoint.step)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            files.write(path, fill)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"the checkpoint {path} cannot be written ({error}): make room for it, then go on with --resume"
        ) from error
    keep_only(path)


def keep_only(path: Path) -> None:
    """Delete all checkpoints of a folder but this one, also such as a kill has left half deleted."""
    for other in path.parent.glob("step-*"):
        if other != path:
            files.remove(other)


def latest(folder: Path) -> Path | None:
    """The newest whole checkpoint in a folder of checkpoints."""
    found = sorted(folder.glob("step-*"))
    return found[-1] if found else None


def load(path: Path) -> Checkpoint:
    """Read a checkpoint that `save` wrote; nothing in it can run code.

    Raises:
        UserError: it is damaged.
    """
    try:
        plain = json.loads((path / _STATE).read_text(encoding="utf-8"))
        if path.name != _name(plain["step"]):
            raise ValueError(f"it is of step {plain['step']}")
        model = {f"method.{name}": tensor for name, tensor in load_file(path / MODEL).items()}
        return Checkpoint(plain["step"], model | load_file(path / _TRAINING), plain)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UserError(f"the checkpoint {path} is damaged ({error}): begin anew with another --out") from error


class Writer:
    """Writes checkpoints one after the other in the background; an error surfaces at the next call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None

    def save(self, checkpoint: Checkpoint) -> None:
        self.wait()
        self._pending = self._pool.submit(save, self.folder, checkpoint)

    def wait(self) -> None:
        """Return when everything handed over lies on the disk."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._pool.shutdown()


def _name(step: int) -> str:
    return f"step-{step:08d}"


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    # A copy, so that tensors that share memory (tied weights) are written once each.
    return {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
