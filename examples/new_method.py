"""A method of one's own, from an empty file to a row of results: the mean features of both domains are drawn together."""

import tempfile
from pathlib import Path

import hda
from hda.alignments.base import Alignment, Seen
from hda.batch import Losses
from hda.bench import Job, rows, table
from hda.bench.runner import row_of
from hda.data.digits import digits
from hda.heads.plain import Plain
from hda.methods.aligned import Aligned
from hda.methods.base import Reference
from hda.registry import register
from hda.testing import check_method


class Means(Alignment):
    """The squared distance of the mean features of the labelled rows and the target's."""

    name, summary = "means", "the distance of mean features"

    def terms(self, seen: Seen) -> Losses:
        apart = seen.labelled(seen.features).mean(dim=0) - seen.target(seen.features).mean(dim=0)
        return Losses(transfer=apart.square().sum())


class MeanMatching(Aligned):
    """A linear head, and mean features that are drawn together."""

    name = "mean-matching"
    reference = Reference("Mean matching", "", "this page")
    head_kind, alignment_kind = Plain, Means


register("alignments", Means)
register("methods", MeanMatching)
check_method(MeanMatching)  # finite, resumable, blind to target labels, ...: what holds for every method here

scenario, answers = digits()
settings = {"backbone": "small", "weights": "none", "augment": "affine", "steps": 100, "batch": 32, "lr": 0.01}
with tempfile.TemporaryDirectory() as folder:
    for own in ({"method": "source-only"}, {"method": "mean-matching"}, {"head": "heuristic", "alignment": "means"}):
        run = hda.fit(scenario, evaluate=answers, out=f"{folder}/{'-'.join(own.values())}", **settings, **own)
        rows.add(Path(folder, "rows.jsonl"), row_of(run, Job(scenario.name, own.get("method", "hdan"), settings=own)))
    print(table.draw(rows.read([Path(folder, "rows.jsonl")])).text())
