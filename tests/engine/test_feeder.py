import mmap
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hda.batch import Layout
from hda.data.samplers import Sampler
from hda.engine import feeder
from hda.engine.feeder import Bank, Feeder, fits

CPU = torch.device("cpu")


@pytest.fixture
def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(256, size=(count, 4, 4, 3)).astype(np.uint8) for count in (5, 1, 7, 3)]


@pytest.fixture
def labels() -> np.ndarray:
    """Of the two sources and the labelled target: 5 + 1 + 7 pictures."""
    return np.random.default_rng(1).integers(3, size=13)


def sampler() -> Sampler:
    return Sampler((5, 1), 7, 3, Layout(4, 2, 3), seed=0)


def buffers(layout: Layout) -> SimpleNamespace:
    """A step as far as the feeder goes."""
    return SimpleNamespace(
        pictures=torch.zeros(layout.rows, 4, 4, 3, dtype=torch.uint8),
        labels=torch.full((layout.labelled,), -1),
        domains=torch.full((layout.rows,), -1),
        layout=layout,
    )


def test_a_bank_is_its_sets_one_after_the_other(arrays):
    bank, whole = Bank(arrays), np.concatenate(arrays)
    rows = np.array([15, 0, 4, 5, 6, 12, 13, 0, 15])
    out = np.zeros((len(rows), 4, 4, 3), dtype=np.uint8)
    bank.gather(rows, out)
    np.testing.assert_array_equal(out, whole[rows])
    assert bank.bytes == whole.nbytes
    assert bank.edge == 4
    assert len(bank) == 16
    np.testing.assert_array_equal(bank.part(4, 14), whole[4:14])  # across three borders


def test_a_bank_goes_to_a_device_whole(arrays):
    arrays.append(np.random.default_rng(2).integers(256, size=(2500, 4, 4, 3)).astype(np.uint8))  # in several pieces
    for array in arrays:
        array.setflags(write=False)  # as a memory map is
    found = Bank(arrays).to(CPU)
    assert found.dtype == torch.uint8
    np.testing.assert_array_equal(found.numpy(), np.concatenate(arrays))


def test_pictures_on_a_cpu_stay_where_they_are(arrays):
    assert not fits(Bank(arrays), CPU, None)
    assert not fits(Bank(arrays), CPU, 100.0)


def test_on_a_gpu_pictures_are_resident_within_the_limit_or_half_of_what_is_free(arrays, monkeypatch):
    bank, cuda = Bank(arrays), torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * bank.bytes, 10**12))
    assert fits(bank, cuda, None)
    assert fits(bank, cuda, bank.bytes / 2**30)
    assert not fits(bank, cuda, (bank.bytes - 1) / 2**30)
    assert not fits(bank, cuda, 0.0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * bank.bytes - 2, 10**12))
    assert not fits(bank, cuda, None)
    assert fits(bank, cuda, 1.0)  # what is asked for counts


@pytest.mark.parametrize("resident", [False, True])
def test_the_buffers_hold_the_sampler_s_batches(resident, arrays, labels):
    bank, whole = Bank(arrays), np.concatenate(arrays)
    feeder = Feeder(sampler(), bank, labels, CPU, bank.to(CPU) if resident else None)
    reference, step = sampler(), buffers(Layout(4, 2, 3))
    places = [step.pictures.data_ptr(), step.labels.data_ptr(), step.domains.data_ptr()]
    assert feeder.state == reference.state()
    for _ in range(5):
        feeder.feed(step)
        drawn = reference.next()
        np.testing.assert_array_equal(step.pictures, whole[drawn.pictures])
        np.testing.assert_array_equal(step.labels, labels[drawn.pictures[:6]])
        np.testing.assert_array_equal(step.domains, drawn.domains)
        assert feeder.state == reference.state()
    assert places == [step.pictures.data_ptr(), step.labels.data_ptr(), step.domains.data_ptr()]
    feeder.close()


def test_feeding_goes_on_from_a_state(arrays, labels):
    bank, layout = Bank(arrays), Layout(4, 2, 3)
    first, step = Feeder(sampler(), bank, labels, CPU, None), buffers(layout)
    for _ in range(3):
        first.feed(step)
    again = sampler()
    again.restore(first.state)
    second, other = Feeder(again, bank, labels, CPU, None), buffers(layout)
    for _ in range(3):
        first.feed(step)
        second.feed(other)
        assert torch.equal(step.pictures, other.pictures)
        assert torch.equal(step.labels, other.labels)


def test_no_target_picture_needs_a_label(arrays, labels):
    # The target's rows come last, behind every label there is: a label read for one would be out of range.
    assert len(labels) == sum(len(array) for array in arrays[:3])
    step = buffers(Layout(4, 2, 3))
    feeder = Feeder(sampler(), Bank(arrays), labels, CPU, None)
    for _ in range(20):
        feeder.feed(step)
        assert step.labels.min() >= 0


def resident_of_files() -> int:
    """Bytes of mapped files in this process's memory."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"^RssFile:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell what is resident")
def test_memory_is_bounded_however_large_the_store_is(tmp_path, monkeypatch):
    monkeypatch.setattr(feeder, "HELD", 2**20)
    shape = (4096, 128, 128, 3)  # 192 MiB
    values = np.memmap(tmp_path / "rows", np.uint8, "w+", shape=shape)
    values[:] = np.arange(4096).astype(np.uint8)[:, None, None, None]
    values.flush()
    del values
    bank, out = Bank([np.memmap(tmp_path / "rows", np.uint8, "r", shape=shape)]), np.empty((16, *shape[1:]), np.uint8)
    before, highest = resident_of_files(), 0
    for rows in np.random.default_rng(0).permutation(4096).reshape(-1, 16):
        bank.gather(rows, out)
        assert (out == (rows % 256)[:, None, None, None]).all()
        highest = max(highest, resident_of_files() - before)
    assert highest < 2**27  # the system maps up to 2 MiB around what is read, so 64 MiB for two reads of 16


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="the system cannot be asked to let go")
def test_what_is_predicted_is_let_go_of_too(tmp_path, monkeypatch):
    monkeypatch.setattr(feeder, "HELD", 100)
    values = np.memmap(tmp_path / "rows", np.uint8, "w+", shape=(6, 4, 4, 3))
    asked = []
    values._mmap = SimpleNamespace(madvise=asked.append)
    assert Bank([values]).part(1, 5).shape == (4, 4, 4, 3)
    assert asked == [mmap.MADV_DONTNEED]
