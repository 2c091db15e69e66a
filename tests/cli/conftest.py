"""Small photos that no published dataset has, and the command `hda` called with words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hda.cli.main import main

COLOURS = {"apple": (190, 40, 40), "leaf": (50, 150, 60), "sea": (40, 70, 180)}
NETWORK = ("--backbone", "small", "--weights", "none", "--size", "32", "--device", "cpu")
QUICK = (*NETWORK, "--steps", "2", "--batch", "4")


@dataclass(frozen=True)
class Outcome:
    """What a command returned and wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The object on the last line of standard output."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def sentence(self) -> str:
        """What a mistake was answered with: one line on standard error and nothing else, exit code 2."""
        assert self.code == 2
        assert self.err.startswith("hda: ")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("hda: ").rstrip("\n")


@pytest.fixture(scope="session")
def album(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of JPEGs: photos, drawings, few (class folders), flat and new (none)."""
    root = tmp_path_factory.mktemp("album")
    random = np.random.default_rng(0)
    for folder, count, flat in (("photos", 4, False), ("drawings", 3, False), ("few", 1, False), ("flat", 2, True)):
        for name, colour in COLOURS.items():
            for number in range(count):
                path = root / folder / (f"{number}-{name[0]}.jpg" if flat else f"{name}/{number}.jpg")
                path.parent.mkdir(parents=True, exist_ok=True)
                _photo(colour, random).save(path, quality=85)
    (root / "new").mkdir()
    _photo(COLOURS["sea"], random).save(root / "new" / "beach.jpg")
    _photo(COLOURS["leaf"], random).save(root / "new" / "tree.png")
    return root


@pytest.fixture
def here(album: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the album, as the current folder; decoded pictures are kept outside of it."""
    folder = tmp_path / "here"
    shutil.copytree(album, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HDA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture
def hda(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the command in this process: `hda("list", "methods")`."""

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def trained(album: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on the album's photos and its flat folder, made by the command; do not write there."""
    out = tmp_path_factory.mktemp("trained") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(album)
        patch.setenv("HDA_CACHE", str(out.parent / "cache"))
        assert main(["fit", "--source", "photos", "--target", "flat", "--out", str(out), *QUICK]) == 0
    return out


@pytest.fixture
def run(trained: Path, here: Path) -> Path:
    """A copy of the trained run, beside the album's copy."""
    shutil.copytree(trained, here / "run")
    return Path("run")


def _photo(colour: tuple[int, int, int], random: np.random.Generator) -> Image.Image:
    height, width = random.integers(36, 80, 2)
    noise = random.normal(0, 30, (height, width, 3))
    return Image.fromarray((np.array(colour) + noise).clip(0, 255).astype(np.uint8))
