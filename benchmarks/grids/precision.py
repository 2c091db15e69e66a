"""Does speed cost accuracy? The default, bf16 and one graph a step, against TF32 step by step: two seeds each.

hda bench benchmarks/grids/precision.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job

TASK = "office-home:Art->Clipart"
EAGER = {"backbone": "resnet50", "precision": "tf32", "graph": False, "compile": False}

JOBS = [Job(TASK, "hdan", seed, settings={"backbone": "resnet50"}) for seed in (0, 1)]
JOBS += [Job(TASK, "hdan", seed, "tf32 eager", settings=EAGER) for seed in (0, 1)]
