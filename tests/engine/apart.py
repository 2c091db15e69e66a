"""Runs in processes of their own: forked from one that has imported everything, each to die where a test says.

Reads jobs from standard input and answers each on standard output, a line of JSON either way. A job either fits the small
task below (`out`, `options`, ...) or runs the command line (`words`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback
from dataclasses import replace
from functools import cache
from pathlib import Path

from hda.data.digits import digits, handwritten_digits, typed_digits
from hda.data.images import LabelledImages
from hda.data.scenario import Answers, Scenario
from hda.engine.reporter import Reporter

SHORT = {
    "backbone": "small",
    "weights": "none",
    "device": "cpu",
    "augment": "affine",
    "steps": 10,
    "batch": 4,
    "log_every": 4,
    "evaluate_every": 5,
    "checkpoint_every": 3,
}


@cache
def task(setting: str = "uda") -> tuple[Scenario, Answers]:
    """40 typed digits and 30 handwritten ones, as one of the three kinds of scenario."""
    scenario, answers = digits(40)
    labelled = None
    if setting == "ssda":
        pictures, labels = handwritten_digits()
        labelled = LabelledImages(pictures.select(range(100, 110)), labels[100:110], scenario.classes)
    sources = (*scenario.sources, typed_digits(20, seed=1)) if setting == "msda" else scenario.sources
    target = scenario.target.select(range(30))
    return replace(scenario, sources=sources, target=target, labelled=labelled), answers.select(range(30))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class At(Reporter):
    """Sends this process a signal when a step is done."""

    def __init__(self, step: int, signal: int) -> None:
        self.step, self.signal = step, signal

    def advance(self, step: int) -> None:
        if step == self.step:
            os.kill(os.getpid(), self.signal)


class Touches:
    """Counts what is changed in the file system below a folder, and dies at a count, or at a named act.

    Everything before that act is done, and nothing of it: interpreters announce what they are about to do.
    """

    EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")

    def __init__(self, folder: Path, at: int | None = None, act: str = "", name: str = "", nth: int = 1) -> None:
        self.folder, self.at, self.act, self.name, self.left = str(folder), at, act, name, nth
        self.count = 0
        sys.addaudithook(self.hear)

    def hear(self, event: str, args: tuple[object, ...]) -> None:
        if event not in self.EVENTS or isinstance(args[0], int):
            return
        if event == "open" and not (args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        path = os.fsdecode(args[1] if event == "os.rename" else args[0])
        if not path.startswith(self.folder) and os.path.isabs(path):
            return
        if self.count == self.at:
            die()
        self.count += 1
        if event == self.act and os.path.basename(path) == self.name:
            self.left -= 1
            if not self.left:
                die()


def tear(name: str) -> None:
    """Die when half of the first tensor file of that name is written."""
    from hda.engine import checkpoint

    save = checkpoint.save_file

    def half(tensors, path):
        save(tensors, path)
        if path.name == name:
            os.truncate(path, path.stat().st_size // 2)
            die()

    checkpoint.save_file = half


def tear_line(number: int) -> None:
    """Die when half of that line of metrics is written."""
    from hda.engine import metrics

    whole, lines = metrics._line, iter(range(number + 1))

    def half(record):
        if next(lines) < number:
            return whole(record)
        raise StopIteration

    def add(self, record):
        try:
            self._file.write(half(record))
        except StopIteration:
            self._file.write(whole(record)[:20])
            self._file.flush()
            die()
        self._file.flush()

    metrics.Metrics.add = add


def fit(job: dict) -> int:
    import hda

    kill = job.get("kill", {})
    reporter, touches = None, None
    if "step" in kill:
        reporter = At(kill["step"], kill.get("signal", signal.SIGKILL))
    elif "tear" in kill:
        tear(kill["tear"])
    elif "line" in kill:
        tear_line(kill["line"])
    scenario, answers = task(job.get("setting", "uda"))
    if "touch" in kill or "act" in kill:
        touches = Touches(Path(job["out"]).parent, kill.get("touch"), *kill.get("act", ()))
    hda.fit(
        scenario,
        out=job["out"],
        evaluate=answers if job.get("evaluate", True) else None,
        resume=job.get("resume", False),
        reporter=reporter,
        **SHORT | job.get("options", {}),
    )
    if touches:
        print(touches.count)
    return 0


def do(job: dict) -> int:
    import torch

    from hda.engine import files

    torch.set_num_threads(job.get("threads", 1))
    files._sync = lambda path: None  # a kill takes nothing from what the system has already been given
    if "words" in job:
        from hda.cli.main import main

        return main(job["words"])
    return fit(job)


def answer(job: dict) -> dict:
    """Do a job in a forked process; how that ended, and what it printed."""
    if "end" in job:  # of a job that was stopped
        os.kill(job["end"], signal.SIGKILL)
        os.waitpid(job["end"], 0)
        return {}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for number, file in enumerate((open(os.devnull), out, err)):  # noqa: SIM115
                    os.dup2(file.fileno(), number)
                code = do(job)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(pid, os.WUNTRACED)
        out.seek(0)
        err.seek(0)
        return {
            "pid": pid,
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "stopped": os.WIFSTOPPED(status),
            "out": out.read().decode(),
            "err": err.read().decode(),
        }


if __name__ == "__main__":
    import timm  # noqa: F401
    import torch._dynamo  # noqa: F401
    import torchvision  # noqa: F401

    import hda.cli.commands.fit
    import hda.engine.fit  # noqa: F401

    for setting in ("uda", "msda", "ssda"):
        task(setting)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
