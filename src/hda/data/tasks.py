"""Tasks by name: `office-home:Art->Clipart`, `office-home:*->Clipart`, `domainnet-126:R->S` with three shots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from hda.data import splits
from hda.data.datasets.base import Dataset, Domain
from hda.data.images import LabelledImages, Location
from hda.data.scenario import Answers, Scenario
from hda.errors import UserError
from hda.registry import lookup, registered
from hda.settings import at_least

Kind = Literal["published", "drawn"]
FOLDERS = ("source", "target", "labelled", "root")  # how pictures are named: as what lies on disk,
NAMED = ("task", "data", "split", "lists")  # or as a dataset's
FORM = "write it as DATASET:SOURCE->TARGET in quotes, for example 'office-home:Art->Clipart'"


class Task(NamedTuple):
    """What a task comes to: who trains on what, and what the evaluator alone is handed."""

    scenario: Scenario
    answers: Answers


@dataclass(frozen=True)
class TaskName:
    """A task's name, taken apart but not yet looked up."""

    dataset: str
    sources: tuple[str, ...]  # ("*",): every domain that is there but the target
    target: str

    @classmethod
    def parse(cls, text: str) -> TaskName:
        """The parts of a name.

        Raises:
            UserError: it is no name of a task.

        >>> TaskName.parse("office-home:Art,Product->Clipart")
        TaskName(dataset='office-home', sources=('Art', 'Product'), target='Clipart')
        """
        dataset, colon, rest = text.partition(":")
        if not colon:
            known = ", ".join(registered("data.datasets"))
            raise UserError(f"the task {text!r} names no dataset: {FORM} (known: {known})")
        before, arrow, target = rest.partition("->")
        if not arrow:
            hint = ", since a shell takes an unquoted > for itself" if rest.endswith("-") else ""
            raise UserError(f"the task {text!r} has no '->' between its source and its target: {FORM}{hint}")
        sources, target = tuple(part.strip() for part in before.split(",")), target.strip()
        if not target or not all(sources) or "->" in target or "," in target:
            raise UserError(f"the task {text!r} is to have one target and at least one source: {FORM}")
        if "*" in sources and len(sources) > 1:
            raise UserError(
                f"the task {text!r} has '*', which stands for all other domains, beside others: give one of both"
            )
        return cls(dataset.strip(), sources, target)


def read_task(
    name: str,
    root: Location,
    *,
    shots: int | None = None,
    seed: int = 0,
    split: Kind | None = None,
    lists: Location | None = None,
    combine: bool = False,
    strict: bool = False,
) -> Task:
    """A published task on pictures that lie on disk.

    Where the dataset has an official training and test part, training is on the training parts of all domains, and
    accuracy is measured on the target's test part. Else the whole target is trained on, without its labels, and
    measured on; with shots, without the labelled pictures.

    Args:
        name: for example "office-home:Art->Clipart" or, with short names, "office-home:A->C"; several sources with
            commas or, for all that are there, `*`.
        root: the folder that the dataset lies in.
        shots: labelled pictures of each class of the target; the published ones where there are lists for that number,
            drawn ones else.
        seed: of the draw.
        split: insist on the published lists or on a draw.
        lists: the folder of published lists; looked for below the root if not given.
        combine: take several sources for one domain.
        strict: refuse a target with classes that no source has.

    Returns:
        The scenario and the answers; `hda.fit(scenario, evaluate=answers)` trains and measures.

    Raises:
        UserError: the name is none, or something is not there.

    >>> scenario, answers = read_task("office-home:A->C", "data", shots=3)  # doctest: +SKIP
    """
    given = TaskName.parse(name)
    dataset: Dataset = lookup("data.datasets", given.dataset)(root)
    target = dataset.domain(given.target)
    sources = _sources(given, dataset, target)
    if split is not None and shots is None:
        raise UserError(f"the {split} split is about labelled pictures of the target: add --shots N or leave it out")
    if lists is not None and shots is None and not dataset.parts:
        raise UserError(
            f"the lists in {lists} are about labelled pictures of the target: add --shots N or leave them out"
        )
    if shots is not None and shots < 1:
        raise UserError(f"shots must be at least 1: got {shots}")
    reading = _Reading(dataset, sources, target, shots, seed, split, lists, strict)
    task = reading.with_shots() if shots is not None else reading.without_shots()
    return task._replace(scenario=task.scenario.combined()) if combine else task


