import pytest
import torch

from hda.engine.device import choose_device, choose_precision, enough_memory, set_arithmetic
from hda.engine.place import Place
from hda.errors import UserError


@pytest.fixture
def gpus(monkeypatch):
    """Called with a number: so many GPUs seem to be there, the first being the current one."""

    def pretend(count: int, capability: tuple[int, int] = (9, 0)) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)

    return pretend


@pytest.mark.parametrize(
    ("count", "name", "expected"),
    [
        (0, "auto", "cpu"),
        (0, "cpu", "cpu"),
        (2, "auto", "cuda:0"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_a_device_is_chosen_by_name(count, name, expected, gpus):
    gpus(count)
    assert choose_device(name) == torch.device(expected)


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:x", "cuda:-1", "mps", "cuda:0:1", "cpu:", "CPU"])
def test_a_name_that_is_no_device_is_refused(name, gpus):
    gpus(2)
    with pytest.raises(UserError) as caught:
        choose_device(name)
    assert str(caught.value) == f"unknown device {name!r}: give auto, cpu, cuda or cuda:N"


@pytest.mark.parametrize(
    ("count", "name", "here"),
    [
        (0, "cuda", "there is none"),
        (0, "cuda:0", "there is none"),
        (2, "cuda:2", "there are 2"),
        (1, "cuda:1", "there"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_the_remedy(count, name, here, gpus):
    gpus(count)
    with pytest.raises(UserError, match=f"device '{name}' needs a GPU that PyTorch can use, and {here}.*--device cpu"):
        choose_device(name)


@pytest.mark.parametrize(
    ("count", "name", "expected"), [(2, "auto", "cuda:1"), (4, "cuda", "cuda:1"), (2, "cpu", "cpu"), (0, "auto", "cpu")]
)
def test_each_of_several_processes_has_a_gpu_of_its_own(count, name, expected, gpus):
    gpus(count)
    assert choose_device(name, place=Place(rank=3, size=4, local=1, neighbours=2)) == torch.device(expected)


def test_fewer_gpus_than_processes_are_refused(gpus):
    gpus(1)
    with pytest.raises(UserError) as caught:
        choose_device("auto", place=Place(rank=1, size=2, local=1, neighbours=2))
    assert str(caught.value) == (
        "2 processes on a machine need as many GPUs, and there are 1: give torchrun --nproc-per-node 1, or --device cpu"
    )


def test_one_gpu_for_several_processes_is_refused(gpus):
    gpus(2)
    with pytest.raises(UserError, match="--device cuda:0 is one GPU for 2 processes: give --device cuda"):
        choose_device("cuda:0", place=Place(rank=1, size=2, local=1, neighbours=2))


def test_a_run_from_elsewhere_falls_back_to_what_is_here(gpus):
    gpus(0)
    assert choose_device("cuda:3", fall_back=True) == torch.device("cpu")
    gpus(1)
    assert choose_device("cuda:3", fall_back=True) == torch.device("cuda:0")
    with pytest.raises(UserError, match="unknown device 'tpu'"):
        choose_device("tpu", fall_back=True)


def test_precision_is_as_asked_or_what_suits_the_device(gpus):
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    gpus(1)
    for name in ("fp32", "tf32", "bf16"):
        assert choose_precision(name, cpu) == choose_precision(name, cuda) == name
    assert choose_precision("auto", cpu) == "fp32"
    for capability, expected in (((9, 0), "bf16"), ((8, 0), "bf16"), ((7, 5), "fp32")):
        gpus(1, capability)
        assert choose_precision("auto", cuda) == expected


def test_fp32_is_exact_and_the_others_may_use_tf32():
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        for name, matmul, tf32 in (("tf32", "high", True), ("fp32", "highest", False), ("bf16", "high", True)):
            set_arithmetic(name)
            assert torch.get_float32_matmul_precision() == matmul
            assert torch.backends.cudnn.allow_tf32 is tf32
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 76800000000 bytes"),
    ],
)
def test_too_little_memory_is_one_sentence(error):
    with (
        pytest.raises(UserError, match=r"^this does not fit into the memory of cpu: give a smaller --batch$"),
        enough_memory(torch.device("cpu"), "give a smaller --batch"),
    ):
        raise error


def test_other_errors_are_not_about_memory():
    with pytest.raises(RuntimeError, match="shapes"), enough_memory(torch.device("cpu"), "give a smaller --batch"):
        raise RuntimeError("shapes do not match")
