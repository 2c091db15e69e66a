"""What the engine's tests share: a small task, and processes that can be killed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

APART = Path(__file__).with_name("apart.py")
TIMES = ("seconds", "images_per_second")


def _module():
    spec = importlib.util.spec_from_file_location("apart", APART)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """What is this small is slower on two cores than on one, and much slower on two that others use too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def task():
    """Called with a setting: a scenario of digits, and the answers."""
    return _module().task


@pytest.fixture(scope="session")
def short() -> dict[str, Any]:
    """Settings of a run that is over in a moment."""
    return _module().SHORT


@pytest.fixture(scope="session")
def apart(tmp_path_factory):
    """Called with a job of `apart.py`: does it in a process of its own and says how that ended."""
    if not hasattr(os, "fork"):
        pytest.skip("needs a system that forks")
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # for the jobs that ask for two
    environment = os.environ | threads | {"HDA_CACHE": str(tmp_path_factory.mktemp("cache"))}
    command = [sys.executable, str(APART)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def call(**job: Any) -> SimpleNamespace:
            process.stdin.write(json.dumps(job, default=str) + "\n")
            process.stdin.flush()
            return SimpleNamespace(**json.loads(process.stdout.readline()))

        yield call
        process.stdin.close()


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Path:
    """Two folders of pictures, `dark` and `bright`, of two classes each."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for domain, light in (("dark", 0), ("bright", 80)):
        for channel, name in enumerate(("red", "green")):
            (folder / domain / name).mkdir(parents=True)
            for number in range(6):
                picture = random.integers(light, light + 60, (16, 16, 3))
                picture[..., channel] += 80
                Image.fromarray(picture.astype(np.uint8)).save(folder / domain / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def words(folders):
    """Called with a run's folder and more words: `fit` as the command line is given it."""
    pictures = folders

    def line(out: Path, *more: object, device: str = "cpu", folders: Path = pictures) -> list[str]:
        given = ["fit", "--source", folders / "dark", "--target", folders / "bright", "--evaluate", "--out", out]
        given += ["--backbone", "small", "--weights", "none", "--size", 16, "--batch", 4, "--device", device, *more]
        return [str(word) for word in given]

    return line


@pytest.fixture
def interrupt(tmp_path):
    """Called with words, the beginning of a line to wait for, and a signal to send then: exit code, standard error."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HDA_CACHE": str(tmp_path / "cache")}

    def run(words: list[str], line: str, number: int) -> tuple[int, str]:
        with subprocess.Popen(
            [sys.executable, "-m", "hda", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            pipesize=4096,  # a command that prints more than that after the line cannot end before the signal
        ) as process:
            while not (told := process.stdout.readline()).startswith(line):
                assert told, process.stderr.read()
            process.send_signal(number)
            _, err = process.communicate()
        return process.returncode, err

    return run


@pytest.fixture(scope="session")
def outcome():
    """Called with a run's folder: all that it holds, file by file, but for times and for where it was resumed."""

    def read(folder: Path) -> dict[str, Any]:
        return {
            str(path.relative_to(folder)): _content(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "lock"
        }

    return read


def _content(path: Path) -> Any:
    if path.name == "metrics.jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines() if "event" not in line]
    if path.name in ("state.json", "result.json"):
        return _timeless(json.loads(path.read_text()))
    return path.read_bytes()


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in (*TIMES, "resumed_from")}
