import numpy as np
import pytest

from hda.selection import best, validator
from hda.selection.ensemble import Ranks


def test_values_are_mean_places():
    scores = {"infomax": [1, 2, 3], "snd": [3, 2, 1], "class-ami": [1, 3, 2], "reverse": [2, 2, 1]}
    measured = [{name: float(values[i]) for name, values in scores.items()} for i in range(3)]
    places = np.array([[1, 2, 3], [3, 2, 1], [1, 3, 2], [2.5, 2.5, 1]])
    np.testing.assert_allclose(Ranks().values(measured), places.mean(axis=0) / 3)
    assert best(Ranks(), measured) == 1


def test_it_measures_what_its_members_do(make_seen):
    seen = make_seen()
    measured = Ranks().measure(seen)
    assert measured == {name: validator(name).score(seen) for name in ("infomax", "snd", "class-ami", "reverse")}
    with pytest.raises(TypeError, match="a place among several models"):
        Ranks().score(seen)


def test_a_scale_of_its_own_gives_no_member_more_weight(make_seen):
    measured = [Ranks().measure(make_seen(seed=seed)) for seed in range(5)]
    scaled = [{**scores, "snd": 1e6 * scores["snd"] + 3} for scores in measured]
    np.testing.assert_array_equal(Ranks().values(measured), Ranks().values(scaled))
