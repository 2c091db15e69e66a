"""`hda bench --ray` on a real cluster of two nodes, a worker killed in the middle: nothing lost, nothing done twice."""

import os
import signal
import subprocess
import sys

import pytest

import hda
from hda.bench import rows
from hda.bench.cluster import receive, small_files
from hda.bench.crew import Spec
from hda.errors import UserError

MARK = "HDA_TEST_CLUSTER"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The address of a cluster of two nodes with a core each; and what tells its processes from others'."""
    ray_cluster = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    mark = str(tmp_path)
    monkeypatch.setenv(MARK, mark)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    made = ray_cluster.Cluster(initialize_head=True, head_node_args=node)
    try:
        made.add_node(**{name: node[name] for name in ("num_cpus", "object_store_memory")})
        made.wait_for_nodes()
        yield made.address, mark
    finally:
        made.shutdown()


def workers(mark: str) -> list[int]:
    """The processes of this cluster that do runs."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/cmdline", "rb") as words:
                if f"{MARK}={mark}\0".encode() in environment.read() and words.read().startswith(b"ray::Worker"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


@pytest.mark.filterwarnings("ignore")  # Ray's own, on import
def test_a_worker_killed_in_the_middle_loses_nothing_and_nothing_is_done_twice(
    cluster, grid, data, tmp_path, forked, told
):
    address, mark = cluster
    words = ["bench", str(grid), "--data", str(data), "--set", "steps=60", "--out"]
    whole = forked(*words, tmp_path / "whole")
    assert whole["code"] == 0, whole["err"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-m", "hda", *words, str(out), "--ray", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        lines = []
        while not (lines and lines[-1].startswith("began")):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        os.kill(workers(mark)[0], signal.SIGKILL)
        rest, err = process.communicate()
    assert process.returncode == 0, err
    said = [line for line in rest.splitlines() if "a worker has ended" in line]
    assert len(said) == 1
    assert "another goes on in its place" in said[0]
    found = rows.read([out / "rows.jsonl"])
    assert len(found) == 6
    assert told(found) == told(rows.read([tmp_path / "whole" / "rows.jsonl"]))
    for folder in (out / "runs").iterdir():
        run = hda.Run(folder)
        steps = [record["step"] for record in run.records if "lr" in record]
        assert steps == sorted(set(steps)), "steps were done by two workers"
    assert len(list((out / "runs").iterdir())) == 6


def test_without_ray_the_extra_is_named(monkeypatch, grid, data, tmp_path):
    from hda.bench.cluster import Cluster

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r'--ray needs Ray, which is not installed: pip install "hda\[cluster\]"'):
        Cluster("auto").__enter__()


def test_a_run_s_small_files_come_back_where_the_file_system_is_not_shared(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here" / "run"
    there.mkdir()
    (there / "settings.json").write_text("{}")
    (there / "result.json").write_text('{"steps": 3}')
    (there / "predictions.csv").write_text("path,class,confidence\n")
    (there / "model.safetensors").write_bytes(b"weights")
    (there / "checkpoints").mkdir()
    receive(here, small_files(there))
    assert {path.name for path in here.iterdir()} == {"settings.json", "result.json", "predictions.csv"}
    assert (here / "result.json").read_text() == '{"steps": 3}'
    (there / "result.json").write_text("{}")
    receive(here, small_files(there))
    assert (here / "result.json").read_text() == '{"steps": 3}', "what is there is left alone"


def test_a_worker_is_told_whole_paths(grid, data, tmp_path, monkeypatch):
    from hda.bench.runner import Bench

    monkeypatch.chdir(tmp_path)
    spec = Spec.of(Bench(type(tmp_path)("out"), data), type(tmp_path)(grid.name))
    assert all(path.is_absolute() for path in (spec.out, spec.data, spec.grid))
