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
