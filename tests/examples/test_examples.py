import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def output(name: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_loop_of_ones_own_starts_similar_and_learns_the_target():
    told = output("own_loop.py")
    cosines = [float(value) for value in re.findall(r"\|cos\(G, H\)\| ([\d.]+)", told)]
    assert cosines[0] > 0.999  # the similarity constraint: G = -H at the start
    assert cosines[-1] < 0.95
    assert int(re.findall(r"^(\d+)% of the target", told, re.MULTILINE)[0]) >= 90


def test_a_method_of_ones_own_comes_to_rows_of_a_table():
    lines = output("new_method.py").splitlines()
    rows = {line.split()[0]: line.split()[1].rstrip("*") for line in lines[4:7]}
    assert rows.keys() == {"source-only", "mean-matching", "heuristic+means"}
    assert all(20 < float(accuracy) <= 100 for accuracy in rows.values())
    assert len((EXAMPLES / "new_method.py").read_text().splitlines()) < 60
