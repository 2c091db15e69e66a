"""The reference results: HDAN on Art -> Clipart and Product -> Art with three seeds, source-only with one.

hda bench benchmarks/grids/anchors.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job

TASKS = ("office-home:Art->Clipart", "office-home:Product->Art")
SETTINGS = {"backbone": "resnet50"}

JOBS = [Job(task, "hdan", seed, settings=SETTINGS) for seed in (0, 1, 2) for task in TASKS]
JOBS += [Job(task, "source-only", 0, settings=SETTINGS) for task in TASKS]
