import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_gpu.py"


@pytest.fixture
def script(monkeypatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("on_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "on_gpu", module)
    spec.loader.exec_module(module)
    return module


def test_the_task_with_a_warm_compile_cache_has_what_the_one_before_it_has_compiled(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["on_gpu.py", "--data", "pictures"])
    measurements = script.measurements(script.arguments())
    cold, warm = (each for each in measurements if "--compile-cache" in each.words)
    assert ("cold" in cold.name, "warm" in warm.name) == (True, True)
    folders = [Path(each.words[each.words.index("--compile-cache") + 1]) for each in (cold, warm)]
    assert folders[0] == folders[1]
    assert list(folders[0].iterdir()) == []
    folders[0].rmdir()
