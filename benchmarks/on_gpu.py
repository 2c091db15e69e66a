r"""Everything about speed that a GPU has to show, most telling first, one line of JSON for each measurement.

    python benchmarks/on_gpu.py --data FOLDER --budget 1500

Rows are added to `benchmarks/results/speed.jsonl`, `decode.jsonl` and `office_home_speed.jsonl`. A measurement that fails is
told and does not stop the others; what does not fit into the budget is listed at the end, to be named with `--only`. FOLDER
holds `office_home_<domain>.tar` for each domain and the weights; without it the measurements on real pictures are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


@dataclass(frozen=True)
class Measurement:
    """One command, and about how many seconds it needs."""

    name: str
    seconds: float
    words: Sequence[str]
    file: str  # of the results
    real: bool = False  # whether it needs the folder of real pictures


def measurements(args: argparse.Namespace) -> list[Measurement]:
    speed = ["-m", "hda", "speed", "--json", *args.speed.split()]
    tasks = [str(HERE / "on_gpu.py"), "--tasks", "--data", str(args.data), *(["--tiny"] if args.tiny else [])]

    def of_speed(name: str, *words: str, seconds: float = 75.0) -> Measurement:
        return Measurement(name, seconds, [*speed, *words], "speed.jsonl")

    def run(name: str, seed: int, *words: str, seconds: float = 180.0) -> Measurement:
        return Measurement(name, seconds, [*tasks, "--seed", str(seed), *words], "office_home_speed.jsonl", real=True)

    cache = ("--compile-cache", tempfile.mkdtemp(prefix="hda-inductor-"))
    images = "40" if args.tiny else "10000"
    return [
        of_speed("hdan", seconds=120.0),
        run("a task with a cold compile cache", 0, *cache, seconds=240.0),  # which warms it for the next
        run("two tasks in a process, a warm compile cache", 0, "--twice", *cache, seconds=330.0),
        of_speed("streamed", "--resident", "0.5"),
        of_speed("M = 1", "--heuristics", "1"),
        of_speed("M = 5", "--heuristics", "5"),
        of_speed("source-only", "--method", "source-only"),
        of_speed("source-only, as many rows", "--method", "source-only", "--batch", "72"),
        Measurement(
            "decoding", 120.0, [str(HERE / "decode.py"), "--json", "--images", images, "--rounds", "2"], "decode.jsonl"
        ),
        # Beside the two tasks above, of seeds 0 and 1 in bf16 with a graph:
        run("tf32 eager, seed 0", 0, "--precision", "tf32", "--eager", seconds=300.0),
        run("tf32 eager, seed 1", 1, "--precision", "tf32", "--eager", seconds=300.0),
        of_speed("mcd", "--method", "mcd"),
        of_speed("eager tf32", "--precision", "tf32", "--no-compile", "--no-graph"),
        of_speed("graph, not compiled", "--no-compile"),
        of_speed("tf32", "--precision", "tf32"),
    ]


def main() -> None:
    args = arguments()
    if args.tasks:
        print(json.dumps(tasks(args)))
        return
    RESULTS.mkdir(exist_ok=True)
    start, left, failed = time.perf_counter(), [], []
    for each in measurements(args):
        remaining = args.budget - (time.perf_counter() - start)
        if args.only and each.name not in args.only:
            continue
        if each.real and args.data is None:
            left.append(f"{each.name} (needs --data)")
        elif remaining < each.seconds * args.pace:
            left.append(f"{each.name} (about {each.seconds:.0f} s)")
        elif error := measure(each, args.results, remaining):
            failed.append(f"{each.name}: {error}")
    for title, names in (("failed", failed), ("not run", left)):
        for name in names:
            print(f"{title}: {name}")
    print(f"{time.perf_counter() - start:.0f} s of {args.budget:.0f} s")
    sys.exit(1 if failed else 0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of Office-Home's tars and the weights")
    parser.add_argument("--budget", type=float, default=1500.0, metavar="SECONDS", help="of the machine's time")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these measurements alone")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the rows go")
    parser.add_argument("--speed", default="", metavar="WORDS", help="further words for `hda speed`")
    parser.add_argument("--pace", type=float, default=1.0, help="how much slower this machine is than an H200")
    parser.add_argument("--tiny", action="store_true", help="try the script itself: few pictures, few steps")
    of_task = parser.add_argument_group("one measurement on real pictures: what the script calls itself with")
    of_task.add_argument("--tasks", action="store_true")
    of_task.add_argument("--seed", type=int, default=0)
    of_task.add_argument("--precision", default="auto")
    of_task.add_argument("--eager", action="store_true")
    of_task.add_argument("--twice", action="store_true")
    of_task.add_argument("--compile-cache", metavar="DIR", help="where compiled code is kept (default: PyTorch's own)")
    return parser.parse_args()


def measure(each: Measurement, results: Path, limit: float) -> str | None:
    """Run one; its row is added as soon as it is there. What went wrong, if anything."""
    print(f"{each.name} ...", flush=True)
    start = time.perf_counter()
    try:
        done = subprocess.run([sys.executable, *each.words], capture_output=True, text=True, timeout=limit, check=False)
        if done.returncode:
            return (done.stderr.strip() or "no word").splitlines()[-1]
        row = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return f"took longer than the {limit:.0f} s that were left"
    except (ValueError, IndexError):
        return "its last line is no JSON"
    whole = {"measurement": each.name, **row, "wall_s": round(time.perf_counter() - start, 1)}
    with (results / each.file).open("a", encoding="utf-8") as file:
        file.write(json.dumps(whole) + "\n")
    print(f"  {json.dumps(whole)}", flush=True)
    return None


# One Office-Home task: how long it takes, and how much of that is not the steady step


def tasks(args: argparse.Namespace) -> dict[str, Any]:
    """Train Art -> Clipart, once or twice in this process; seconds of each, and of what is not the steady step."""
    if args.compile_cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = args.compile_cache
    warm = any(Path(args.compile_cache).iterdir()) if args.compile_cache else None
    import torch

    import hda

    files = [args.data / f"office_home_{domain}.tar" for domain in ("art", "clipart")]
    scenario = hda.Scenario.read(files[0], files[1])
    answers = hda.Answers.read(files[1], scenario)
    options: dict[str, Any] = {"precision": args.precision, "backbone": "resnet50"}
    options["weights"] = str(args.data / "resnet50_imagenet_v1.safetensors")
    if args.eager:
        options |= {"graph": False, "compile": False}
    if args.tiny:
        options |= {"backbone": "small", "weights": "none", "size": 32, "steps": 12, "batch": 4, "log_every": 2}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if not args.tiny:
            from hda.data import pixels

            for file in files:  # the cache is warm, as the figure asks for
                pixels.load(hda.data.images.read_unlabelled(file), 256)
        for number in range(2 if args.twice else 1):
            out = Path(folder, str(number))
            start = time.perf_counter()
            run = hda.fit(scenario, evaluate=answers, out=out, seed=args.seed + number, **options)
            rows.append(_row(run, time.perf_counter() - start))
    first = rows[0]
    return {
        **first,
        **({"second": rows[1]} if args.twice else {}),
        "task": "Art->Clipart",
        "seed": args.seed,
        "compile_cache": {None: "as it was", False: "empty", True: "warm"}[warm],
        "torch": torch.__version__,
    }


def _row(run: Any, wall: float) -> dict[str, Any]:
    """What a run came to; the steady step is that of the median stretch between two lines of metrics."""
    result = run.result
    _, rates = run.curve("images_per_second")
    rate = statistics.median(rates[1:])
    fit = run.settings.fit
    rows = fit.batch + fit.target_batch
    steady = result["steps"] * rows / rate
    return {
        "accuracy": round(result["target_accuracy"], 2),
        "precision": result["precision"],
        "device": result["device"],
        "steps": result["steps"],
        "images_per_second": round(float(rate)),
        "seconds": round(wall, 1),
        "steady_s": round(float(steady), 1),
        "rest_s": round(float(wall - steady), 1),
    }


if __name__ == "__main__":
    main()
