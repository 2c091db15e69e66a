"""Grids of runs: which tasks, with which methods, with which seeds."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hda.bench.paper import Column, Line, PaperTable
from hda.errors import UserError, unknown
from hda.methods.aligned import method_class
from hda.registry import registered


@dataclass(frozen=True)
class Job:
    """One run that a grid asks for."""

    task: str  # as `hda fit --task` takes it
    method: str
    seed: int = 0
    variant: str = ""  # what the settings are called where they are not the default
    shots: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the run, the method, the recipe
    table: str = ""  # of the paper, if it belongs to one
    added: Mapping[str, Any] = field(default_factory=dict)  # those of the settings that neither table nor grid asks for

    @property
    def name(self) -> str:
        """The task without its dataset, as rows and tables have it."""
        return self.task.partition(":")[2] or self.task

    @property
    def whole(self) -> str:
        """What rows call the method: with another head or alignment, the two of them."""
        parts = [self.settings.get(name) for name in ("head", "alignment")]
        return method_class(self.method, *parts).name if any(parts) else self.method

    @property
    def title(self) -> str:
        """The run in a few words."""
        words = [self.whole, *([f"({self.variant})"] if self.variant else []), self.name]
        words += [f"{self.shots}-shot"] if self.shots else []
        return " ".join([*words, f"seed {self.seed}"])

    @property
    def called(self) -> str:
        """The method and the variant, as a grid calls them."""
        return " ".join(filter(None, (self.whole, self.variant)))

    @property
    def options(self) -> dict[str, Any]:
        """What `hda.fit` is given."""
        return {"method": self.method, "seed": self.seed, **self.settings}

    @property
    def shape(self) -> tuple[str, ...]:
        """What runs have in common that can share a compiled step: these are done one after the other."""
        dataset, _, name = self.task.partition(":")
        sources = str(name.count(","))
        return (self.method, self.variant, dataset, sources, str(self.shots), repr(sorted(self.settings.items())))

    @property
    def kind(self) -> tuple[str, ...]:
        """What runs have in common that cost about the same a picture, whatever their settings."""
        dataset, _, name = self.task.partition(":")
        return (self.method, dataset, str(name.count(",")), str(self.shots))


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Every task with every method and every seed: a comparison of one's own.

    A Python file with one of these, called `GRID`, is what `hda bench FILE.py` runs:

    >>> GRID = Grid(
    ...     tasks=["office-home:Art->Clipart", "office-home:Product->Art"],
    ...     methods={"hdan": {}, "hdan M=1": {"heuristics": 1}, "source-only": {}},
    ...     seeds=[0, 1],
    ...     settings={"backbone": "resnet50", "steps": 2000},
    ... )
    >>> len(GRID.jobs())
    12

    Args:
        tasks: as `hda fit --task` takes them.
        methods: settings by name; what follows the method's name and a space is the variant's.
        seeds: of every run.
        settings: of every run.
        shots: labelled pictures of each class of the target; None is none.
    """

    tasks: Sequence[str]
    methods: Mapping[str, Mapping[str, Any]]
    seeds: Sequence[int] = (0,)
    settings: Mapping[str, Any] = field(default_factory=dict)
    shots: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tasks, str) or not isinstance(self.tasks, Sequence):
            raise UserError(f'tasks={self.tasks!r} is no list: write tasks=["office-home:Art->Clipart"]')
        if not isinstance(self.methods, Mapping) or not all(isinstance(own, Mapping) for own in self.methods.values()):
            raise UserError(f'methods={self.methods!r} gives no settings by name: write methods={{"hdan": {{}}}}')
        if isinstance(self.seeds, str) or not isinstance(self.seeds, Sequence):
            raise UserError(f"seeds={self.seeds!r} is no list: write seeds=[0, 1, 2]")
        if not isinstance(self.settings, Mapping):
            raise UserError(f'settings={self.settings!r} are not named: write settings={{"steps": 2000}}')

    def jobs(self) -> list[Job]:
        found = []
        for words, own in self.methods.items():
            method, _, variant = words.partition(" ")
            for task in self.tasks:
                for seed in self.seeds:
                    found.append(Job(task, method, seed, variant, self.shots, {**self.settings, **own}))
        return in_order(found)


def of_table(
    table: PaperTable,
    *,
    methods: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
) -> list[Job]:
    """The runs of a table of the paper.

    Args:
        table: which.
        methods: only these lines: a method's name takes all its variants, a line's printed label that one. Without, all
            whose methods are installed.
        tasks: only these columns, as printed ("A->C") or as `hda fit --task` takes them.
        seeds: of every run.

    Raises:
        UserError: a method or task is none of the table's, or a method is not installed.
    """
    absent = lacking(table)
    lines = [line for line in table.lines if line.method not in absent]
    if methods is not None:
        lines = _chosen_lines(table, methods)
        named = list(dict.fromkeys(line.method for line in lines if line.method in absent))
        if named:
            raise UserError(
                f"{', '.join(named)} of {table.name} cannot be run, being no method here for {table.setting}: leave it out"
            )
    columns = table.columns if tasks is None else _chosen_columns(table, tasks)
    jobs = [
        Job(
            column.task,
            line.method,
            seed,
            line.variant,
            column.shots,
            {"backbone": table.backbone, **line.settings},
            table.name,
        )
        for line in lines
        for column in columns
        for seed in seeds
    ]
    return in_order(jobs)


