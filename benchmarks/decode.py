"""How fast pictures get into the store, beside a bare loop of the same decoder on all cores, and how fast out of it.

The bare loop is one process a core, each of which reads and decodes its share and drops it. Every measurement is taken
in turns with the others and the best of each counts, since a machine is rarely alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from hda.bench.speed import make_photos
from hda.data import pixels
from hda.data.decode import DECODER, decode
from hda.data.images import read_unlabelled

SIZES = ((500, 375), (500, 333), (375, 500), (640, 480), (500, 500))  # width and height: what photo collections hold


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=10_000, help="how many photos (default: %(default)s)")
    parser.add_argument("--edge", type=int, default=256, help="edge of the stored pictures (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=pixels.cores(), help="threads, and processes of the bare loop")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hda-decode-") as folder:
        photos = make_photos(Path(folder, "photos"), given.images, sizes=SIZES)
        result = measure(photos, Path(folder), given.edge, given.workers, given.rounds)
    if given.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:<22}{value:>12,.3f}" if isinstance(value, float) else f"{name:<22}{value!s:>12}")


def measure(photos: Path, folder: Path, edge: int, workers: int, rounds: int) -> dict[str, Any]:
    """Best times of each kind in seconds, and what they mean."""
    images = read_unlabelled(photos)
    bare, cold, warm, write = [], [], [], []
    for turn in range(rounds):
        bare.append(bare_loop([images.where(i) for i in range(len(images))], edge, workers))
        cache = folder / f"cache{turn}"
        cold.append(timed(lambda: pixels.load(images, edge, cache=cache, workers=workers)))  # noqa: B023 - called at once
        warm.append(timed(lambda: pixels.load(read_unlabelled(photos), edge, cache=cache, workers=workers)))  # noqa: B023 - called at once
        for file in cache.rglob("*.pixels"):
            file.unlink()
        write.append(timed(lambda: write_rows(cache / "rows", len(images), edge)))  # noqa: B023 - called at once
    return {
        "images": len(images),
        "edge": edge,
        "workers": workers,
        "machine": platform.machine(),
        "decoder": DECODER,
        "bare_loop_s": min(bare),
        "cold_load_s": min(cold),
        "warm_load_s": min(warm),
        "write_s": min(write),
        "bare_images_per_s": len(images) / min(bare),
        "cold_images_per_s": len(images) / min(cold),
        "ratio": min(bare) / min(cold),
    }


def write_rows(path: Path, rows: int, edge: int) -> None:
    """What the file system takes for as many bytes as a store has, which the bare loop throws away."""
    row = bytes(edge * edge * 3)
    with path.open("wb", buffering=0) as file:
        for _ in range(rows):
            file.write(row)
    path.unlink()


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def bare_loop(paths: Sequence[str], edge: int, workers: int) -> float:
    """Seconds from the moment that all processes are ready to the moment that all are done."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Barrier(workers + 1), context.Barrier(workers + 1)
    processes = [
        context.Process(target=_share, args=(paths[i::workers], edge, ready, done), daemon=True) for i in range(workers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    seconds = timed(done.wait)
    for process in processes:
        process.join()
    return seconds


def _share(paths: Sequence[str], edge: int, ready: Barrier, done: Barrier) -> None:
    for path in paths[:8]:  # the first ones pay for what is set up once
        decode(Path(path).read_bytes(), edge)
    ready.wait()
    for path in paths:
        with open(path, "rb") as file:
            decode(file.read(), edge)
    done.wait()


if __name__ == "__main__":
    main()
