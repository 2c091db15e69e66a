import json
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from hda.backbones import create
from hda.batch import Layout
from hda.engine import checkpoint
from hda.engine.checkpoint import Checkpoint, Writer, capture, latest, load, restore, save
from hda.engine.step import Step, build_method
from hda.errors import UserError
from hda.recipes.adamw import AdamW
from hda.registry import lookup

LAYOUT = Layout(4, 0, 4)
SAMPLER = {"step": 7, "positions": [28, 0, 28]}


def new_step(seed: int = 0, method: str = "se") -> Step:
    cls = lookup("methods", method)
    built = build_method(cls, lambda: create("small", "none"), 3, 2, cls.Settings(), seed)
    step = Step(built, AdamW("uda"), vary, LAYOUT, 20, 8, torch.device("cpu"))
    step.method.train()
    random = torch.Generator().manual_seed(9)
    step.pictures.copy_(torch.randint(256, step.pictures.shape, generator=random))
    step.labels.copy_(torch.tensor([0, 1, 2, 0]))
    step.domains.copy_(torch.tensor([1] * 4 + [0] * 4))
    return step


def vary(pictures: torch.Tensor) -> torch.Tensor:
    """Pictures with noise from the global random state, as augmentations have."""
    planes = pictures.permute(0, 3, 1, 2) / 255
    return planes + 0.1 * torch.randn_like(planes)


def trained(steps: int) -> Step:
    torch.manual_seed(1)
    step = new_step()
    for _ in range(steps):
        step.run()
    return step


def blank(step: int = 3, **tensors: torch.Tensor) -> Checkpoint:
    return Checkpoint(
        step, {"method.weight": torch.ones(2), "progress.iteration": torch.zeros(()), **tensors}, {"step": step}
    )


def same(ours: dict, theirs: dict) -> bool:
    return ours.keys() == theirs.keys() and all(
        ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name]) for name in ours
    )


# There and back


def test_a_step_goes_on_from_the_disk_bit_for_bit(tmp_path):
    step = trained(3)
    save(tmp_path, capture(3, step, SAMPLER, 2, 1.5))
    for _ in range(2):
        step.run()
    state, random, means = step.tensors(), torch.get_rng_state(), step.measured(5)

    torch.manual_seed(99)
    other = new_step(seed=5)
    found = load(latest(tmp_path))
    assert (found.step, found.plain["sampler"], found.plain["summed"], found.plain["seconds"]) == (3, SAMPLER, 2, 1.5)
    restore(found, other)
    for _ in range(2):
        other.run()
    assert same(other.tensors(), state)
    assert torch.equal(torch.get_rng_state(), random)
    assert other.measured(5) == means


def test_a_step_that_has_already_run_can_be_put_back_too(tmp_path):
    step = trained(3)
    saved = capture(3, step, SAMPLER, 3, 0.0)
    step.run()
    state = {name: tensor.clone() for name, tensor in step.tensors().items()}
    restore(saved, step)
    step.run()
    assert same(step.tensors(), state)


def test_what_is_captured_is_a_copy(tmp_path):
    step = trained(1)
    saved = capture(1, step, SAMPLER, 1, 0.0)
    before = {name: tensor.clone() for name, tensor in saved.tensors.items()}
    step.run()
    assert same(saved.tensors, before)
    assert not same({name: before[name] for name in step.tensors()}, step.tensors())


def test_everything_that_training_depends_on_is_captured():
    saved = capture(2, trained(2), SAMPLER, 2, 0.0)
    parts = {name.partition(".")[0] for name in saved.tensors}
    assert parts == {"method", "optimiser", "progress", "measured", "random"}
    assert saved.tensors["progress.iteration"] == 2
    for name in ("backbone.net.0.weight", "head.linear.bias"):
        for key in ("exp_avg", "exp_avg_sq", "step"):
            assert f"optimiser.{name}.{key}" in saved.tensors
    assert "method.teacher_backbone.module.net.2.running_mean" in saved.tensors
    assert set(saved.model) == set(new_step().method.state_dict())


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_every_kind_of_tensor_comes_back_as_it_was(kind, tmp_path):
    values = torch.arange(24).reshape(2, 3, 4).to(kind)
    odd = {
        "optimiser.scalar": values[0, 0, 1],
        "optimiser.empty": values[:0],
        "optimiser.strided": values.transpose(0, 2)[::2],
        "method.last": torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    }
    save(tmp_path, blank(**odd))
    assert same(load(latest(tmp_path)).tensors, blank(**odd).tensors)


def test_values_that_are_not_finite_come_back_too(tmp_path):
    odd = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0, 1e-45])
    save(tmp_path, blank(**{"measured.sums": odd}))
    found = load(latest(tmp_path)).tensors["measured.sums"]
    assert found.numpy().tobytes() == odd.numpy().tobytes()


