"""What only a GPU can show. These run where there is one; the figures they gave are in benchmarks/results."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import hda
from hda.batch import Layout
from hda.data.digits import digits
from hda.data.samplers import Sampler
from hda.engine.feeder import Bank, Feeder
from hda.engine.reporter import Reporter
from hda.engine.step import kept
from hda.registry import lookup, registered

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

SHORT = {"backbone": "small", "weights": "none", "size": 32, "augment": "affine", "batch": 16, "log_every": 5}


@pytest.fixture(autouse=True)
def _no_kept_step():
    kept.take(None)
    yield
    kept.take(None)


@pytest.fixture(scope="module")
def scenario():
    return digits(400)[0]


def weights(run: hda.Run) -> dict[str, torch.Tensor]:
    return load_file(run.path / "model.safetensors")


def assert_close(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], tolerance: float) -> None:
    assert a.keys() == b.keys()
    for name in a:
        if a[name].is_floating_point():
            scale = a[name].abs().max().clamp_min(1e-2)
            assert ((a[name] - b[name]).abs().max() / scale).item() < tolerance, name


@pytest.mark.parametrize("method", sorted(registered("methods")))
def test_a_captured_step_does_what_the_eager_one_does(method, scenario, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="hda"):
        options = {**SHORT, "method": method, "steps": 10, "precision": "fp32", "compile": False}
        eager = hda.fit(scenario, out=tmp_path / "eager", graph=False, **options)
        graph = hda.fit(scenario, out=tmp_path / "graph", graph=True, **options)
    assert [message.rpartition(", ")[2] for message in caplog.messages] == ["eager", "graph"]
    assert_close(weights(eager), weights(graph), 2e-3)
    for before, after in zip(eager.records, graph.records, strict=True):
        assert before["total"] == pytest.approx(after["total"], rel=1e-3, abs=1e-4)


def test_a_step_that_waits_for_the_host_runs_eagerly_and_like_any_other(scenario, tmp_path, monkeypatch, caplog):
    hdan = lookup("methods", "hdan")
    losses, options = hdan.losses, {**SHORT, "steps": 10, "precision": "fp32", "compile": False}
    eager = hda.fit(scenario, out=tmp_path / "eager", graph=False, **options)

    def waiting(self, batch, progress):
        found = losses(self, batch, progress)
        found.total.item()
        return found

    monkeypatch.setattr(hdan, "losses", waiting)
    with caplog.at_level(logging.INFO, logger="hda"):
        fallen = hda.fit(scenario, out=tmp_path / "fallen", graph=True, **options)
    assert caplog.messages[0].startswith("the step cannot be recorded as a CUDA graph and runs eager: ")
    assert caplog.messages[1].endswith("fp32, eager")
    assert_close(weights(eager), weights(fallen), 2e-3)


@pytest.mark.parametrize("method", ["hdan", "mcd"])
def test_compiled_bf16_follows_fp32(method, scenario, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="hda"):
        options = {**SHORT, "method": method, "steps": 10}
        fine = hda.fit(scenario, out=tmp_path / "fp32", graph=False, precision="fp32", compile=False, **options)
        fast = hda.fit(scenario, out=tmp_path / "bf16", precision="bf16", compile=True, **options)
    assert caplog.messages[-1].endswith("bf16, compiled graph")
    assert fast.records[-1]["total"] == pytest.approx(fine.records[-1]["total"], rel=0.1, abs=0.05)


class StoppedError(Exception):
    pass


class StopAt(Reporter):
    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int) -> None:
        if step == self.step:
            raise StoppedError


@pytest.mark.parametrize("resident", [None, 0.0])
def test_a_resumed_run_is_the_run_never_stopped(resident, scenario, tmp_path):
    options = {**SHORT, "steps": 20, "checkpoint_every": 8, "log_every": 5, "precision": "fp32", "resident": resident}
    whole = hda.fit(scenario, out=tmp_path / "whole", **options)
    with pytest.raises(StoppedError):
        hda.fit(scenario, out=tmp_path / "stopped", reporter=StopAt(13), **options)
    kept.take(None)
    resumed = hda.fit(scenario, out=tmp_path / "stopped", resume=True, **options)
    assert resumed.result["resumed_from"] == 8
    assert_close(weights(whole), weights(resumed), 2e-3)
    records = [record for record in resumed.records if "event" not in record]
    for before, after in zip(whole.records, records, strict=True):
        assert before["total"] == pytest.approx(after["total"], rel=1e-3, abs=1e-4)


def test_a_killed_process_goes_on(words, interrupt, tmp_path):
    often = ("--steps", 200, "--evaluate-every", 1, "--checkpoint-every", 10, "--log-every", 5, "--precision", "fp32")
    run, whole = (words(tmp_path / name, *often, device="cuda") for name in ("run", "whole"))
    assert interrupt(run, "step 25 of 200: target accuracy", signal.SIGKILL)[0] == -signal.SIGKILL
    assert interrupt([*run, "--resume"], "step 60 of 200: target accuracy", signal.SIGKILL)[0] == -signal.SIGKILL
    for command in ([*run, "--resume", "--json"], whole):
        ended = subprocess.run([sys.executable, "-m", "hda", *command], capture_output=True, text=True, check=True)
        if "--json" in command:
            assert json.loads(ended.stdout.splitlines()[-1])["resumed_from"] >= 50
    ours, theirs = hda.Run(tmp_path / "run"), hda.Run(tmp_path / "whole")
    assert_close(weights(theirs), weights(ours), 5e-2)  # differences in the last digit grow over 200 steps
    before, after = (run.curve("total") for run in (theirs, ours))
    assert before[0].tolist() == after[0].tolist()
    np.testing.assert_allclose(before[1], after[1], rtol=5e-2, atol=1e-2)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_random_numbers_of_the_gpu_are_left_alone(device, scenario, tmp_path):
    torch.cuda.manual_seed(5)
    before = torch.cuda.get_rng_state()
    hda.fit(scenario, out=tmp_path / "run", **SHORT, steps=5, device=device)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def small_feeder(bank: Bank) -> Feeder:
    sampler = Sampler((7,), 0, 5, Layout(3, 0, 2), seed=0)
    return Feeder(sampler, bank, np.arange(7), torch.device("cuda", torch.cuda.current_device()), None)


def buffers() -> SimpleNamespace:
    """A step as far as the feeder goes."""
    pictures = torch.zeros(5, 4, 4, 3, dtype=torch.uint8, device="cuda")
    labels, domains = (torch.zeros(count, dtype=torch.int64, device="cuda") for count in (3, 5))
    return SimpleNamespace(pictures=pictures, labels=labels, domains=domains, layout=Layout(3, 0, 2))


def test_what_is_gathered_ahead_is_fed_in_order_and_does_not_count_as_fed():
    whole = np.random.default_rng(0).integers(256, size=(12, 4, 4, 3)).astype(np.uint8)
    feeder, step = small_feeder(Bank([whole[:7], whole[7:]])), buffers()
    reference = Sampler((7,), 0, 5, Layout(3, 0, 2), seed=0)
    for _ in range(20):
        assert feeder.state == reference.state()
        feeder.feed(step)
        drawn = reference.next()
        np.testing.assert_array_equal(step.pictures.cpu(), whole[drawn.pictures])
        np.testing.assert_array_equal(step.labels.cpu(), drawn.pictures[:3])
    feeder.close()


def test_an_error_while_gathering_ahead_is_raised_where_training_waits(monkeypatch):
    def broken(self, rows, out):
        raise KeyError("gone")

    monkeypatch.setattr(Bank, "gather", broken)
    feeder = small_feeder(Bank([np.zeros((7, 4, 4, 3), np.uint8), np.zeros((5, 4, 4, 3), np.uint8)]))
    with pytest.raises(KeyError, match="gone"):
        feeder.feed(buffers())
    feeder.close()


def test_a_second_task_uses_the_step_of_the_first(scenario, tmp_path, caplog):
    options = {**SHORT, "steps": 10, "precision": "fp32"}
    alone = hda.fit(scenario, out=tmp_path / "alone", seed=1, **options)
    kept.take(None)
    with caplog.at_level(logging.INFO, logger="hda"):
        hda.fit(scenario, out=tmp_path / "first", seed=0, **options)
        second = hda.fit(scenario, out=tmp_path / "second", seed=1, **options)
    assert caplog.messages[-1].endswith("the graph of an earlier run")
    assert_close(weights(alone), weights(second), 2e-3)


def test_a_run_predicts_the_same_on_the_cpu(scenario, tmp_path: Path):
    run = hda.fit(scenario, out=tmp_path / "run", **SHORT, steps=30, precision="fp32")
    here, there = (run.predict(scenario.target.select(range(64)), device=name) for name in ("cuda", "cpu"))
    torch.testing.assert_close(
        torch.from_numpy(here.probabilities), torch.from_numpy(there.probabilities), atol=1e-3, rtol=0
    )
