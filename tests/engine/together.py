"""Several processes that work together, forked from one that has imported everything.

Reads jobs from standard input and answers each on standard output, a line of JSON either way. A job has a `size`, the number
of processes, and either `steps`, a folder for what comes of `CASES`, or `words`, the command line's; `kill` names a process
that dies, `wrong` one that finds a mistake, and after how many steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from hda.backbones import Architecture, Backbone, create
from hda.batch import Layout
from hda.data import augment
from hda.data.strong import Strong
from hda.engine.distributed import World, distribute, joined
from hda.engine.step import Step, build_method, random_numbers
from hda.errors import UserError
from hda.recipes.sgd import SGD
from hda.registry import registered

METHODS = registered("methods")
CLASSES, EDGE, STEPS = 3, 8, 3
LAYOUTS = {"uda": (5, 0, 4), "msda": (6, 0, 5), "ssda": (4, 3, 5)}  # odd numbers too: two processes share them unevenly
DOMAINS = {"uda": 2, "msda": 4, "ssda": 3}
HANG = 120  # seconds after which processes that should have ended are taken to wait for ever
CPU = torch.device("cpu")

# A case is a method, a setting, the kind of backbone, and whether there is dropout.
EVERY = [(name, setting, "plain", False) for name, cls in METHODS.items() for setting in sorted(cls.supports)]
SYNCHRONISED = [("hdan", "uda", "norm", False), ("mcd", "ssda", "norm", False), ("se", "uda", "norm", False)]
CASES = [*EVERY, ("hdan", "uda", "plain", True), ("mcd", "uda", "plain", True), *SYNCHRONISED]


def backbone(kind: str) -> Backbone:
    """Without batch norm; or with ("norm")."""
    if kind == "norm":
        return create("small", "none", size=EDGE)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Tanh(), nn.Conv2d(8, 12, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1))
    net.append(nn.Flatten())
    return Backbone(net, 12, Architecture("plain", EDGE, (0.5,) * 3, (0.5,) * 3), {})


def settings(cls: type, dropout: bool) -> object:
    given = cls.Settings()
    if dropout:
        return given
    rates = {name for name, value in asdict(given).items() if "dropout" in name and isinstance(value, float)}
    return replace(given, **dict.fromkeys(rates, 0.0))


def trained(case: tuple[str, str, str, bool], world: World) -> dict[str, Tensor]:
    """What a method measured in its first steps, and all its state after them."""
    name, setting, kind, dropout = case
    cls = METHODS[name]
    method = build_method(
        cls, lambda: backbone(kind), CLASSES, DOMAINS[setting], settings(cls, dropout), seed=sum(map(ord, name))
    )
    source, few, target = LAYOUTS[setting]
    layout = Layout(source, few, 0 if cls.rows == "labelled" else target)
    share = world.share(layout)
    weak = augment.training("affine", EDGE, (0.5,) * 3, (0.5,) * 3)
    vary, strong = (share.varying(one) if share else one for one in (weak, Strong(weak)))
    step = Step(
        method,
        SGD(setting, SGD.Settings(lr=0.001)),
        vary,
        layout,
        STEPS,
        EDGE,
        CPU,
        strong=strong,
        share=share,
    )
    step.method.train()
    own = share.own if share else slice(None)
    found = {}
    with random_numbers(CPU, 3):
        if share:
            distribute(step, synchronise=kind == "norm")
        pictures = torch.Generator().manual_seed(5)
        for number in range(STEPS):
            drawn = torch.randint(256, (layout.rows, EDGE, EDGE, 3), generator=pictures, dtype=torch.uint8)
            step.pictures.copy_(drawn[own])
            step.labels.copy_(torch.arange(layout.labelled) * 2 % CLASSES)
            sources = (2 if few else 1) + torch.arange(source) % (DOMAINS[setting] - (2 if few else 1))
            step.domains.copy_(torch.cat([sources, torch.ones(few), torch.zeros(layout.target)]))
            step.run()
            found |= {f"{number}.{key}": torch.tensor(value) for key, value in step.measured(1).items()}
    return found | {key: value.contiguous().clone() for key, value in step.tensors().items()}


def label(case: tuple[str, str, str, bool]) -> str:
    name, setting, kind, dropout = case
    return "-".join([name, setting, *(["norm"] if kind == "norm" else []), *(["dropout"] if dropout else [])])


def others(world: World) -> dict[str, Tensor]:
    """The exchanges by themselves."""
    rank = world.place.rank
    norm = nn.BatchNorm1d(2)
    norm.running_mean.copy_(torch.tensor([1.0, 2.0]) * (rank + 1))
    world.even_out(nn.Sequential(nn.Linear(2, 2), norm))
    spread = torch.full((2,), float(rank))
    world.spread([spread])
    share = world.share(Layout(4, 0, 3))
    torch.manual_seed(0)
    dropped = [share.through(noise, torch.ones(share.rows, 8), slice(0, 7)) for _ in range(2)]
    after = torch.rand(2)
    return {
        "looked": torch.from_numpy(world.in_parts(5, look)[0]),
        "single": torch.from_numpy(world.in_parts(1, look)[0]),
        "mean": norm.running_mean,
        "spread": spread,
        "first": torch.tensor(world.from_first(lambda: [rank + 5])),
        "dropped": torch.stack(dropped),
        "after": after,
    }


def look(rows: slice) -> list[Tensor]:
    assert rows.start < rows.stop
    return [torch.arange(rows.start, rows.stop).float()]


def noise(images: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return torch.rand(len(images), 3)


def steps(folder: Path) -> int:
    with joined(CPU) as world:
        rank = world.place.rank
        for case in CASES:
            save_file(trained(case, world), folder / f"{label(case)}.{rank}")
        save_file({key: value.clone() for key, value in others(world).items()}, folder / f"others.{rank}")
    return 0


def before(number: int, act: Callable[[], None]) -> None:
    """Do something after that many steps."""
    run, left = Step.run, iter(range(number, -1, -1))

    def acting(self: Step) -> None:
        if not next(left):
            act()
        run(self)

    Step.run = acting


def wrong() -> None:
    raise UserError("this machine has no such thing")


def do(job: dict, rank: int, port: int) -> int:
    """One process's part of a job."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": job["size"], "LOCAL_WORLD_SIZE": job["size"]}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    if "steps" in job:
        return steps(Path(job["steps"]))
    dying, number = job.get("kill", (None, 0))
    if rank == dying:
        before(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
    failing, number = job.get("wrong", (None, 0))
    if rank == failing:
        before(number, wrong)
    from hda.cli.main import main

    return main(job["words"])


def start(job: dict, rank: int, port: int, out: IO[bytes], err: IO[bytes]) -> int:
    """Fork a process that does its part; its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number, file in enumerate((open(os.devnull), out, err)):  # noqa: SIM115
            os.dup2(file.fileno(), number)
        code = do(job, rank, port)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def answer(job: dict) -> list[dict]:
    """Do a job; how each process ended, and what it printed. One that hangs is killed in the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with contextlib.ExitStack() as open_files:
        files = [[open_files.enter_context(tempfile.TemporaryFile()) for _ in "oe"] for _ in range(job["size"])]
        pids = [start(job, rank, port, *pair) for rank, pair in enumerate(files)]
        killer = threading.Timer(HANG, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
        killer.start()
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
        killer.cancel()
        texts = [[text(file) for file in pair] for pair in files]
    return [{"code": code, "out": out, "err": err} for code, (out, err) in zip(codes, texts, strict=True)]


if __name__ == "__main__":
    import timm  # noqa: F401
    import torch._dynamo
    import torchvision  # noqa: F401

    import hda.cli.commands.fit
    import hda.engine.fit  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
