"""`hda bench table1` to `table4` and `hda bench GRID.py`: the runs of a grid, each once.

hda bench table1 --data DIR                              every method, task and seed of the paper's table 1
hda bench table2 --data DIR --tasks "A->C" --seeds 0     some of it
hda bench my_grid.py --data DIR                          a grid of one's own: a Python file with a GRID
hda bench table1 --data DIR --plan                       shows the plan and the estimate, and stops

What is done is not done again, whatever stopped the command: give the same one, and it goes on. Each run that is done adds a
row to rows.jsonl in the folder, and `hda table` draws the table.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hda.cli.terminal import duration
from hda.errors import UnmetError, UserError
from hda.settings import Option

if TYPE_CHECKING:
    from hda.bench.grid import Job
    from hda.bench.runner import Bench, Planned

SEEDS = (0, 1, 2)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", required=True, help="the folder that the datasets lie in")
    parser.add_argument(
        "--methods",
        action="extend",
        metavar="NAME",
        nargs="+",
        help="only these: names of methods, or lines as printed",
    )
    parser.add_argument(
        "--tasks", action="extend", metavar="TASK", nargs="+", help='only these columns: "A->C", or as `hda fit --task`'
    )
    parser.add_argument(
        "--seeds",
        action="extend",
        metavar="N",
        nargs="+",
        help="seeds of every run (default: 0,1,2, or what the grid says)",
    )
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], help="settings of every run"
    )
    parser.add_argument(
        "--hold-out",
        metavar="X",
        default="0",
        help="share of each target to keep from adaptation, and to measure on too",
    )
    parser.add_argument("--lists", metavar="DIR", help="where published lists are (default: below --data)")
    parser.add_argument("--skip-missing", action="store_true", help="leave out the tasks whose pictures are not there")
    parser.add_argument("--out", metavar="DIR", help="the folder of the runs and their rows (default: runs/bench-WHAT)")
    parser.add_argument(
        "--table-out", metavar="FILE", help="draw the table into a new .txt, .md, .tex or .csv at the end"
    )
    parser.add_argument("--plan", action="store_true", help="show what would be done, and stop")
    parser.add_argument(
        "--at-once",
        metavar="N|auto",
        default="auto",
        help="runs at once on the device (default: auto: 1 on a CPU; on a GPU as many as are clearly faster, measured)",
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="spread the runs over a Ray cluster: auto, or host:port")


def run(args: argparse.Namespace) -> dict[str, Any]:
    from hda.engine.lock import locked

    if args.at_once != "auto":
        _positive(args.at_once)
    jobs = _jobs(args)
    out = _out(args)
    logging.getLogger("hda").setLevel(logging.WARNING)  # a line for each run on how its steps are launched is too much
    again = shlex.join(["hda", *sys.argv[1:]]) if sys.argv[1:2] == ["bench"] else "the same command"
    table_out = _table_out(args)
    with ExitStack() as open_until_the_end:
        cluster = _cluster(args.ray, open_until_the_end) if args.ray else None
        bench = _bench(args, out, cluster)
        jobs, skipped = _there(bench, jobs, args.skip_missing)
        planned = bench.plan(jobs)
        seconds = _show(bench, planned, cluster)
        if args.plan:
            return _result(bench, planned, skipped, planned_only=True)
        if any(not one.done for one in planned):
            out.mkdir(parents=True, exist_ok=True)
            busy = f"another `hda bench` is at work in {out}: wait for it, or give another --out"
            open_until_the_end.enter_context(locked(out / ".lock", busy))
            planned = bench.plan(jobs)  # the other may just have ended
            try:
                failed = _work(args, bench, planned, seconds, cluster)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"`{again}` goes on with it") from None
        else:
            failed = []
    return _tell(args, bench, bench.plan(jobs), skipped, failed, table_out)


def _jobs(args: argparse.Namespace) -> list[Job]:
    """The runs that the words ask for.

    Raises:
        UserError: a word names what is not there.
    """
    from hda.bench import grid
    from hda.bench.paper import TABLES

    tasks, seeds = args.tasks, _seeds(args.seeds)
    if args.what in TABLES:
        table = TABLES[args.what]
        methods = _names(args.methods, {line.label for line in table.lines})
        jobs = grid.of_table(table, methods=methods, tasks=tasks, seeds=seeds or SEEDS)
        absent = grid.lacking(table) if methods is None else []
        if absent:
            print(f"left out, since they are no methods here for {table.setting}: {', '.join(absent)}")
    else:
        jobs = grid.read(Path(args.what))
        methods = _names(args.methods, {job.called for job in jobs})
        jobs = grid.chosen(jobs, methods=methods, tasks=tasks, seeds=seeds)
    return grid.with_settings(jobs, _settings(args.set))


def _out(args: argparse.Namespace) -> Path:
    out = Path(args.out) if args.out else Path("runs") / f"bench-{Path(args.what).stem}"
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is no folder: give another --out")
    if (out / "settings.json").exists():
        raise UserError(f"{out} is the folder of a run, and a grid's runs lie in one of its own: give another --out")
    return out


def _table_out(args: argparse.Namespace) -> Path | None:
    from hda.cli.commands.table import ENDINGS
    from hda.cli.options import new_file

    if args.table_out is None:
        return None
    path = new_file("--table-out", args.table_out)
    if path.suffix not in ENDINGS:
        raise UserError(f"--table-out {path} is of no kind that is known: let it end in {', '.join(ENDINGS)}")
    return path


def _bench(args: argparse.Namespace, out: Path, cluster: Any) -> Bench:
    from hda.bench.runner import Bench

    share = Option("hold_out", float, 0.0, "").parse(args.hold_out)
    lists = None if args.lists is None else Path(args.lists)
    place = None if cluster is None else cluster.place()
    return Bench(out, Path(args.data), hold_out=share, source=args.what, lists=lists, place=place)


def _there(bench: Bench, jobs: Sequence[Job], skip: bool) -> tuple[list[Job], list[str]]:
    """The runs whose pictures are there, and the tasks that are left out.

    Raises:
        UserError: some are not there, and nobody has said to leave them out; or none is.
    """
    missing = bench.missing(jobs)
    if not missing:
        return list(jobs), []
    lacking: dict[str, list[str]] = {}
    for task, domains in missing.items():
        known = lacking.setdefault(task.partition(":")[0], [])
        known += [name for name in domains if name not in known]
    said = "; ".join(f"{', '.join(domains)} of {dataset}" for dataset, domains in lacking.items())
    tasks = len({job.task for job in jobs})
    check = f"`hda data check {next(iter(lacking))} {bench.data}`"
    left = [job for job in jobs if job.task not in missing]
    if not left:
        raise UserError(f"{bench.data} has no {said}, which every task needs: {check} says what is there")
    if not skip:
        raise UserError(
            f"{bench.data} has no {said}, which {len(missing)} of {tasks} tasks need: {check} says what is there, and "
            "--skip-missing leaves those tasks out"
        )
    print(f"left out: {len(missing)} of {tasks} tasks, since {bench.data} has no {said}")
    return left, sorted(missing)


def _show(bench: Bench, planned: Sequence[Planned], cluster: Any) -> dict[str, float]:
    """Print the plan and the estimate; gives the seconds that each run may take, as far as known."""
    from hda.bench.runner import Place, estimate, neighbours
    from hda.cli.text import table

    done, begun = sum(one.done for one in planned), sum(one.share > 0 and not one.done for one in planned)
    counts = Counter((one.job.whole, one.job.variant) for one in planned)
    rows = []
    for (method, variant), runs in counts.items():
        own = [one for one in planned if (one.job.whole, one.job.variant) == (method, variant)]
        tasks, seeds = {(one.job.task, one.job.shots) for one in own}, {one.job.seed for one in own}
        name = f"{method} ({variant})" if variant else method
        finished, steps = sum(one.done for one in own), ", ".join(f"{n:,}" for n in sorted({one.steps for one in own}))
        rows.append([name, *map(str, (len(tasks), len(seeds), runs, finished)), steps])
    print(table(("method", "tasks", "seeds", "runs", "done", "steps"), rows))
    print(
        f"{_runs(len(planned))}: {done:,} done, {begun:,} begun, {len(planned) - done - begun:,} to begin; in {bench.out}"
    )
    left = [one for one in planned if not one.done]
    if not left:
        return {}
    device = (bench.place or Place.here(str(left[0].job.options.get("device", "auto")))).device
    where = device if cluster is None else f"{cluster.nodes} nodes with {device}, {cluster.most} runs at once"
    known = neighbours(bench.out)
    found = estimate(left, known, device)
    if found is None:
        print(
            f"on {where}; no run alike has been done there yet: how long it may take is told by the first run's steps"
        )
        return {}
    print(f"on {where}; about {duration(found[0])} one after the other, by {_rows(found[1])} of runs alike on it")
    each = {one.identity: estimate([one], known, device) for one in left}
    return {
        name: told[0] / max(1e-9, 1 - one.share) for one in left if (told := each[name := one.identity]) is not None
    }


def _work(
    args: argparse.Namespace, bench: Bench, planned: Sequence[Planned], seconds: Mapping[str, float], cluster: Any
) -> list[tuple[Planned, str]]:
    from hda.bench.crew import Crew, Fixed, Measured, Processes, Spec, alone
    from hda.cli.board import showing

    own = None if not args.what.endswith(".py") else Path(args.what)
    left = [one for one in planned if not one.done]
    with showing(planned, seconds) as board:
        if cluster is not None:
            return Crew(bench, planned, board, cluster.hands(Spec.of(bench, own)), Fixed(cluster.most)).work()
        at_once = _at_once(args.at_once, left)
        if at_once == 1:
            return alone(bench, planned, board)
        size = Measured() if at_once is None else Fixed(at_once)
        return Crew(bench, planned, board, Processes(Spec.of(bench, own), at_once), size).work()


def _at_once(word: str, left: Sequence[Planned]) -> int | None:
    """How many runs at once; None where that is to be measured."""
    from hda.engine.device import choose_device

    if word != "auto":
        return _positive(word)
    on_gpu = choose_device(str(left[0].job.options.get("device", "auto"))).type == "cuda"
    return None if on_gpu and len(left) > 1 else 1


def _cluster(address: str, stack: ExitStack) -> Any:
    from hda.bench.cluster import Cluster

    return stack.enter_context(Cluster(address))


def _tell(
    args: argparse.Namespace,
    bench: Bench,
    planned: Sequence[Planned],
    skipped: list[str],
    failed: Sequence[tuple[Planned, str]],
    table_out: Path | None,
) -> dict[str, Any]:
    from hda.bench import rows as result
    from hda.bench.paper import TABLES
    from hda.bench.table import draw
    from hda.cli.commands.table import ENDINGS
    from hda.engine import files

    result_ = _result(bench, planned, skipped, failed=failed)
    rows = [row for row in bench.rows if row["identity"] in {one.identity for one in planned}]
    name = args.what if args.what in TABLES else None
    if rows:
        drawn = draw(result.newest(rows), name=name)
        print(f"\n{drawn.draw('text')}\n")
        if table_out is not None:
            files.write_text(table_out, drawn.draw(ENDINGS[table_out.suffix]) + "\n")
            print(f"the table is in {table_out}")
    option = f" --table {name}" if name else ""
    print(f"the rows are in {bench.out / 'rows.jsonl'}: `hda table {bench.out}{option}` draws them again")
    if failed:
        raise UnmetError(f"{_runs(len(failed))} failed: {failed[0][0].job.title}: {failed[0][1]}", result_)
    return result_


def _result(
    bench: Bench,
    planned: Sequence[Planned],
    skipped: list[str],
    failed: Sequence[tuple[Planned, str]] = (),
    planned_only: bool = False,
) -> dict[str, Any]:
    runs = [
        {
            "task": one.job.task,
            "method": one.job.whole,
            "variant": one.job.variant,
            "shots": one.job.shots,
            "seed": one.job.seed,
            "identity": one.identity,
            "run": str(one.folder),
            "done": one.done,
        }
        for one in planned
    ]
    told = {"out": str(bench.out), "done": sum(one.done for one in planned), "of": len(planned)}
    more = {} if planned_only else {"failed": [{"run": str(one.folder), "reason": why} for one, why in failed]}
    return {**told, "skipped": skipped, **more, "runs": runs}


def _names(words: Sequence[str] | None, known: Container[str] = ()) -> list[str] | None:
    """Names that are words of their own, or joined by commas; a known one may hold commas itself."""
    if words is None:
        return None
    split = [[word] if word in known else word.split(",") for word in words]
    return [name.strip() for names in split for name in names if name.strip()]


def _seeds(words: Sequence[str] | None) -> list[int] | None:
    if words is None:
        return None
    option = Option("seeds", int, 0, "")
    found = list(dict.fromkeys(option.parse(word) for word in _names(words) or []))
    if not found or min(found) < 0:
        raise UserError("--seeds takes whole numbers from 0: give 0,1,2 for example")
    return found


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """Settings by name, from NAME=VALUE words.

    Raises:
        UserError: one is no such word, or is set by an option of its own.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not equals or not name or not value:
            raise UserError(f"--set {word!r} is no setting: write it as NAME=VALUE, for example steps=2000")
        if name in ("method", "seed"):
            raise UserError(f"--set {word!r} has an option of its own: give --{name}s instead")
        if name in found:
            raise UserError(f"--set gives {name} twice: leave one out")
        found[name] = value
    return found


def _positive(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise UserError(f"--at-once takes a whole number from 1, or auto: got {word!r}")
    return int(word)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
