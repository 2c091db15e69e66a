"""How fast a training step is here, beside the bare step of its network and beside a plain loop: in one run, as ratios.

All three see the same pictures in batches of the same size. They are measured in turns, a slice of time each, and of each
the best slice counts: what else the machine does makes a slice slower, never faster.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

import hda
from hda import backbones
from hda import settings as plain_settings
from hda.batch import Batch
from hda.data import augment, pixels
from hda.data.digits import digits
from hda.data.images import Images, read_labelled, read_unlabelled
from hda.data.scenario import Scenario
from hda.demo import METHODS as OF_DEMO
from hda.demo import SETTINGS as DEMO
from hda.demo import STEPS
from hda.engine.device import choose_device, device_name
from hda.engine.feeder import WAITING, Feeder
from hda.engine.material import Material
from hda.engine.reporter import Reporter
from hda.engine.settings import Settings
from hda.engine.step import Step, build_method, prepare, random_numbers
from hda.engine.training import Training
from hda.errors import UserError
from hda.settings import setting

try:
    import resource
except ImportError:  # pragma: no cover - Windows has no such module
    resource = None  # type: ignore[assignment]

SOURCE_ONLY, HDAN = "source-only", "hdan"
PLAIN = (HDAN, SOURCE_ONLY)  # the methods that the plain loop is written for
PHOTOS = 2048  # of each domain
OFFICE_HOME = 65  # classes
TYPED = 4000  # the demo's typed digits
DIFFERENT = 200  # photographs, before they repeat
SCALES = ((50, 0.6), (8, 0.25), (2, 0.15))  # pixels from one random value to the next, and its share
PARTS = ("data", "forward", "backward", "optimiser", "evaluation")
ROUNDS = {"cuda": 30, "cpu": 100}  # on a CPU a short slice is likelier to be undisturbed
Run = Callable[[int], object]  # does that many steps


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is measured; None is the machine's own: the demo's digits on a CPU, a ResNet-50 on photographs on a GPU."""

    backbone: str | None = setting(None, "any timm or torchvision model (auto: small on a CPU, resnet50 on a GPU)")
    batch: int | None = setting(None, "pictures of each domain in a step (auto: 64 for small, 36 for others)")
    method: str = setting("hdan", "domain adaptation method (`hda list methods`)")
    heuristics: int | None = setting(None, "how many heuristic subnetworks (auto: the method's)")
    precision: Literal["auto", "fp32", "tf32", "bf16"] = setting(
        "auto", "arithmetic (auto: bf16 on a GPU, fp32 on a CPU)"
    )
    compile: bool = setting(True, "compile the backbone on a GPU")
    graph: bool = setting(True, "replay the step as one CUDA graph where there is a GPU")
    resident: float | None = setting(None, "GiB of pictures to keep on the GPU (auto: what fits); the rest is streamed")
    device: str = setting("auto", "auto, cpu, cuda or cuda:N")
    pictures: int | None = setting(None, "how many are made of each domain (auto: the demo's, or 2,048 photographs)")
    seconds: float = setting(20.0, "how long to measure; reading and preparing come on top")

    def __post_init__(self) -> None:
        plain_settings.at_least(1, batch=self.batch, pictures=self.pictures)
        plain_settings.at_least(0.1, seconds=self.seconds)

    def settings(self, device: torch.device) -> Settings:
        """The settings of a run of it."""
        backbone = self.backbone or ("resnet50" if device.type == "cuda" else backbones.SMALL)
        of_demo = backbone == backbones.SMALL
        given: dict[str, Any] = {name: DEMO[name] for name in ("augment", "lr", "decay")} if of_demo else {}
        if of_demo and self.method == HDAN:
            given |= next(options for options in OF_DEMO.values() if options["method"] == HDAN)
        given |= {
            "method": self.method,
            "backbone": backbone,
            "weights": "none",
            "batch": self.batch or (DEMO["batch"] if of_demo else 36),
            "steps": STEPS if of_demo else 6002,
            "evaluate_every": DEMO["evaluate_every"] if of_demo else 500,
            "log_every": DEMO["log_every"] if of_demo else 20,
            "precision": self.precision,
            "compile": self.compile,
            "graph": self.graph,
            "resident": self.resident,
            "device": str(device),
        }
        settings = Settings.given(**given)
        if self.heuristics is None:
            return settings
        if "heuristics" not in settings.method:
            raise UserError(f"--heuristics is not a setting of the method {self.method}: leave it out")
        return Settings.given(**given, heuristics=self.heuristics)