def read_origin(origin: Mapping[str, Any], seed: int) -> tuple[Scenario, Answers | None]:
    """What the words of `hda fit` about pictures come to, as a run's folder keeps them under "origin".

    Args:
        origin: values by the options' names; those that are not given are None or not there.
        seed: the run's, for a draw.

    Raises:
        UserError: options do not go together, or something is not there.
    """
    given: dict[str, Any] = {
        name: origin.get(name) for name in (*FOLDERS, *NAMED, "shots", "combine", "strict", "evaluate")
    }
    _check_origin(given)
    shots, strict, combine = given["shots"], bool(given["strict"]), bool(given["combine"])
    if given["task"]:
        more = {"split": given["split"], "lists": given["lists"], "combine": combine, "strict": strict}
        return read_task(given["task"], given["data"], shots=shots, seed=seed, **more)
    root = given["root"]
    scenario = Scenario.read(given["source"], given["target"], given["labelled"], root, shots=shots, seed=seed)
    answers = Answers.read(given["target"], scenario, root, strict=strict) if given["evaluate"] else None
    return scenario.combined() if combine else scenario, answers


def _check_origin(origin: Mapping[str, Any]) -> None:
    """Insist on a task or on folders, and on nothing that goes with the other alone."""
    at_least(1, shots=origin["shots"])
    if origin["task"]:
        for name in FOLDERS:
            if origin[name]:
                raise UserError(f"--task names the pictures and so does --{name}: give one of the two")
        if not origin["data"]:
            raise UserError(f"--task {origin['task']} needs the folder that its dataset lies in: add --data DIR")
        return
    for name in NAMED:
        if origin[name]:
            raise UserError(f"--{name} goes with a dataset's task: add --task NAME (`hda list datasets` lists them)")
    for name in ("source", "target"):
        if not origin[name]:
            raise UserError(
                f"no {name} is given: add --{name} PATH, or --task NAME for a dataset (`hda fit --help` shows how)"
            )
    if origin["strict"] and not origin["evaluate"]:
        raise UserError("--strict is about the classes of a target that is measured: add --evaluate")


