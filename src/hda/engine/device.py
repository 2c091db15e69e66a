"""Where a run computes, and with what arithmetic."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from hda.engine.place import ALONE, Place
from hda.errors import UserError


def choose_device(name: str, *, fall_back: bool = False, place: Place = ALONE) -> torch.device:
    """The device of that name; "auto" is the first GPU where there is one, or of several processes each its own.

    Args:
        name: auto, cpu, cuda or cuda:N.
        fall_back: take the CPU where the GPU named is absent, as when a run from elsewhere is read here.
        place: which of several processes this is.

    Raises:
        UserError: there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, colon, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (colon and not number.isdecimal()):
        raise UserError(f"unknown device {name!r}: give auto, cpu, cuda or cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not place.alone and count:
        if number:
            raise UserError(f"--device {name} is one GPU for {place.size} processes: give --device cuda")
        if place.neighbours > count:
            raise UserError(
                f"{place.neighbours} processes on a machine need as many GPUs, and there are {count}: "
                f"give torchrun --nproc-per-node {count}, or --device cpu"
            )
        number = str(place.local)
    if int(number or 0) >= count:
        if fall_back:
            return choose_device("auto")
        here = f"there are {count}" if count else "there is none"
        raise UserError(
            f"device {name!r} needs a GPU that PyTorch can use, and {here}: give --device cpu, or see `hda doctor`"
        )
    return torch.device("cuda", int(number or torch.cuda.current_device()))


def device_name(device: torch.device) -> str:
    """What the device is, in its maker's words."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


def choose_precision(name: str, device: torch.device) -> str:
    """The arithmetic: as asked for; "auto" is bf16 on a GPU that has it, TF32 or plain fp32 elsewhere."""
    if name != "auto":
        return name
    if device.type != "cuda":
        return "fp32"
    return "bf16" if torch.cuda.get_device_capability(device) >= (8, 0) else "fp32"


@contextlib.contextmanager
def enough_memory(device: torch.device, remedy: str) -> Iterator[None]:
    """Within: it is said in one sentence, with what to do, that something does not fit into the device's memory.

    Raises:
        UserError: something does not.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # On a CPU PyTorch has no error of its own for it.
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise UserError(f"this does not fit into the memory of {device}: {remedy}") from None


def set_arithmetic(precision: str) -> None:
    """Allow or forbid TF32 in what is computed in float32: everything but a bf16 backbone."""
    exact = precision == "fp32"
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.allow_tf32 = not exact
