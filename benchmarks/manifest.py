"""How long a list of many pictures takes to load, and how much memory.

    python benchmarks/manifest.py --pictures 600000

makes as many small files in class folders, lists them in random order (as `path label`), and prints the seconds and the
peak memory that reading the list took, in a process of its own; with --folders, the same without the list.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MAKE, READ, NOTHING = "make", "read", "nothing"
SELF = (sys.executable, __file__)


def main() -> None:
    if sys.argv[1:2] == [MAKE]:
        make(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
        return
    if sys.argv[1:2] == [READ]:
        print(json.dumps(read(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=600_000)
    parser.add_argument("--classes", type=int, default=345)
    parser.add_argument("--folders", action="store_true", help="read the class folders instead of the list")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # Everything in processes of their own: a peak is inherited from the process that starts another.
        subprocess.run([*SELF, MAKE, folder, str(args.pictures), str(args.classes)], check=True)
        given = str(Path(folder, "pictures" if args.folders else "all.txt"))
        for what in (NOTHING, given):  # what importing alone takes is to be told apart
            subprocess.run([*SELF, READ, what], check=True)


def make(folder: Path, pictures: int, classes: int) -> None:
    """The files, empty but there, and their list."""
    names = []
    for number in range(pictures):
        at = folder / "pictures" / f"class_{number % classes:03d}"
        if number < classes:
            at.mkdir(parents=True)
        (at / f"picture_{number:07d}.jpg").touch()
        names.append(f"pictures/{at.name}/picture_{number:07d}.jpg {number % classes}\n")
    random.Random(0).shuffle(names)
    (folder / "all.txt").write_text("".join(names), encoding="utf-8")


def read(what: str) -> dict[str, object]:
    from hda.data.images import read_labelled

    began = time.perf_counter()
    found = None if what == NOTHING else read_labelled(what)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pictures = 0 if found is None else len(found)
    return {"read": Path(what).name, "pictures": pictures, "seconds": round(seconds, 2), "peak_MiB": round(peak)}


if __name__ == "__main__":
    main()
