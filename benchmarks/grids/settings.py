"""Several sources and a few target labels: HDAN against what it has to beat, all with the single source's optimiser.

hda bench benchmarks/grids/settings.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job

COMMON = {"backbone": "resnet50", "steps": 6002, "lr": 0.001}
SEVERAL = {**COMMON, "batch": 18, "target_batch": 36}
FEW = {**COMMON, "batch": 24}

JOBS = [
    Job(f"office-home:{sources}->{target}", method, settings=SEVERAL)
    for sources, target in (("Art,Clipart", "Product"), ("Art,Product", "Clipart"))
    for method in ("hdan", "source-only")
]
JOBS += [  # the best of these is "single best"
    Job(f"office-home:{source}->{target}", "hdan", settings=COMMON)
    for source, target in (("Art", "Product"), ("Clipart", "Product"), ("Art", "Clipart"), ("Product", "Clipart"))
]
JOBS += [
    Job(f"office-home:{task}", method, shots=shots, settings=FEW)
    for task, shots in (("Art->Clipart", 1), ("Art->Clipart", 3), ("Product->Art", 3))
    for method in ("hdan", "source-only")
]
