"""Every system on Art -> Clipart, and those of the other settings on theirs; the most telling first.

hda bench benchmarks/grids/methods.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job
from hda.bench.paper import TABLES
from hda.registry import registered

SHORT = {"backbone": "resnet50", "steps": 2000}
METHODS = registered("methods")


def of_table(name: str) -> list[str]:
    return [line.method for line in TABLES[name].lines if line.method in METHODS]


def jobs(methods: list[str], setting: str, task: str, variant: str = "", **settings: object) -> list[Job]:
    shots, settings = 3 if setting == "ssda" else None, {**SHORT, **settings}
    known = [name for name in methods if setting in METHODS[name].supports]
    return [Job(f"office-home:{task}", name, variant=variant, shots=shots, settings=settings) for name in known]


FULL = ["hdan", "source-only", "dann", "cdan-e", "mcd", "mdd", "bnm", "gvb"]
OTHERS = [name for name in METHODS if name not in of_table("table1")]

JOBS = jobs(of_table("table1"), "uda", "Art->Clipart")
JOBS += jobs(FULL, "uda", "Art->Clipart", "6,002 steps", steps=6002)
JOBS += jobs(of_table("table3"), "msda", "Art,Product->Clipart", lr=0.001, batch=18, target_batch=36)
JOBS += jobs(of_table("table4"), "ssda", "Art->Clipart", lr=0.001, batch=24)
JOBS += jobs(OTHERS, "uda", "Art->Clipart")