def test_tied_weights_are_written_once_each(tmp_path):
    shared = torch.rand(3)
    save(tmp_path, blank(**{"method.one": shared, "method.other": shared}))
    found = load(latest(tmp_path)).tensors
    assert torch.equal(found["method.one"], found["method.other"])
    assert found["method.one"].data_ptr() != found["method.other"].data_ptr()


# What lies on the disk


def tensors_by_hand(path: Path) -> dict[str, np.ndarray]:
    """A safetensors file read after its specification: 8 bytes of length, a JSON header, raw values."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    kinds = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}
    values, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        assert start == end  # no byte that the header does not account for
        end = stop
        part = raw[8 + length + start : 8 + length + stop]
        values[name] = np.frombuffer(part, kinds[entry["dtype"]]).reshape(entry["shape"])
    assert 8 + length + end == len(raw)
    return values


def test_a_checkpoint_is_raw_tensors_and_json_and_nothing_that_could_run(tmp_path):
    step = trained(2)
    save(tmp_path, capture(2, step, SAMPLER, 2, 0.25))
    (folder,) = tmp_path.iterdir()
    assert folder.name == "step-00000002"
    assert sorted(path.name for path in folder.iterdir()) == [
        "model.safetensors",
        "state.json",
        "training.safetensors",
    ]
    state = json.loads((folder / "state.json").read_text())
    assert state == {"step": 2, "sampler": SAMPLER, "summed": 2, "seconds": 0.25, "names": step.names}
    model, training = (tensors_by_hand(folder / f"{name}.safetensors") for name in ("model", "training"))
    for name, tensor in step.method.state_dict().items():
        np.testing.assert_array_equal(model[name], tensor.numpy())
    assert model.keys() == step.method.state_dict().keys()
    np.testing.assert_array_equal(training["random.cpu"], torch.get_rng_state().numpy())
    assert training["progress.iteration"] == 2


def test_only_the_newest_is_kept(tmp_path):
    for number in (5, 10, 100_000_000):
        save(tmp_path, blank(number))
        assert [path.name for path in tmp_path.iterdir()] == [f"step-{number:08d}"]
    assert load(latest(tmp_path)).step == 100_000_000


def test_the_latest_is_the_one_of_the_highest_step(tmp_path):
    assert latest(tmp_path / "nowhere") is None
    assert latest(tmp_path) is None
    for name in ("step-00000009", "step-00000010", "step-00000002", ".step-00000011.99.tmp"):
        (tmp_path / name).mkdir()
    assert latest(tmp_path).name == "step-00000010"


def test_a_checkpoint_that_is_there_is_not_written_again(tmp_path):
    save(tmp_path, blank(3))
    before = {path: path.stat().st_ino for path in tmp_path.rglob("*")}
    save(tmp_path, blank(3))
    assert {path: path.stat().st_ino for path in tmp_path.rglob("*")} == before


def test_the_older_one_stays_until_the_newer_one_is_whole(tmp_path, monkeypatch):
    save(tmp_path, blank(1))

    def full(tensors, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(UserError, match=r"step-00000002 cannot be written \(.*No space left.*\): make room") as caught:
        save(tmp_path, blank(2))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    assert load(latest(tmp_path)).step == 1


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(UserError, match="checkpoints/step-00000001 cannot be written"):
        save(tmp_path / "checkpoints", blank(1))


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_checkpoint_is_named(name, damage, tmp_path):
    save(tmp_path, blank(1))
    path = tmp_path / "step-00000001" / name
    os.truncate(path, 5) if damage == "cut" else path.unlink()
    with pytest.raises(UserError, match=r"the checkpoint .*step-00000001 is damaged \(.*\): begin anew"):
        load(latest(tmp_path))


# In the background


def test_the_writer_writes_one_after_the_other_and_waits(tmp_path):
    writer = Writer(tmp_path)
    for number in (1, 2, 3):
        writer.save(blank(number))
    writer.wait()
    assert load(latest(tmp_path)).step == 3
    writer.save(blank(4))
    writer.close()
    assert load(latest(tmp_path)).step == 4


def test_training_goes_on_while_the_writer_writes(tmp_path, monkeypatch):
    began, may_end = threading.Event(), threading.Event()

    def slow(folder, saved):
        began.set()
        assert may_end.wait(60)
        save(folder, saved)

    monkeypatch.setattr(checkpoint, "save", slow)
    writer = Writer(tmp_path)
    writer.save(blank(1))
    assert began.wait(60)
    assert latest(tmp_path) is None  # save has returned, and nothing is written yet
    may_end.set()
    writer.close()
    assert load(latest(tmp_path)).step == 1


@pytest.mark.parametrize("then", ["save", "wait", "close"])
def test_an_error_of_the_writer_is_told_at_the_next_call_and_once(then, tmp_path):
    (tmp_path / "checkpoints").write_text("a file")
    writer = Writer(tmp_path / "checkpoints")
    writer.save(blank(1))
    call = {"save": lambda: writer.save(blank(2)), "wait": writer.wait, "close": writer.close}[then]
    with pytest.raises(UserError, match="cannot be written"):
        call()
    writer.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        writer.save(blank(3))
