"""Runs as figures see them: what each predicted, and what it makes of its pictures, as far as these can be had."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hda.analysis.changes import Predicted
from hda.analysis.outputs import Domains, Pictures, Sight
from hda.data.images import Images
from hda.data.scenario import Answers, Scenario
from hda.data.tasks import read_origin
from hda.engine.reporter import Reporter
from hda.engine.run import PREDICTIONS, TEST_PREDICTIONS, Run
from hda.engine.selecting import states
from hda.errors import UserError

LIMIT = 1000  # pictures of each domain that are looked at
LIMIT_ALONG = 200  # likewise at each kept checkpoint
FREE = ("seed", "device", "graph", "compile", "resident", "log_every", "checkpoint_every", "keep_checkpoints")
Given = tuple[Scenario, Answers | None]


@dataclass(eq=False)
class Subject:
    """A run, and what was found of it; where something could not be had, a sentence says why."""

    run: Run
    label: str  # of the runs that differ in their seed alone
    names: tuple[str, ...] = ()  # of the pictures predicted
    predicted: Predicted | None = None
    labels: NDArray[np.int64] | None = None  # true classes of the pictures predicted, -1 where unknown
    images: Images | None = None  # among which are the pictures predicted
    domains: Domains | None = None
    source_labels: NDArray[np.int64] | None = None  # of the rows of `domains`
    target_labels: NDArray[np.int64] | None = None  # likewise, where they may be looked at; -1 where unknown
    along: dict[int, Domains] = field(default_factory=dict)  # of the checkpoints kept, by step
    unseen: str = ""  # why there are no outputs
    unanswered: str = ""  # why there are no labels

    @property
    def method(self) -> str:
        return self.run.settings.method_class.name

    @property
    def seed(self) -> int:
        return self.run.settings.fit.seed

    @property
    def task(self) -> str:
        return str(self.run.description["task"])

    def picture(self, row: int) -> NDArray[np.uint8] | None:
        """One of the pictures predicted, small; None where it cannot be had."""
        from hda.data import pixels

        if self.images is None or self.names[row] not in self.images.names:
            return None
        found = self.images.select([self.images.names.index(self.names[row])])
        try:
            picture: NDArray[np.uint8] = next(iter(pixels.stream(found, 96, chunk=1)))[1][0]
            return picture
        except UserError:
            return None


def gather(
    runs: Sequence[Run],
    *,
    limit: int = LIMIT,
    device: str | None = None,
    places: Mapping[str, Any] | None = None,
    given: Given | None = None,
    reporter: Reporter | None = None,
) -> list[Subject]:
    """Find out what figures of these runs need.

    Args:
        runs: finished or not.
        limit: pictures of each domain to look at; 0 looks at none.
        device: auto, cpu, cuda or cuda:N; each run's own if not given.
        places: where the pictures are now, by the names of `hda fit`, if not where the runs found them.
        given: the scenario, and the answers if they are to be measured with, of runs on pictures in memory.
        reporter: is told how it gets on.

    Raises:
        UserError: the pictures are not at the places given.
    """
    reporter, seen = reporter or Reporter(), _Seen(limit, places or {}, given)
    subjects = []
    for run, label in zip(runs, labels(runs), strict=True):
        subject = Subject(run, label)
        subject.names, subject.predicted = _predictions(run)
        _answer(subject, seen)
        if limit:
            reporter.note(f"{run.path}: looking at up to {limit:,} pictures of each domain")
            _look(subject, seen, device)
        else:
            subject.unseen = "no pictures were looked at, as asked for"
        subjects.append(subject)
    return subjects


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run, the same for those that differ in their seed alone.

    It is the method's, with the task where there are several, or, if that does not tell them apart, the folder's of the
    first.
    """
    several = len({whole_task(run) for run in runs}) > 1
    names = [run.settings.method_class.name + (f", {whole_task(run)}" if several else "") for run in runs]
    kinds = [_kind(run) for run in runs]
    of: dict[str, set[str]] = {}
    for name, kind in zip(names, kinds, strict=True):
        of.setdefault(name, set()).add(kind)
    return [
        name if len(of[name]) == 1 else runs[kinds.index(kind)].path.name
        for name, kind in zip(names, kinds, strict=True)
    ]


def sentence(words: str) -> str:
    """Words as a sentence: with a full stop and, unless a name comes first, a capital."""
    whole = f"{words[:1].upper()}{words[1:]}" if words.split(" ")[0] in ("the", "no", "a", "an") else words
    return f"{whole}."


def _kind(run: Run) -> str:
    """All that decides a run but its seed."""
    settings = {name: value for name, value in sorted(run.settings.flat().items()) if name not in FREE}
    return repr((whole_task(run), settings))


def whole_task(run: Run) -> str:
    """The task, and how many of the target's labels were seen, if any: other pictures are another task."""
    few = run.description["images"]["labelled"]
    return f"{run.description['task']} with {few:,} labelled" if few else str(run.description["task"])