def speed(workload: Workload, reporter: Reporter | None = None) -> dict[str, Any]:
    """Measure; the row that `hda speed --json` prints. Rates are pictures a second, memory is in bytes.

    Raises:
        UserError: the workload cannot be run here.
    """
    device, reporter = choose_device(workload.device), reporter or Reporter()
    settings = workload.settings(device)
    load = round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None
    with tempfile.TemporaryDirectory(prefix="hda-speed-") as folder, random_numbers(device, 0):
        scenario = make_pictures(Path(folder), settings, workload.pictures)
        settings = settings.resolve(scenario)
        with _arithmetic_as_it_was():
            found = _ours_and_bare(workload, settings, scenario, device, reporter, Path(folder))
        if settings.fit.method in PLAIN:
            reporter.note("measuring the plain loop")
            found |= _plain_loop(workload, settings, scenario, device)
    return {
        "ours": found["ours"],
        "bare": found["bare"],
        "plain_loop": found.get("plain_loop"),
        "ratio_bare": round(found["ours"] / found["bare"], 3),
        "ratio_plain": round(found["ours"] / found["plain_loop"], 3) if "plain_loop" in found else None,
        "peak_memory": found["peak_memory"],
        "peak_memory_bare": found["peak_memory_bare"],
        "peak_memory_plain": found.get("peak_memory_plain"),
        "share": found["share"],
        "device": device_name(device),
        "cores": pixels.cores(),
        "load": load,
        "backbone": settings.fit.backbone,
        "batch": settings.fit.batch,
        "size": found["size"],
        "precision": found["precision"],
        "mode": found["mode"],
        "resident": found["resident"],
        "method": settings.fit.method,
        "heuristics": settings.method.get("heuristics"),
        "seconds": workload.seconds,
        "hda": hda.__version__,
        "torch": torch.__version__,
    }


def _ours_and_bare(
    workload: Workload, settings: Settings, scenario: Scenario, device: torch.device, reporter: Reporter, folder: Path
) -> dict[str, Any]:
    """Our step and the bare one, in turns."""
    memory = _Memory(device)
    reporter.note("reading the pictures")
    training = _training(settings, scenario, device, folder)
    step, resident = training.step, training.resident
    reporter.note("preparing the step")
    mode = prepare(step, graph=settings.fit.graph, compile=settings.fit.compile is True)
    feeder = Feeder(training.sampler, training.material.bank, training.material.labels, device, resident)
    try:
        ours = _our_steps(step, feeder, settings.fit.log_every)
        ours(3)
        peak = memory.peak()
        memory_of_bare = _Memory(device)
        bare = _bare_steps(settings, training, compiled="compiled" in mode)
        bare(3)
        peak_bare = memory_of_bare.peak()
        reporter.note("measuring the step and the bare step")
        rows = step.layout.rows
        seconds = _in_turns(
            {"ours": ours, "bare": bare},
            workload.seconds * 2 / 3,
            device,
            WAITING + 1 if step.device.type == "cuda" else 1,
        )
        shares = _shares(training, feeder, workload.seconds / 10)
    finally:
        feeder.close()
    return {
        **{name: round(rows / each, 1) for name, each in seconds.items()},
        "peak_memory": peak if resident is None or peak is None else peak - resident.nbytes,
        "peak_memory_bare": peak_bare,
        "share": shares,
        "mode": mode,
        "precision": training.precision,
        "resident": resident is not None,
        "size": step.method.backbone.size,
    }


