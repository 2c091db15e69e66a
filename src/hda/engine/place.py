"""What `torchrun` tells each process that it starts; read without PyTorch, which takes seconds to import."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hda.errors import UserError


@dataclass(frozen=True)
class Place:
    """Which of a run's processes this is."""

    rank: int = 0  # among all
    size: int = 1  # how many there are
    local: int = 0  # among those on this machine
    neighbours: int = 1  # how many there are on this machine, this one too

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.size == 1


ALONE = Place()


def place() -> Place:
    """This process's place, from the environment; alone where nothing is said.

    Raises:
        UserError: what is said is no place.
    """
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return ALONE
    rank, size = _number("RANK", 0), _number("WORLD_SIZE", 1)
    found = Place(rank, size, _number("LOCAL_RANK", rank), _number("LOCAL_WORLD_SIZE", size))
    if not (0 <= found.rank < found.size and 0 <= found.local < found.neighbours):
        raise UserError(
            f"RANK {found.rank} of WORLD_SIZE {found.size} and LOCAL_RANK {found.local} of LOCAL_WORLD_SIZE "
            f"{found.neighbours} are no place: start the processes with torchrun"
        )
    if not found.alone:
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            if not os.environ.get(name):
                raise UserError(f"WORLD_SIZE is {found.size} but {name} is not set: start the processes with torchrun")
    return found


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise UserError(f"{name} is {text!r}, which is no number: start the processes with torchrun")
    return int(text)