class _Seen:
    """Scenarios and decoded pictures, shared by runs on the same ones."""

    def __init__(self, limit: int, places: Mapping[str, Any], given: Given | None) -> None:
        self.limit, self.places, self.given = limit, places, given
        self.scenarios: dict[str, Given | UserError] = {}
        self.decoded: dict[tuple[str, int, str], Pictures] = {}

    def scenario(self, run: Run) -> Given:
        """The run's pictures.

        Raises:
            UserError: they are not there, or not the run's.
        """
        if self.given is not None:
            return self.given
        origin = run.description["origin"]
        drawn = run.settings.fit.seed if origin.get("shots") else None
        key = repr((origin, run.description["fingerprint"], drawn))
        if key not in self.scenarios:
            try:
                self.scenarios[key] = _scenario(run, self.places)
            except UserError as error:
                self.scenarios[key] = error
        found = self.scenarios[key]
        if isinstance(found, UserError):
            raise found
        return found

    def pictures(self, run: Run, sight: Sight) -> Pictures:
        """Some pictures of both domains, decoded."""
        fit = run.settings.fit
        key = (run.description["fingerprint"], run.method().backbone.size, fit.augment)
        if key not in self.decoded:
            scenario, _ = self.scenario(run)
            sources = [source.images for source in scenario.sources]
            skip = bool(run.description["origin"].get("skip_broken"))
            self.decoded[key] = sight.read(sources, scenario.target, self.limit, skip)
        return self.decoded[key]


def _scenario(run: Run, places: Mapping[str, Any]) -> Given:
    origin = run.description["origin"] | {name: place for name, place in places.items() if place}
    if not (origin.get("source") or origin.get("task")):
        raise UserError(f"{run.path.name} does not say where its pictures are: give --source and --target")
    scenario, answers = read_origin(origin, run.settings.fit.seed)
    if not places and scenario.fingerprint() != run.description["fingerprint"]:
        raise UserError(
            f"the pictures have changed since {run.path.name} was trained on them: put them back as they were, "
            "or say where they are now (--source, --target or --data)"
        )
    _check_alike(run, scenario)
    return scenario, answers


def _check_alike(run: Run, scenario: Scenario) -> None:
    """Insist on the classes and the target pictures that the run was trained with, wherever they lie.

    Raises:
        UserError: they are others.
    """
    names = set(_names(run)) if "test" not in run.description["images"] else set()
    if scenario.classes != run.classes or not names <= set(scenario.target.names):
        raise UserError(f"the pictures named are not those of {run.path.name}: their classes or their names are others")


def _answer(subject: Subject, seen: _Seen) -> None:
    run = subject.run
    origin = run.description["origin"]
    if origin and not origin.get("task") and not origin.get("evaluate"):
        subject.unanswered = f"{run.path.name} was begun without --evaluate, so no target label is looked at"
    try:
        scenario, answers = seen.scenario(run)
    except UserError as error:
        if seen.places:  # a mistake of the words given now, not of the past
            raise
        subject.unseen = str(error)
        subject.unanswered = subject.unanswered or str(error)
        return
    subject.images = (answers.images if answers else None) or scenario.target
    if answers is None:
        subject.unanswered = subject.unanswered or f"{run.path.name} has no true labels of its target"
    elif subject.predicted is None:
        subject.unanswered = f"{run.path.name} is not finished, so it has no predictions"
    else:
        true = dict(zip(subject.images.names, answers.labels.tolist(), strict=True))
        subject.labels = np.array([true.get(name, -1) for name in subject.names], dtype=np.int64)


def _look(subject: Subject, seen: _Seen, device: str | None) -> None:
    if subject.unseen:
        return
    try:
        sight = Sight(subject.run, device)
        pictures = seen.pictures(subject.run, sight)
        subject.domains = sight.look(pictures)
        scenario, answers = seen.scenario(subject.run)
        subject.source_labels = np.concatenate([part.labels for part in scenario.sources])[pictures.source_rows]
        if answers is not None and answers.images is None:
            subject.target_labels = answers.labels[pictures.target_rows]
        if subject.domains.heuristics:
            few = pictures.thinned(LIMIT_ALONG)
            subject.along = {step: sight.look(few, path) for step, path in states(subject.run.path).items()}
    except UserError as error:
        subject.unseen = str(error)


def _names(run: Run) -> tuple[str, ...]:
    return _predictions(run)[0]


def _predictions(run: Run) -> tuple[tuple[str, ...], Predicted | None]:
    """Names of the pictures that accuracy is measured on, and what the finished run says of them."""
    path = run.path / (TEST_PREDICTIONS if "test" in run.description["images"] else PREDICTIONS)
    if not path.exists():
        return (), None
    number = {name: index for index, name in enumerate(run.classes)}
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as lines:
        rows = [(row["path"], number.get(row["class"], -1), float(row["confidence"])) for row in csv.DictReader(lines)]
    names, classes, confidence = zip(*rows, strict=True) if rows else ((), (), ())
    return tuple(names), Predicted(np.array(classes, np.int64), np.array(confidence, np.float64))
