"""What two CPU cores can show on real pictures: an EfficientNet-Lite0 on pictures of 96, 400 steps of 24 + 24.

The paper's schedules are stretched to the run, as the demo's are; nothing else differs from the defaults.

hda bench benchmarks/grids/cpu.py --data FOLDER
"""

from hda.bench import Job

STEPS = 400
STRETCH = 6002 / STEPS
COMMON = {"backbone": "tf_efficientnet_lite0", "size": 96, "steps": STEPS, "batch": 24, "lr": 0.001}
COMMON |= {"decay": 0.001 * STRETCH, "evaluate_every": STEPS, "device": "cpu"}
HDAN = {**COMMON, "reversal_horizon": 10_000 / STRETCH}

TASKS = (("Art->Clipart", None), ("Art->Clipart", 3), ("Art,Product->Clipart", None), ("Product->Art", None))

JOBS = [
    Job(f"office-home:{task}", method, shots=shots, settings=settings)
    for task, shots in TASKS
    for method, settings in (("source-only", COMMON), ("hdan", HDAN))
]
