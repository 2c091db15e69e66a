"""Heuristic Domain Adaptation over other alignments, beside each alignment alone: what the paper promises.

hda bench benchmarks/grids/alignments.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job

TASK = "office-home:Art->Clipart"
ALIGNMENTS = ("adversarial", "conditional-adversarial", "mmd", "jmmd", "mdd", "mcd", "mcc", "bnm", "coral")

COMMON = {"backbone": "resnet50", "steps": 2000}
JOBS = [
    Job(TASK, "hdan", settings={**COMMON, "head": head, "alignment": alignment})
    for alignment in ALIGNMENTS
    for head in ("plain", "heuristic")
]
