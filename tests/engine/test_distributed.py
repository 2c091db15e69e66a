"""Several processes on one machine: each test looks at what came of real ones."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from hda.engine.distributed import World

TOGETHER = Path(__file__).with_name("together.py")


def _module():
    spec = importlib.util.spec_from_file_location("together", TOGETHER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


together = _module()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """Called with a job of `together.py`: does it in two processes, and says how each ended."""
    if not hasattr(os, "fork"):
        pytest.skip("needs a system that forks")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HDA_CACHE": str(tmp_path_factory.mktemp("cache"))}
    environment["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # as the command sets it, for a PyTorch that is imported after that
    command = [sys.executable, str(TOGETHER)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:

        def run(size: int = 2, **job) -> list[SimpleNamespace]:
            process.stdin.write(json.dumps({"size": size, **job}, default=str) + "\n")
            process.stdin.flush()
            return [SimpleNamespace(**ended) for ended in json.loads(process.stdout.readline())]

        yield run
        process.stdin.close()


def close(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        np.testing.assert_allclose(tensor.numpy(), theirs[name].numpy(), rtol=1e-3, atol=2e-5, err_msg=name)


# The same steps


@pytest.fixture(scope="module")
def shared(processes, tmp_path_factory) -> Path:
    """What two processes made of all cases."""
    folder = tmp_path_factory.mktemp("steps")
    for ended in processes(steps=folder):
        assert (ended.code, ended.err) == (0, "")
    return folder


@pytest.mark.parametrize("case", together.CASES, ids=together.label)
def test_two_processes_take_the_steps_of_one(case, shared):
    first, second = (load_file(shared / f"{together.label(case)}.{rank}") for rank in range(2))
    alone = together.trained(case, World())
    assert any("total" in name for name in alone)
    close(first, alone)
    close(second, alone)
    trained = [name for name in first if name.startswith("method.") and "running" not in name]
    assert all(torch.equal(first[name], second[name]) for name in trained)


def test_the_processes_exchange_what_they_say(shared):
    first, second = (load_file(shared / f"others.{rank}") for rank in range(2))
    for found in (first, second):
        assert found["looked"].tolist() == [0, 1, 2, 3, 4]
        assert found["single"].tolist() == [0]
        assert found["mean"].tolist() == [1.5, 3.0]
        assert found["spread"].tolist() == [0, 0]
        assert found["first"].tolist() == [5]


def test_a_backbone_draws_for_each_process_and_leaves_the_shared_numbers_alone(shared):
    first, second = (load_file(shared / f"others.{rank}") for rank in range(2))
    assert torch.equal(first["dropped"], second["dropped"])  # the rows of both, gathered
    assert first["dropped"].unique().numel() == first["dropped"].numel()  # of no two rows, and no two times, alike
    expected = torch.rand(2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first["after"], expected)
    assert torch.equal(second["after"], expected)


# Whole runs


STEPS = ["--steps", 12, "--checkpoint-every", 3, "--evaluate-every", 5, "--log-every", 1, "--batch", 5, "--json"]
EXACT = [*STEPS, "--target-batch", 4, "--sync-batch-norm"]


@pytest.fixture(scope="module")
def alone(words, tmp_path_factory):
    """The run of one process."""
    import hda
    from hda.cli.main import main

    out = tmp_path_factory.mktemp("alone") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HDA_CACHE", str(out.parent / "cache"))
        assert main(words(out, *EXACT)) == 0
    return hda.Run(out)


def same_run(ours, theirs) -> None:
    close(load_file(ours.path / "model.safetensors"), load_file(theirs.path / "model.safetensors"))
    ours_lines, theirs_lines = ([line for line in run.records if "event" not in line] for run in (ours, theirs))
    assert [line["step"] for line in ours_lines] == [line["step"] for line in theirs_lines]
    for one, other in zip(ours_lines, theirs_lines, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"seconds", "images_per_second"}:
            assert one[name] == pytest.approx(other[name], rel=1e-3, abs=1e-5), name
    predictions = [run.path.joinpath("predictions.csv").read_text().splitlines() for run in (ours, theirs)]
    assert [line.split(",")[:2] for line in predictions[0]] == [line.split(",")[:2] for line in predictions[1]]


def test_torchrun_makes_the_run_of_one_process(alone, words, tmp_path):
    import hda

    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()), "-m", "hda"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HDA_CACHE": str(tmp_path / "cache")}
    ended = subprocess.run(
        [sys.executable, *launch, *words(tmp_path / "run", *EXACT)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=together.HANG,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "steps run on cpu in fp32, eager\n")
    assert sum(line.startswith("target accuracy") for line in ended.stdout.splitlines()) == 1
    assert json.loads(ended.stdout.splitlines()[-1])["steps"] == 12
    same_run(hda.Run(tmp_path / "run"), alone)


@pytest.fixture(scope="module")
def broken(processes, words, tmp_path_factory):
    """A run of two processes, one of which was killed before its eighth step."""
    out = tmp_path_factory.mktemp("broken") / "run"
    return out, processes(words=words(out, *EXACT), kill=(1, 7))


def test_a_killed_process_ends_the_other_with_a_sentence(broken):
    out, (first, second) = broken
    assert second.code == -9
    assert first.code == 1
    assert first.err.splitlines()[1:] == [
        f"hda: process 1 of 2 has ended, and so do the others: `hda fit --resume --out {out}` goes on with it"
    ]


@pytest.mark.parametrize("size", [1, 2])
def test_a_broken_run_goes_on_with_any_number_of_processes(size, broken, alone, processes, tmp_path):
    import hda

    run = shutil.copytree(broken[0], tmp_path / "run")
    for ended in processes(size, words=["fit", "--resume", "--out", run]):
        assert ended.code == 0, ended.err
    assert hda.Run(run).result["resumed_from"] in (3, 6)
    assert hda.Run(run).result["processes"] == size
    same_run(hda.Run(run), alone)


def test_when_the_first_process_dies_another_tells(processes, words, tmp_path):
    first, second = processes(words=words(tmp_path / "run", *EXACT), kill=(0, 2))
    assert first.code == -9
    assert second.code == 1
    assert second.err == (
        "hda: process 0 of 2 has ended, and so do the other processes: "
        f"`hda fit --resume --out {tmp_path / 'run'}` goes on with it\n"
    )


# What is refused


def test_a_mistake_is_told_once(processes, words, tmp_path):
    first, second = processes(words=words(tmp_path / "run", "--stepz", 3))
    assert (first.code, second.code) == (2, 2)
    assert (first.err + second.err).count("hda: unknown option '--stepz'") == 1
    assert (first.err + second.err).count("\n") == 1


def test_too_few_pictures_are_refused_by_all(processes, words, tmp_path):
    first, second = processes(words=words(tmp_path / "run", "--target-batch", 1))
    assert (first.code, second.code) == (2, 2)
    assert [line for line in (first.err + second.err).splitlines() if line.startswith("hda:")] == [
        "hda: --target-batch 1 is too small to be shared by 2 processes, of which each needs a picture of every domain: "
        "give --target-batch 2 or more, or start 1"
    ]
    assert not (tmp_path / "run").exists()


def test_what_one_process_alone_finds_wrong_ends_all(processes, words, tmp_path):
    first, second = processes(words=words(tmp_path / "run", *EXACT), wrong=(1, 2))
    assert (first.code, second.code) == (2, 2)
    assert first.err.splitlines()[1:] == []
    assert second.err == "hda: this machine has no such thing\n"


def test_other_commands_are_refused(processes):
    first, second = processes(words=["list", "methods"])
    assert (first.code, second.code) == (2, 2)
    assert first.out == second.out == ""
    assert first.err + second.err == (
        "hda: `hda list` works in one process: start it without torchrun, or with one process\n"
    )
