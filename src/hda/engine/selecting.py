"""Which of a run's states a validator chooses, and the weights of that state, kept until the run is over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from hda.data.scenario import Scenario
from hda.engine import files
from hda.errors import UserError
from hda.selection import Seen, best, validator
from hda.selection.hold_out import hold_out

SELECTED = "selected.safetensors"
PREFIX = "selection."  # of a score's name in `metrics.jsonl`
CHOSEN = "selected"  # the step chosen so far, in a line of `metrics.jsonl`


class Selecting:
    """The choice among the states that a run has been measured at, in the run's folder.

    A state that may yet be chosen is kept as `model-NNNNNNNN.safetensors`. Nothing is deleted that a resumed run could
    still need: it goes on from the last checkpoint that lies on the disk, and with the choice as it was there.

    Args:
        path: the run's folder.
        name: the validator; None chooses nothing.
        keep: keep every state, chosen or not.
    """

    def __init__(self, path: Path, name: str | None, keep: bool) -> None:
        self.path, self.keep = path, keep
        self.validator = validator(name) if name else None
        self.steps: list[int] = []
        self.measured: list[dict[str, float]] = []

    @property
    def active(self) -> bool:
        return self.keep or self.validator is not None

    def restore(self, records: Iterable[Mapping[str, Any]], step: int) -> None:
        """Go back to what was known at that step, from the lines of metrics."""
        for record in records:
            if CHOSEN in record and record["step"] <= step:
                self.steps.append(record["step"])
                scores = {name: value for name, value in record.items() if name.startswith(PREFIX)}
                self.measured.append({name.removeprefix(PREFIX): value for name, value in scores.items()})
        for known, path in states(self.path).items():
            if known > step:
                files.remove(path)

    def add(
        self, step: int, seen: Seen | None, weights: Callable[[], Mapping[str, Tensor]], durable: Callable[[], int]
    ) -> dict[str, Any]:
        """Take a state into account.

        Args:
            step: updates done.
            seen: what the validator is shown of it.
            weights: gives its weights.
            durable: gives the step of the last checkpoint that lies on the disk.

        Returns:
            Its scores and the step chosen so far, as `metrics.jsonl` has them.
        """
        if self.validator is None or seen is None:
            self._write(step, weights())
            return {}
        self.steps.append(step)
        self.measured.append(self.validator.measure(seen))
        chosen = self.chosen()
        if self.keep or self.validator.relative:
            self._write(step, weights())  # a rank may rise as others come
        elif chosen == step:
            self._write(step, weights())
            self._keep_only({step, self.chosen(upto=durable())})
        return {**{PREFIX + name: value for name, value in self.measured[-1].items()}, CHOSEN: chosen}

    def chosen(self, upto: int | None = None) -> int | None:
        """The step chosen among those up to a step, or among all."""
        count = len(self.steps) if upto is None else sum(step <= upto for step in self.steps)
        if self.validator is None or not count:
            return None
        return self.steps[best(self.validator, self.measured[:count])]

    def finish(self) -> dict[str, Any] | None:
        """Leave the state chosen as `selected.safetensors`; says what was chosen."""
        chosen = self.chosen()
        if chosen is None or self.validator is None:
            return None
        state = states(self.path).get(chosen)
        if state is not None:  # else an earlier process came so far, and was killed just after
            files.copy(state, self.path / SELECTED)
        if not self.keep:
            self._keep_only(set())
        score = self.validator.values(self.measured)[self.steps.index(chosen)]
        return {"validator": self.validator.name, "step": chosen, "score": float(score)}

    def _write(self, step: int, weights: Mapping[str, Tensor]) -> None:
        path = self.path / f"model-{step:08d}.safetensors"
        tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
        try:
            files.write(path, lambda draft: save_file(tensors, draft))
        except (OSError, SafetensorError) as error:
            raise UserError(
                f"the weights {path} cannot be written ({error}): make room for them, then go on with --resume"
            ) from error

    def _keep_only(self, steps: set[int | None]) -> None:
        for step, path in states(self.path).items():
            if step not in steps:
                files.remove(path)


def states(path: Path) -> dict[int, Path]:
    """The states of a run that are kept, by step."""
    found = sorted(path.glob("model-*.safetensors"))
    return {int(state.stem.removeprefix("model-")): state for state in found}


def selected(path: Path, records: Iterable[Mapping[str, Any]]) -> Path | None:
    """Where the weights lie of the state that is chosen, or chosen so far."""
    if (path / SELECTED).exists():
        return path / SELECTED
    steps = [record[CHOSEN] for record in records if CHOSEN in record]
    return states(path).get(steps[-1]) if steps else None


def rows_held_out(scenario: Scenario, share: float, seed: int) -> NDArray[np.int64]:
    """Which pictures of all sources are held out, counted from the first picture of the first."""
    first, rows = 0, [np.empty(0, dtype=np.int64)]
    for number, source in enumerate(scenario.sources):
        rows.append(first + hold_out(source.labels, share, seed, number))
        first += len(source)
    return np.concatenate(rows)
