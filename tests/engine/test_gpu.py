"""What only a GPU can show. These run where there is one; the figures they gave are in benchmarks/results."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import hda
from hda.data.digits import digits
from hda.engine.reporter import Reporter
from hda.engine.step import kept
from hda.registry import registered

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