def lacking(table: PaperTable) -> list[str]:
    """The methods of a table that are not installed, or do not know its setting."""
    there = registered("methods")
    return [
        name
        for name in dict.fromkeys(line.method for line in table.lines)
        if name not in there or table.setting not in there[name].supports
    ]


def chosen(
    jobs: Sequence[Job],
    *,
    methods: Iterable[str] | None = None,
    tasks: Iterable[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Job]:
    """Some of the runs of a grid of one's own.

    Args:
        jobs: all of them.
        methods: as the grid calls them; a method's name takes all its variants.
        tasks: as the grid calls them, or without the dataset.
        seeds: instead of the grid's.

    Raises:
        UserError: a method or task is none of the grid's.
    """
    found = list(jobs)
    if methods is not None:
        found = _those(found, methods, "method", lambda job: (job.method, job.called))
    if tasks is not None:
        found = _those(found, tasks, "task", lambda job: (job.task, job.name))
    if seeds is not None:
        alike = {_without_seed(job): job for job in reversed(found)}
        found = [replace(job, seed=seed) for job in reversed(alike.values()) for seed in seeds]
    return in_order(found)


def read(path: Path) -> list[Job]:
    """The runs of a grid of one's own: a Python file with a `GRID`, or with a list of `Job` called `JOBS`.

    The file is run: it is code, and the user's own.

    Raises:
        UserError: the file is not there, fails, or has neither.
    """
    if not path.is_file():
        raise UserError(f"the grid {path} does not exist: give a Python file with a GRID, or the name of a table")
    try:
        names = runpy.run_path(str(path))
    except UserError as error:
        raise UserError(f"the grid {path} is not right: {error}") from None
    except Exception as error:  # whatever somebody's own code raises
        raise UserError(f"the grid {path} fails ({type(error).__name__}: {error}): mend it first") from error
    grid, jobs = names.get("GRID"), names.get("JOBS")
    if isinstance(grid, Grid):
        return grid.jobs()
    if isinstance(jobs, Sequence) and jobs and all(isinstance(job, Job) for job in jobs):
        return in_order(list(jobs))
    raise UserError(f"the grid {path} has neither a GRID of hda.bench.Grid nor JOBS of hda.bench.Job: give it one")


def with_settings(jobs: Iterable[Job], settings: Mapping[str, Any]) -> list[Job]:
    """The same runs with further settings, which count before those that the runs have."""
    return [replace(job, settings={**job.settings, **settings}, added=dict(settings)) for job in jobs]


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """The runs with those of one shape beside each other, else in the order given."""
    first: dict[tuple[str, ...], int] = {}
    for index, job in enumerate(jobs):
        first.setdefault(job.shape, index)
    return sorted(jobs, key=lambda job: first[job.shape])


def _without_seed(job: Job) -> str:
    return repr(replace(job, seed=0))


def _those(jobs: Sequence[Job], names: Iterable[str], kind: str, called: Callable[[Job], tuple[str, ...]]) -> list[Job]:
    found: list[Job] = []
    for name in names:
        of_name = [job for job in jobs if name in called(job)]
        if not of_name:
            raise unknown(f"{kind} of the grid", name, {called(job)[-1] for job in jobs})
        found += [job for job in of_name if job not in found]
    return found


def _chosen_lines(table: PaperTable, methods: Iterable[str]) -> list[Line]:
    known = {line.method for line in table.lines} | {line.label for line in table.lines}
    chosen: list[Line] = []
    for name in methods:
        found = [line for line in table.lines if name in (line.method, line.label)]
        found = found or [
            line for line in table.lines if name.lower() == line.label.lower()
        ]  # table 1's "cdan" is CDAN+E
        if not found:
            raise unknown(f"method of {table.name}", name, known)
        chosen += [line for line in found if line not in chosen]
    return chosen


def _chosen_columns(table: PaperTable, tasks: Iterable[str]) -> list[Column]:
    chosen: list[Column] = []
    for name in tasks:
        plain = name.replace("_", " ")
        found = [c for c in table.columns if plain in (c.label, c.task, c.task.partition(":")[2])]
        if not found:
            raise unknown(f"task of {table.name}", name, [column.label for column in table.columns])
        chosen += [column for column in found if column not in chosen]
    return chosen
