"""A grid that takes seconds: tiny pictures laid out as Office-Home's tars, the small backbone, a few steps."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

CLASSES = {"Alarm_Clock": (180, 70, 60), "Backpack": (70, 160, 80), "Bike": (70, 80, 180)}
QUICK = (
    *("backbone=small", "weights=none", "size=16", "augment=affine", "steps=12", "batch=3", "device=cpu"),
    *("log_every=4", "evaluate_every=6", "checkpoint_every=3"),
)
GRID = """
from hda.bench import Grid

GRID = Grid(
    tasks=["office-home:Art->Clipart", "office-home:Clipart->Art"],
    methods={"hdan": {}, "hdan M=1": {"heuristics": 1}, "source-only": {}},
    seeds=[0],
    settings=SETTINGS,
)
"""


def write_domain(path: Path, seed: int, count: int, noise: float = 70) -> None:
    """A tar of class folders with pictures of a mean colour a class, strongly disturbed, so that accuracies differ."""
    random = np.random.default_rng(seed)
    with tarfile.open(path, "w") as tar:
        for name, colour in CLASSES.items():
            for number in range(1, count + 1):
                picture = (
                    np.array(colour) * (0.7 + 0.2 * seed)
                    + random.normal(0, noise, (3,))
                    + random.normal(0, 20, (18, 18, 3))
                )
                data = io.BytesIO()
                Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(data, "PNG")
                member = tarfile.TarInfo(f"{path.stem}/{name}/{number:05d}.png")
                member.size = data.tell()
                tar.addfile(member, io.BytesIO(data.getvalue()))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder with three of Office-Home's four domains, as far as names go."""
    root = tmp_path_factory.mktemp("office-home")
    for seed, name in enumerate(("art", "clipart", "product")):
        write_domain(root / f"office_home_{name}.tar", seed, 6 + seed)
    return root


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Decoded pictures, once for all tests."""
    monkeypatch.setenv("HDA_CACHE", str(tmp_path_factory.getbasetemp() / "bench-cache"))
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def grid(tmp_path):
    """A grid of one's own: two tasks, three methods, one seed."""
    settings = dict(word.split("=") for word in QUICK)
    path = tmp_path / "my_grid.py"
    path.write_text(GRID.replace("SETTINGS", repr(settings)))
    return path


@pytest.fixture(scope="session")
def forked():
    """Called with words and, perhaps, seconds: the command, killed after that long; its exit code, None where killed."""
    script = Path(__file__).with_name("forked.py")
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def call(*words: object, after: float | None = None) -> dict:
            process.stdin.write(json.dumps({"words": [str(word) for word in words], "after": after}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield call
        process.stdin.close()


@pytest.fixture(scope="session")
def told():
    """Called with rows: what they say of the runs, by identity, without what differs from time to time."""
    passing = ("seconds", "images_per_second", "peak_memory")

    def tell(rows):
        return {row["identity"]: {k: v for k, v in row.items() if k not in passing} for row in rows}

    return tell
