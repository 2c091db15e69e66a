import numpy as np
import pytest

from hda.analysis import heuristics


def test_sizes_and_cosines_against_loops():
    random = np.random.default_rng(0)
    g, parts = random.normal(size=(7, 4)).astype(np.float32), random.normal(size=(7, 3, 4)).astype(np.float32)

    def cos(a, b):
        return a @ b / np.sqrt((a @ a) * (b @ b))

    sizes, to_g, between = (
        heuristics.sizes(parts),
        heuristics.to_transferable(g, parts),
        heuristics.to_each_other(parts),
    )
    for k in range(3):
        assert sizes[k] == pytest.approx(sum(abs(v) for row in parts for v in row[k]) / 28, rel=1e-5)
        assert to_g[k] == pytest.approx(np.mean([cos(g[i], parts[i, k]) for i in range(7)]), rel=1e-4, abs=1e-6)
        for other in range(3):
            expected = np.mean([cos(parts[i, k], parts[i, other]) for i in range(7)])
            assert between[k, other] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_heuristic_of_zeros_has_no_direction():
    parts = np.zeros((2, 2, 3))
    parts[:, 1] = 1.0
    assert heuristics.to_each_other(parts).tolist() == [[0.0, 0.0], [0.0, pytest.approx(1.0)]]
    assert heuristics.to_transferable(np.full((2, 3), -2.0), parts).tolist() == [0.0, pytest.approx(-1.0)]
