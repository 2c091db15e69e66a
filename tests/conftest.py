"""What tests of several packages need: the shared data, and a small problem to try methods on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from hda import backbones
from hda.backbones import Backbone
from hda.batch import Batch, Layout
from hda.methods.base import Method
from hda.registry import lookup

SOURCES = {"uda": 1, "msda": 3, "ssda": 1}
DOMAINS = {"uda": 2, "msda": 4, "ssda": 3}
CLASSES = 4
EDGE = 16


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


@pytest.fixture
def backbone() -> Backbone:
    """A network of three layers with the same random weights for every test."""
    return _backbone(0)


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    """Random pictures of every domain, rows in the order source, labelled target, target.

    Called with the setting: "uda", "msda" (three sources, mixed row by row) or "ssda".
    """

    def make(
        setting: str = "uda",
        *,
        batch: int = 3,
        target: int = 4,
        classes: int = CLASSES,
        views: int = 1,
        edge: int = EDGE,
        seed: int = 0,
    ) -> Batch:
        random = torch.Generator().manual_seed(seed)
        sources = SOURCES[setting]
        layout = Layout(batch * sources, batch if setting == "ssda" else 0, target)
        first = 2 if layout.labelled_target else 1
        source = first + torch.arange(layout.source).remainder(sources)
        few = torch.ones(layout.labelled_target, dtype=torch.int64)
        domains = torch.cat([source, few, torch.zeros(target, dtype=torch.int64)])
        images = tuple(torch.randn(layout.rows, 3, edge, edge, generator=random) for _ in range(views))
        labels = torch.randint(classes, (layout.labelled,), generator=random)
        return Batch(images, labels, domains, layout)

    return make


@pytest.fixture
def make_method() -> Callable[..., Method]:
    """A method by name for a setting, on the small backbone; the same weights for the same seed."""

    def make(name: str, setting: str = "uda", *, classes: int = CLASSES, seed: int = 0, **settings: object) -> Method:
        cls = lookup("methods", name)
        backbone = _backbone(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 1)
            return cls(backbone, classes, DOMAINS[setting], cls.Settings(**settings))

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


def _backbone(seed: int) -> Backbone:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return backbones.create("small", "none")
