"""A scenario's pictures, decoded: what the loop is fed with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hda import backbones
from hda.data import augment, pixels
from hda.data.images import Images
from hda.data.scenario import Answers, Scenario
from hda.engine.feeder import Bank
from hda.engine.reporter import Reporter
from hda.engine.selecting import rows_held_out
from hda.engine.settings import Settings
from hda.errors import UserError


@dataclass(frozen=True)
class Material:
    """The pictures of a scenario, which of them are held out, and the answers if there are any."""

    scenario: Scenario
    answers: Answers | None
    bank: Bank  # all sources, the labelled target, the target
    edge: int
    held_out: np.ndarray  # rows of the bank that are pictures of a source held out of training
    test: Bank | None = None  # the target's test part, where there is one: never in the bank

    @classmethod
    def read(
        cls, scenario: Scenario, answers: Answers | None, settings: Settings, skip_broken: bool, reporter: Reporter
    ) -> Material:
        """Decode every picture at the edge that the run's augmentation starts from."""
        size = settings.fit.size or backbones.size_of(settings.fit.backbone)
        edge = augment.store_size(settings.fit.augment, size)

        def load(images: Images) -> pixels.Pixels:
            progress = reporter.reading(images.name, len(images))
            loaded = pixels.load(images, edge, skip_broken=skip_broken, progress=progress)
            for path in loaded.broken:
                reporter.note(f"left out: {path}")
            return loaded

        sources = [load(source.images) for source in scenario.sources]
        labelled = load(scenario.labelled.images) if scenario.labelled else None
        target = load(scenario.target)
        kept = scenario.keep([p.kept for p in sources], labelled.kept if labelled else None, target.kept)
        _check_classes(scenario, kept)
        arrays = [*(p.array for p in sources), *([labelled.array] if labelled else []), target.array]
        held = rows_held_out(kept, settings.fit.source_hold_out or 0.0, settings.fit.seed)
        if settings.fit.source_hold_out and not len(held):
            raise UserError("no picture of the source can be held out: every class has a single one, give more")
        test = load(answers.images) if answers and answers.images else None
        found = answers.select((test or target).kept) if answers else None
        return cls(kept, found, Bank(arrays), edge, held, Bank([test.array]) if test else None)

    @property
    def labels(self) -> np.ndarray:
        """The labels that may be seen: of all sources, then of the labelled target."""
        parts = [source.labels for source in self.scenario.sources]
        if self.scenario.labelled:
            parts.append(self.scenario.labelled.labels)
        return np.concatenate(parts)

    @property
    def counts(self) -> dict[str, int]:
        scenario = self.scenario
        counts = {
            "source": sum(len(source) for source in scenario.sources),
            "labelled": len(scenario.labelled) if scenario.labelled else 0,
            "target": len(scenario.target),
            **({"held_out": len(self.held_out)} if len(self.held_out) else {}),
        }
        return counts if self.test is None else counts | {"test": len(self.test)}

    @property
    def trained_on(self) -> np.ndarray:
        """Rows of the bank that training may draw, in order."""
        return np.setdiff1d(np.arange(len(self.bank)), self.held_out, assume_unique=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many pictures of each source training may draw."""
        starts = self.bank.starts[: len(self.scenario.sources) + 1]
        return tuple(int(size) for size in np.diff(np.searchsorted(self.trained_on, starts)))


def _check_classes(before: Scenario, after: Scenario) -> None:
    """Insist that no class is left without pictures where broken ones are left out.

    Raises:
        UserError: one is, in every source.
    """
    had, has = ({*np.concatenate([part.labels for part in s.sources]).tolist()} for s in (before, after))
    for label in sorted(had - has):
        raise UserError(f"no image of class {before.classes[label]!r} can be read: repair some or remove its folder")
