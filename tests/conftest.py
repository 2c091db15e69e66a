"""What tests of several packages need: the shared data, and a small problem to try methods on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hda import testing
from hda.backbones import Backbone
from hda.batch import Batch
from hda.methods.base import Method
from hda.registry import lookup


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pictures, weights, lists and golden figures; tests that ask for it skip without it."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("HDA_TEST_DATA") or default)
    if not path.is_dir():
        pytest.skip("the shared data are not there: name their folder in HDA_TEST_DATA")
    return path


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Small networks gain nothing from a second thread, and lose much of their time where the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    """The command lets the package's log be seen; the tests that follow are not to notice."""
    yield
    log = logging.getLogger("hda")
    log.handlers[:], log.level, log.propagate = [], logging.NOTSET, True


@pytest.fixture
def backbone() -> Backbone:
    """A network of three layers with the same random weights for every test."""
    return testing.small_backbone()


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Random pictures of every domain: `hda.testing.make_batch`."""
    return testing.make_batch


@pytest.fixture
def make_method() -> Callable[..., Method]:
    """A method by name for a setting, on the small backbone; the same weights for the same seed."""

    def make(name: str, setting: str = "uda", **options: Any) -> Method:
        return testing.make_method(lookup("methods", name), setting, **options)

    return make


@pytest.fixture
def numeric_gradient() -> Callable[..., np.ndarray]:
    """Central differences of a numpy function of one array, in float64."""

    def gradient(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-6) -> np.ndarray:
        found = np.empty_like(at)
        for place in np.ndindex(at.shape):
            up, down = at.copy(), at.copy()
            up[place] += step
            down[place] -= step
            found[place] = (function(up) - function(down)) / (2 * step)
        return found

    return gradient
