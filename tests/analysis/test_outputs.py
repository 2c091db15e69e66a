import numpy as np
import pytest
import torch

import hda
from hda.analysis.outputs import Outputs, Pictures, Sight, outputs
from hda.data import augment
from hda.data.digits import digits

QUICK = {"backbone": "small", "weights": "none", "augment": "affine", "steps": 1, "batch": 8, "device": "cpu"}


@pytest.fixture(scope="module")
def few():
    scenario, _ = digits()
    sources = tuple(scenario.sources[0].select(range(first, first + 20)) for first in (0, 20))
    return hda.Scenario(sources, scenario.target.select(range(30)), classes=scenario.classes)


@pytest.fixture(scope="module")
def run(few, tmp_path_factory):
    return hda.fit(few, out=tmp_path_factory.mktemp("outputs") / "run", method="hdan", heuristics=2, **QUICK)


def test_outputs_are_what_the_head_makes_of_the_features(run, few):
    sight = Sight(run)
    pictures = sight.read([source.images for source in few.sources], few.target, 25)
    assert (len(pictures.source), len(pictures.target)) == (25, 25)
    found = sight.look(pictures)
    for part in found:
        np.testing.assert_allclose(part.g, part.f - part.heuristic, atol=1e-5)
        assert part.h.shape == (25, 2, 10)
    np.testing.assert_array_equal(found.h[25:], found.target.h)
    method = run.method()
    view = augment.evaluation("affine", method.backbone.size, method.backbone.mean, method.backbone.std)
    with torch.no_grad():
        expected = method(view(torch.from_numpy(pictures.target)))
    np.testing.assert_allclose(found.target.g, expected.numpy(), atol=1e-5)


def test_rows_name_the_pictures_over_all_sources(run, few):
    pictures = Sight(run).read([source.images for source in few.sources], few.target, 25)
    assert (np.diff(pictures.source_rows) > 0).all()
    assert pictures.source_rows.min() < 20 <= pictures.source_rows.max() < 40
    for row, picture in zip(pictures.source_rows, pictures.source, strict=True):
        np.testing.assert_array_equal(few.sources[row // 20].images.array(row % 20), picture)
    for row, picture in zip(pictures.target_rows, pictures.target, strict=True):
        np.testing.assert_array_equal(few.target.array(row), picture)
    again = Sight(run).read([source.images for source in few.sources], few.target, 25)
    np.testing.assert_array_equal(again.target_rows, pictures.target_rows)


def test_thinned_pictures_keep_their_rows():
    many = Pictures(np.arange(10), np.arange(7), np.arange(10) + 100, np.arange(7) + 200)
    few = many.thinned(4)
    assert few.source.tolist() == [0, 3, 6, 9]
    assert few.source_rows.tolist() == [100, 103, 106, 109]
    assert few.target_rows.tolist() == [200, 202, 204, 206]
    assert many.thinned(50).source.tolist() == many.source.tolist()


@pytest.mark.parametrize(("name", "options"), [("source-only", {}), ("mcd", {}), ("hdan", {"heuristics": 0})])
def test_methods_without_heuristics_have_features_and_answers(make_method, name, options):
    method = make_method(name, **options).eval()
    found = Outputs(*outputs(method, torch.rand(3, 3, 16, 16)))
    assert (found.f, found.h) == (None, None)
    assert found.g.shape[0] == found.features.shape[0] == 3
