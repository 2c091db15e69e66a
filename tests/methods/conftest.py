"""What the tests of methods share: a training step over given pictures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from hda.engine.step import Step
from hda.testing import make_step as make_a_step


@pytest.fixture
def make_step() -> Callable[..., Step]:
    """The engine's step with these very pictures, view after view, in place of drawn and varied ones."""
    return make_a_step


@pytest.fixture
def outputs() -> Callable[..., list[torch.Tensor]]:
    """A list that fills with what a module gives, call after call."""

    def watch(module: torch.nn.Module) -> list[torch.Tensor]:
        seen: list[torch.Tensor] = []
        module.register_forward_hook(lambda layer, given, result: seen.append(result))
        return seen

    return watch
