import numpy as np
import pytest

from hda.analysis.embedding import tsne


def features(rows: int, centre: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(centre, 1.0, size=(rows, 10)).astype(np.float32)


def test_rows_are_embedded_in_the_plane_in_their_order():
    embedding = tsne(features(30, 0.0, 0), features(20, 0.0, 1))
    assert embedding.source.shape == (30, 2)
    assert embedding.target.shape == (20, 2)
    assert embedding.source_rows.tolist() == list(range(30))
    assert embedding.target_rows.tolist() == list(range(20))
    assert np.isfinite(embedding.source).all()
    assert np.isfinite(embedding.target).all()


def test_far_domains_stay_apart_and_near_rows_together():
    source, target = features(40, 0.0, 0), features(40, 20.0, 1)
    embedding = tsne(source, target, perplexity=10.0)
    points = np.concatenate([embedding.source, embedding.target])
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest_is_of_the_source = distances.argmin(axis=1) < 40
    assert nearest_is_of_the_source.tolist() == [True] * 40 + [False] * 40


def test_many_rows_are_thinned_and_the_rows_that_stay_are_named():
    source, target = features(60, 0.0, 0), features(8, 0.0, 1)
    first = tsne(source, target, limit=20)
    assert first.source.shape == (20, 2)
    assert first.target_rows.tolist() == list(range(8))
    rows = first.source_rows
    assert len(set(rows.tolist())) == 20
    assert (np.diff(rows) > 0).all()
    assert rows.min() >= 0
    assert rows.max() < 60
    assert tsne(source, target, limit=20, seed=1).source_rows.tolist() != rows.tolist()


def test_the_seed_decides_the_points():
    source, target = features(25, 0.0, 0), features(25, 1.0, 1)
    first, again = (tsne(source, target, limit=15, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.source, again.source)
    np.testing.assert_array_equal(first.target, again.target)
    assert first.source_rows.tolist() == again.source_rows.tolist()


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_few_rows_lower_the_perplexity(rows):
    embedding = tsne(features(rows, 0.0, 0), features(rows, 0.0, 1))
    assert embedding.source.shape == embedding.target.shape == (rows, 2)
    assert np.isfinite(embedding.source).all()


def test_double_and_single_precision_features_mix():
    embedding = tsne(features(6, 0.0, 0).astype(np.float64), features(6, 0.0, 1))
    assert embedding.source.dtype == np.float32
