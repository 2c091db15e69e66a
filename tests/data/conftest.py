"""What tests of datasets share: small trees of pictures that are there, and, where they are decoded, whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def plant() -> Callable[..., Path]:
    """Called with a folder and names: empty files of these names."""

    def make(folder: Path, names: Iterable[str]) -> Path:
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return folder

    return make


@pytest.fixture
def paint() -> Callable[..., Path]:
    """Called with a folder and names: pictures of 16 x 16 whose colour goes with the class folder's name."""

    def make(folder: Path, names: Iterable[str]) -> Path:
        random = np.random.default_rng(0)
        for name in names:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 80, (16, 16, 3))
            pixels[..., sum(map(ord, path.parent.name)) % 3] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(path)
        return folder

    return make
