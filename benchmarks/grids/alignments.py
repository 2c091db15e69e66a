"""Heuristic Domain Adaptation over other alignments, beside each alignment alone: what the paper promises.

HDA takes the discrepancy on the scores. Where an alignment alone takes it on features, it stands beside on the scores, too, of
a fundament without heuristics that starts like any layer: so the heuristics can be told from the change of layer.

hda bench benchmarks/grids/alignments.py --data FOLDER --set weights=FILE
"""

from hda.bench import Job

TASK = "office-home:Art->Clipart"
ALIGNMENTS = ("adversarial", "conditional-adversarial", "mmd", "jmmd", "mdd", "mcd", "mcc", "bnm", "coral")

ON_FEATURES = ("adversarial", "conditional-adversarial", "mmd", "jmmd")

COMMON = {"backbone": "resnet50", "steps": 2000}
JOBS = [
    Job(TASK, "hdan", settings={**COMMON, "head": head, "alignment": alignment})
    for alignment in ALIGNMENTS
    for head in ("plain", "heuristic")
]
JOBS += [
    Job(
        TASK,
        "hdan",
        variant="no H",
        settings={**COMMON, "head": "heuristic", "alignment": alignment, "heuristics": 0, "fundament_slope": 0.0},
    )
    for alignment in ON_FEATURES
]