def _plain_loop(workload: Workload, settings: Settings, scenario: Scenario, device: torch.device) -> dict[str, Any]:
    """The loop of `hda.bench.plain` on the same files."""
    from hda.bench import plain  # brings torchvision's transforms, which take seconds

    gc.collect()  # what was measured before it, and its memory, has gone
    if device.type == "cuda":
        torch.cuda.empty_cache()
    memory, fit = _Memory(device), settings.fit
    backbone = backbones.create(fit.backbone, weights="none")
    look = (backbone.mean, backbone.std)
    edge = augment.store_size(fit.augment, backbone.size)
    vary = plain.affine(edge, *look) if fit.augment == "affine" else plain.crop_flip(edge, backbone.size, *look)
    features = backbone.net.to(memory_format=torch.contiguous_format)
    hdan = fit.method == HDAN
    shape = (settings.method["heuristics"], settings.method["discriminator_width"]) if hdan else (0, 1)
    net = plain.Net(features, backbone.width, len(scenario.classes), *shape).to(device).train()
    optimiser = plain.sgd(net)
    source, parts = scenario.sources[0], [scenario.sources[0].images, *([scenario.target] if hdan else [])]
    workers = max(1, pixels.cores() // len(parts))
    labels = [source.labels.tolist(), [0] * len(scenario.target)]
    loaders = [
        plain.batches(plain.Pictures(_paths(images), known, vary), fit.batch or 0, workers)
        for images, known in zip(parts, labels, strict=False)
    ]
    done = 0

    def run(steps: int) -> None:
        nonlocal done
        for _ in range(steps):
            loaded = [next(loader) for loader in loaders]
            target = loaded[1] if hdan else None
            loss = plain.train(net, optimiser, done, loaded[0], target, contextlib.nullcontext)
            done += 1
            if done % fit.log_every == 0:
                loss.item()  # what it shows its user

    run(1)
    seconds = _in_turns({"plain_loop": run}, workload.seconds / 3, device, settle=2 * workers + 1)
    rows = (fit.batch or 0) * len(parts)
    return {"plain_loop": round(rows / seconds["plain_loop"], 1), "peak_memory_plain": memory.peak()}


def _training(settings: Settings, scenario: Scenario, device: torch.device, folder: Path) -> Training:
    """A run as `hda fit` would begin it, its pictures decoded into a folder of their own."""
    fit, cls = settings.fit, settings.method_class
    method = build_method(
        cls,
        lambda: backbones.create(fit.backbone, weights="none"),
        len(scenario.classes),
        scenario.domains,
        cls.Settings(**settings.method),
        0,
    )
    with _environment(HDA_CACHE=str(folder / "cache")):  # what is generated is not to fill the user's own
        material = Material.read(scenario, None, settings, False, Reporter())
    return Training(folder, settings, material, method, device, Reporter())


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _our_steps(step: Step, feeder: Feeder, log_every: int) -> Run:
    """What the loop of a run does for its steps and their metrics."""
    done = 0

    def run(steps: int) -> None:
        nonlocal done
        for _ in range(steps):
            feeder.feed(step)
            step.run()
            done += 1
            if done % log_every == 0:
                step.measured(log_every)

    return run


def _bare_steps(settings: Settings, training: Training, compiled: bool) -> Run:
    """Forward, backward and update on tensors that are ready, in the arithmetic and launch mode of our step.

    On a GPU it is the backbone with one linear layer on it, and ordinary batch statistics; on a CPU the method itself.
    """
    if training.device.type != "cuda":
        return _bare_method(settings, training)
    return _bare_backbone(settings, training, compiled)


def _bare_method(settings: Settings, training: Training) -> Run:
    step, cls = training.step, settings.method_class
    method = build_method(
        cls,
        lambda: backbones.create(settings.fit.backbone, weights="none"),
        step.method.classes,
        step.method.domains,
        cls.Settings(**settings.method),
        0,
    ).train()
    backbones.use_precision(method, training.precision)
    views = tuple(step.vary(step.pictures) for _ in range(method.views))
    batch = Batch(views, step.labels.clone(), step.domains.clone(), step.layout)
    again = Step(method, step.recipe, step.vary, step.layout, step.progress.steps, training.material.edge, step.device)

    def run(steps: int) -> None:
        for _ in range(steps):
            for phase, parameters in again.phases:
                for _ in range(phase.repeat):
                    total = phase.losses(batch, again.progress).total
                    again.optimiser.zero_grad(set_to_none=True)
                    total.backward(inputs=parameters)  # type: ignore[no-untyped-call]
                    again.optimiser.step()

    return run


def _bare_backbone(settings: Settings, training: Training, compiled: bool) -> Run:
    step, device = training.step, training.device
    backbone = backbones.create(settings.fit.backbone, weights="none").to(device).train()
    backbones.use_precision(backbone, training.precision)
    head = nn.Linear(backbone.width, step.method.classes, device=device)
    optimiser = torch.optim.SGD(
        [*backbone.parameters(), *head.parameters()],
        lr=0.001, momentum=0.9, weight_decay=0.001, nesterov=True, fused=True,
    )  # fmt: skip
    images = step.vary(step.pictures)
    labels = torch.arange(len(images), device=device) % step.method.classes
    if compiled:
        backbone.net.compile(dynamic=False)

    def once() -> None:
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(head(backbone(images)), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    launch = _captured(once, optimiser, device) if step.captured else once

    def run(steps: int) -> None:
        for _ in range(steps):
            launch()

    return run


def _captured(once: Callable[[], None], optimiser: torch.optim.Optimizer, device: torch.device) -> Callable[[], None]:
    """The same as one CUDA graph."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):
            once()
    torch.cuda.current_stream(device).wait_stream(stream)
    optimiser.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    graph = torch.cuda.CUDAGraph()
    # What another thread does, such as the one that streams pictures, is no part of the graph, and no mistake either.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        once()
    return graph.replay


def _in_turns(runs: dict[str, Run], seconds: float, device: torch.device, settle: int) -> dict[str, float]:
    """Seconds a step of each in its best slice of the time.

    Args:
        runs: what to measure, by name.
        seconds: for all of it.
        device: is waited for at both ends of a slice.
        settle: steps after a break that are not counted: what was made ready in the break is used up.
    """
    start, counts, best = time.perf_counter(), dict[str, int](), dict[str, float]()
    for name, run in runs.items():
        run(settle)
        best[name] = _time(run, 3, device) / 3
        counts[name] = max(1, round(seconds / (ROUNDS[device.type] * len(runs)) / best[name]))
    while time.perf_counter() - start < seconds:
        for name, run in runs.items():
            if len(runs) > 1:
                run(settle)
            best[name] = min(best[name], _time(run, counts[name], device) / counts[name])
    return best


def _time(run: Run, steps: int, device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    run(steps)
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _shares(training: Training, feeder: Feeder, seconds: float) -> dict[str, float]:
    """Which share of a run's time each part takes: of steps done part by part, and of evaluation as often as a run's.

    A graph has no parts, so these steps are launched one operation after the other: on a GPU what is small weighs more
    than it does in a graph.
    """
    clock, step = _Clock(training.device), training.step
    every = training.fit.evaluate_every
    with clock.around(step, feeder):
        _wait(training.device)
        start, steps = time.perf_counter(), 0
        while steps < 3 or time.perf_counter() - start < seconds:
            feeder.feed(step)
            step._run()
            steps += 1
        _wait(training.device)
        whole = (time.perf_counter() - start) / steps
    spent = {name: clock.spent[name] / steps for name in ("data", "forward", "optimiser")}
    spent["backward"] = whole - sum(spent.values())
    spent["evaluation"] = _evaluation(training) / every
    total = sum(spent.values())
    return {name: round(spent[name] / total, 4) for name in PARTS}


class _Clock:
    """Seconds spent in parts of a step, the device waited for at both ends of each."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            _wait(self.device)
            start = time.perf_counter()
            result = function(*args, **options)
            _wait(self.device)
            self.spent[part] += time.perf_counter() - start
            return result

        return call

    @contextlib.contextmanager
    def around(self, step: Step, feeder: Feeder) -> Iterator[None]:
        """Within: the parts of that step and its feeder are timed."""
        phases = step.phases
        step.phases = [
            (replace(phase, losses=self.timed("forward", phase.losses)), parameters) for phase, parameters in phases
        ]
        timed = ((step, "vary", "data"), (feeder, "feed", "data"), (step.optimiser, "step", "optimiser"))
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in timed]
        try:
            for owner, name, part in timed:
                setattr(owner, name, self.timed(part, getattr(owner, name)))
            yield
        finally:
            step.phases = phases
            for owner, name, function in before:
                setattr(owner, name, function)


def _evaluation(training: Training) -> float:
    """Seconds that measuring on the target takes once."""

    def once(_: int) -> None:
        training.predictor.predictions()

    once(0)
    return _time(once, 1, training.device)


class _Memory:
    """The most memory in use from its making on: on a GPU beyond what there was then, on a CPU this process's own."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before = device, 0
        if device.type == "cuda":
            gc.collect()
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device)

    def peak(self) -> int | None:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) - self.before
        if resource is None:
            return None
        unit = 1 if sys.platform == "darwin" else 1024
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


@contextlib.contextmanager
def _arithmetic_as_it_was() -> Iterator[None]:
    """Within: what is said about TF32 is forgotten at the end."""
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


# Pictures


def make_pictures(folder: Path, settings: Settings, count: int | None = None) -> Scenario:
    """Files to read: the demo's digits for the demo's network, else as many generated photographs of each domain."""
    source, target = folder / "source", folder / "target"
    if settings.fit.augment == "affine":
        _write_digits(source, target, count)
    else:
        make_photos(source, count or PHOTOS, OFFICE_HOME)
        make_photos(target, count or PHOTOS)
    labelled = read_labelled(source)
    return Scenario((labelled,), read_unlabelled(target), classes=labelled.classes)


def make_photos(folder: Path, count: int, classes: int = 0, sizes: Sequence[tuple[int, int]] = ((256, 256),)) -> Path:
    """JPEGs of smoothed noise, which have as many bytes a pixel as photographs.

    Args:
        folder: is made.
        count: how many; from the 201st on the content is that of an earlier file.
        classes: how many folders they are spread over; 0 puts them into the folder itself.
        sizes: width and height, in turns.
    """
    random, kinds = np.random.default_rng(0), [folder]
    if classes:
        kinds = [folder / f"class-{number:02d}" for number in range(min(classes, count))]
    for kind in kinds:
        kind.mkdir(parents=True)
    contents: list[bytes] = []
    for i in range(count):
        if i < DIFFERENT:
            file = io.BytesIO()
            _photo(random, *sizes[i % len(sizes)]).save(file, "JPEG", quality=85)
            contents.append(file.getvalue())
        (kinds[i % len(kinds)] / f"{i:06d}.jpg").write_bytes(contents[i % DIFFERENT])
    return folder


def _photo(random: np.random.Generator, width: int, height: int) -> Image.Image:
    picture = np.zeros((height, width, 3))
    for step, share in SCALES:
        grid = random.integers(0, 256, (height // step + 1, width // step + 1, 3), dtype=np.uint8)
        picture += share * np.asarray(Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC))
    return Image.fromarray(picture.astype(np.uint8))


def _write_digits(source: Path, target: Path, count: int | None) -> None:
    scenario, _ = digits(count or TYPED)
    typed, written = scenario.sources[0], scenario.target
    target.mkdir()
    for i in range(len(typed)):
        kind = source / scenario.classes[typed.labels[i]]
        kind.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(typed.images.array(i))).save(kind / f"{i:04d}.png")
    for i in range(min(len(written), count or len(written))):
        Image.fromarray(np.asarray(written.array(i))).save(target / f"{i:04d}.png")


def _paths(images: Images) -> list[Path | bytes]:
    return [Path(images.where(i)) for i in range(len(images))]
