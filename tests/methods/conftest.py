"""What the tests of methods share: a training step over given pictures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from hda.batch import Batch
from hda.engine.step import Step
from hda.methods.base import Method
from hda.registry import lookup


@pytest.fixture
def make_step() -> Callable[..., Step]:
    """The engine's step with these very pictures, view after view, in place of drawn and varied ones."""

    def make(method: Method, batch: Batch, setting: str = "uda", lr: float = 0.01, **recipe: float) -> Step:
        sgd = lookup("recipes", "sgd")
        turn = 0

        def vary(_: torch.Tensor) -> torch.Tensor:
            nonlocal turn
            turn += 1
            return batch.images[(turn - 1) % len(batch.images)]

        step = Step(
            method.train(),
            sgd(setting, sgd.Settings(lr=lr, **recipe)),
            vary,
            batch.layout,
            steps=100,
            edge=batch.images[0].shape[-1],
            device=torch.device("cpu"),
        )
        step.labels.copy_(batch.labels)
        step.domains.copy_(batch.domains)
        return step

    return make


@pytest.fixture
def outputs() -> Callable[..., list[torch.Tensor]]:
    """A list that fills with what a module gives, call after call."""

    def watch(module: torch.nn.Module) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []
        module.register_forward_hook(lambda layer, given, result: seen.append(result))
        return seen

    return watch
