"""What a method makes of a run's pictures as it is now: predictions of the target, outputs for a validator."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hda.data.images import Images
from hda.engine.distributed import World
from hda.engine.evaluate import outputs, probabilities
from hda.engine.material import Material
from hda.engine.run import Predictions
from hda.engine.step import Step
from hda.errors import NotFiniteError
from hda.selection import Labelled, Seen, Unlabelled


@dataclass(frozen=True)
class Predictor:
    """Asks the method of a step, each process of the world for its part of the pictures."""

    step: Step
    material: Material
    resident: Tensor | None  # the bank on the device, where it fits
    view: Callable[[Tensor], Tensor]  # how pictures are seen that are predicted
    world: World

    def predictions(self, test: Images | None = None) -> Predictions:
        """Class probabilities of every picture of the target, or of its test part."""
        target = test or self.material.scenario.target
        bank = self.material.bank if test is None else self.material.test
        assert bank is not None
        first = len(bank) - len(target)

        def pictures(start: int, stop: int) -> Tensor:
            if self.resident is not None and test is None:
                return self.resident[first + start : first + stop]
            return torch.from_numpy(bank.part(first + start, first + stop)).to(self.step.device)

        def look(own: slice) -> tuple[Tensor]:
            def shifted(start: int, stop: int) -> Tensor:
                return pictures(own.start + start, own.start + stop)

            return (probabilities(self.step.method, shifted, own.stop - own.start, self.view, self._batch),)

        (found,) = self.world.in_parts(len(target), look)
        if not np.isfinite(found).all():
            raise self._not_finite()
        return Predictions(target.names, found, self.material.scenario.classes)

    def predictions_of(self, target: Unlabelled) -> Predictions:
        """The same as `predictions`, of outputs that are known already."""
        found = torch.from_numpy(target.logits).softmax(dim=1).numpy()
        return Predictions(self.material.scenario.target.names, found, self.material.scenario.classes)

    def seen(self, needs: Collection[str]) -> Seen:
        """What a validator with these needs is shown."""
        material = self.material
        ends = [int(material.bank.starts[i]) for i in (len(material.scenario.sources), -2, -1)]

        def labelled(rows: np.ndarray) -> Labelled:
            return Labelled(*self._outputs(rows), material.labels[rows])

        trained = material.trained_on
        return Seen(
            Unlabelled(*self._outputs(np.arange(ends[1], ends[2]))),
            labelled(trained[trained < ends[0]]) if "source" in needs else None,
            labelled(material.held_out) if "held_out" in needs else None,
        )

    def _outputs(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features and logits of those pictures of the bank."""
        bank = self.material.bank

        def look(own: slice) -> tuple[Tensor, Tensor]:
            mine = rows[own]

            def pictures(start: int, stop: int) -> Tensor:
                if self.resident is not None:
                    return self.resident[torch.from_numpy(mine[start:stop]).to(self.step.device)]
                found = np.empty((stop - start, bank.edge, bank.edge, 3), dtype=np.uint8)
                bank.gather(mine[start:stop], found)
                return torch.from_numpy(found).to(self.step.device)

            return outputs(self.step.method, pictures, len(mine), self.view, self._batch)

        features, logits = self.world.in_parts(len(rows), look)
        if not (np.isfinite(features).all() and np.isfinite(logits).all()):
            raise self._not_finite()
        return features, logits

    @property
    def _batch(self) -> int:
        """Pictures at once that are looked at and not trained on."""
        return 512 if self.step.device.type == "cuda" else 128

    def _not_finite(self) -> NotFiniteError:
        done = round(self.step.progress.iteration.item())
        return NotFiniteError(f"predictions are no longer finite after step {done}: give a lower --lr")