@dataclass(frozen=True)
class _Reading:
    dataset: Dataset
    sources: Sequence[Domain]
    target: Domain
    shots: int | None
    seed: int
    split: Kind | None
    lists: Location | None
    strict: bool
    there: dict[str, int] = field(default_factory=dict)  # pictures of each domain that has been read

    def without_shots(self) -> Task:
        """Unsupervised, from one source or several."""
        sources = [self._train(domain) for domain in self.sources]
        target = self._train(self.target)
        scenario = Scenario.of(sources, target.images)
        return self._task(scenario, None if self.dataset.parts else target)

    def with_shots(self) -> Task:
        """Semi-supervised."""
        shots = self.shots or 0
        target = self._train(self.target)
        sources = [self._train(domain) for domain in self.sources]
        files = None if self.split == "drawn" else splits.find(self.dataset, self.target, shots, self.lists)
        if files is None:
            chosen = self._drawn(target, sources, shots)
        else:
            chosen = splits.published(self.dataset, self.target, target, files)
            sources = [self._listed(*pair, files) for pair in zip(self.sources, sources, strict=True)]
        few, dropped = _shared(target.select(chosen.labelled), sources)
        rest = target.select(chosen.unlabelled)
        scenario = Scenario.of(sources, rest.images, few.compact(), apart=True)
        scenario = replace(scenario, notes=(*scenario.notes, *chosen.notes, *dropped))
        if self.dataset.parts:
            return self._task(scenario, None)
        task = self._task(scenario, rest)
        if chosen.common is None:
            return task
        return task._replace(answers=replace(task.answers, common=np.isin(chosen.unlabelled, chosen.common)))

    def _drawn(self, target: LabelledImages, sources: Sequence[LabelledImages], shots: int) -> splits.Split:
        if self.split == "published" or self.lists is not None:
            raise UserError(
                f"{self.lists or self.dataset.root} has no published lists of {self.dataset.title} for "
                f"{self.target.name} and {splits.shots_of(shots)}: give --lists DIR, or --split drawn"
            )
        drawn = splits.draw(target, shots, self.seed, {name for source in sources for name in source.classes})
        if self.split == "drawn":
            return drawn
        none = f"there are no published lists of {splits.shots_of(shots)} of {self.target.name} in {self.dataset.root}"
        return replace(drawn, notes=(none, *drawn.notes))

    def _task(self, scenario: Scenario, measured: LabelledImages | None) -> Task:
        """The scenario with its answers: for the pictures given, else for the target's test part."""
        test = measured
        if test is None:
            test = self.dataset.read(self.target, "test", self.lists)
        answers = Answers.known(test, scenario.classes, strict=self.strict)
        if measured is None:
            answers = replace(answers, images=test.images)
            parts = f"{len(scenario.target):,} training and {len(test):,} test pictures"
            note = f"{self.target.name} has {parts}: accuracy is measured on the latter, which training never sees"
            scenario = replace(scenario, notes=(*scenario.notes, note))
        return Task(replace(scenario, notes=(*self._on_counts(), *scenario.notes)), answers)

    def _train(self, domain: Domain) -> LabelledImages:
        """What of a domain may be trained on."""
        pictures = self.dataset.read(domain, "train" if self.dataset.parts else "all", self.lists)
        self.there[domain.name] = len(pictures)
        return pictures

    def _listed(self, domain: Domain, pictures: LabelledImages, files: splits.Files) -> LabelledImages:
        """Those pictures of a source that its published list names, where there is one."""
        path = files.source.get(domain.name)
        return pictures if path is None else pictures.select(self.dataset.positions(path, domain, pictures))

    def _on_counts(self) -> list[str]:
        """What is there in other numbers than published."""
        if self.dataset.parts or self.dataset.more:
            return []
        return [
            f"{domain.name} has {self.there[domain.name]:,} pictures, published are {domain.images:,}: "
            f"`hda data check {self.dataset.name} {self.dataset.root}` says more"
            for domain in (*self.sources, self.target)
            if domain.images and self.there[domain.name] != domain.images
        ]


def _sources(given: TaskName, dataset: Dataset, target: Domain) -> list[Domain]:
    if given.sources == ("*",):
        found = [domain for domain in dataset.domains if domain != target and dataset.where(domain) is not None]
        if not found:
            raise UserError(f"{dataset.root} has no domain of {dataset.title} but {target.name}: give sources too")
        return found
    sources = [dataset.domain(word) for word in given.sources]
    for domain in sources:
        if domain == target or sources.count(domain) > 1:
            twice = "as source and as target" if domain == target else "twice as source"
            raise UserError(f"{domain.name} is given {twice}: give each domain once")
    return sources


def _shared(few: LabelledImages, sources: Sequence[LabelledImages]) -> tuple[LabelledImages, list[str]]:
    """The labelled pictures of classes that a source has: the others have no place in the classifier."""
    known = {name for source in sources for name in source.classes}
    kept = np.flatnonzero([few.classes[label] in known for label in few.labels])
    dropped = len(few) - len(kept)
    note = f"{dropped:,} labelled pictures of classes that no source has are not used"
    return few.select(kept), [note] if dropped else []
