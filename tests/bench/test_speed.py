import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from hda.bench import plain
from hda.bench import speed as module
from hda.bench.speed import Workload, speed
from hda.errors import UserError

TINY = {"pictures": 24, "batch": 4, "seconds": 0.2, "device": "cpu"}


@pytest.fixture
def settings():
    def make(**options):
        return Workload(**options).settings(torch.device("cpu"))

    return make


def test_a_method_that_the_plain_loop_does_not_know():
    row = speed(Workload(method="mcd", **TINY))
    assert (row["plain_loop"], row["ratio_plain"], row["heuristics"]) == (None, None, None)
    assert row["ratio_bare"] > 0


def test_source_only_sees_the_source_alone(monkeypatch):
    seen = []
    real = plain.train
    monkeypatch.setattr(plain, "train", lambda *args: seen.append(args[4]) or real(*args))
    assert speed(Workload(method="source-only", **TINY))["plain_loop"] > 0
    assert set(seen) == {None}


def test_photographs_for_other_networks(tmp_path, settings):
    chosen = settings(backbone="resnet18")
    assert (chosen.fit.batch, chosen.fit.augment) == (36, "crop-flip")
    scenario = module.make_pictures(tmp_path, chosen, 70)
    assert (len(scenario.sources[0]), len(scenario.target), len(scenario.classes)) == (70, 70, 65)
    assert scenario.target.read(0)[:2] == b"\xff\xd8"


def test_photographs_are_as_large_as_they_are_asked_for(tmp_path):
    folder = module.make_photos(tmp_path / "photos", 3, sizes=((40, 30), (30, 40)))
    sizes = [Image.open(io.BytesIO(path.read_bytes())).size for path in sorted(folder.iterdir())]
    assert sizes == [(40, 30), (30, 40), (40, 30)]


def test_the_demo_s_settings_are_those_of_its_network(settings):
    chosen = settings()
    assert (chosen.fit.backbone, chosen.fit.batch, chosen.fit.augment) == ("small", 64, "affine")
    assert chosen.method["discriminator_width"] == 256
    assert settings(heuristics=5).method["heuristics"] == 5


def test_the_best_slice_counts(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock.now)
    paces = {"ours": iter([3.0, 2.0, 5.0]), "bare": iter([1.0, 4.0, 0.5])}
    pace = {}

    def run_of(name):
        def run(steps):
            if steps != 1:  # a timed slice begins after the steps that settle
                pace[name] = next(paces[name], 9.0)
                clock.now += steps * pace[name]

        return run

    runs = {name: run_of(name) for name in paces}
    found = module._in_turns(runs, 4000.0, torch.device("cpu"), 1)
    assert found == {"ours": 2.0, "bare": 0.5}


def test_a_gpu_that_is_not_there():
    count = torch.cuda.device_count()
    with pytest.raises(UserError, match="needs a GPU"):
        speed(Workload(device=f"cuda:{count}"))


def test_both_ways_of_the_bare_step_train(settings, tmp_path):
    chosen = settings(batch=4, compile=False)
    scenario = module.make_pictures(tmp_path, chosen, 24)
    chosen = chosen.resolve(scenario)
    training = module._training(chosen, scenario, torch.device("cpu"), tmp_path)
    assert np.unique(training.material.bank.arrays[0]).size > 2
    module._bare_method(chosen, training)(2)
    module._bare_backbone(chosen, training, compiled=False)(2)
