"""The command line in processes forked from one that has imported everything, each killed when a test says.

Reads jobs from standard input and answers each on standard output, a line of JSON either way.
"""

import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback


def child(words, out, err):
    code = 1
    try:
        for number, file in enumerate((open(os.devnull), out, err)):  # noqa: SIM115
            os.dup2(file.fileno(), number)
        import torch

        from hda.cli.main import main
        from hda.engine import files

        torch.set_num_threads(1)
        files._sync = lambda path: None  # a kill takes nothing from what the system has already been given
        code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def answer(job):
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            child(job["words"], out, err)
        watch = os.pidfd_open(pid)
        ended, _, _ = select.select([watch], [], [], job["after"])
        os.close(watch)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        out.seek(0)
        err.seek(0)
        return {
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "out": out.read().decode(),
            "err": err.read().decode(),
            "seconds": time.monotonic() - began,
        }


if __name__ == "__main__":
    import timm  # noqa: F401
    import torch._dynamo  # noqa: F401
    import torchvision  # noqa: F401

    import hda.bench.crew
    import hda.cli.grids  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
