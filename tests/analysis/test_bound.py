import numpy as np
import pytest

from hda.analysis import bound
from hda.analysis.bound import Pair
from hda.analysis.known_ideal import CLASSES, known_ideal, problem


def pairs(count=4, rows=40, classes=3, seed=0):
    random = np.random.default_rng(seed)
    return [Pair(*random.normal(size=(2, rows, classes))) for _ in range(count)]


def test_terms_by_hand():
    one, zero = Pair(np.array([[1.0, -1.0]]), np.array([[2.0, -2.0]])), Pair(np.zeros((1, 2)), np.zeros((1, 2)))
    found = bound.terms(one, zero, Pair(np.array([[0.0, 0.0]]), np.array([[0.5, -0.5]])))
    assert (found.source_risk, found.target_risk) == (1.0, 1.5)
    assert found.ideal_risk == 0.5
    assert (found.source_distance, found.target_distance, found.discrepancy) == (1.0, 2.0, 1.0)
    assert found.bound == 2.5


def test_the_bound_holds_whatever_the_functions_are():
    """It is the triangle inequality, three times."""
    for seed in range(20):
        f, _, ideal, truth = pairs(seed=seed)
        found = bound.terms(f, ideal, truth)
        assert found.target_risk <= found.bound


def test_where_the_assumption_is_made_to_hold_the_factor_is_what_is_measured():
    f, _, ideal, truth = pairs()
    f = Pair(f.source, 3.0 * f.target)  # a discrepancy to speak of
    f, ideal = (Pair(*map(bound.centred, part)) for part in (f, ideal))
    h = Pair(0.4 * (f.source - ideal.source), 0.4 * (f.target - ideal.target))
    found = bound.study(f, h, ideal, truth)
    for part in (found.source, found.target, found.both):
        assert (part.k, part.residual) == (pytest.approx(0.4), pytest.approx(0.0, abs=1e-12))
    assert found.factor == pytest.approx(0.6)
    assert found.ratio == pytest.approx(0.6)
    assert found.fails() == []


def test_where_it_does_not_hold_every_reason_is_told():
    f, h, ideal, truth = pairs()
    gap = f.source - ideal.source
    found = bound.study(f, Pair(0.5 * gap, h.target), ideal, truth)
    said = " ".join(found.fails())
    assert "k is 0.50 on the source and" in said
    assert "On the target k (F - F*) leaves" in said
    assert "On the source k (F" not in said
    assert found.ratio != pytest.approx(found.factor, abs=0.05)


def test_k_is_least_squares():
    random = np.random.default_rng(0)
    h, gap = random.normal(size=(2, 30, 4))
    k, left, *_ = np.linalg.lstsq(gap.reshape(-1, 1), h.reshape(-1), rcond=None)
    found = bound.proportion(h, gap)
    assert found.k == pytest.approx(float(k[0]))
    assert found.residual == pytest.approx(float(left[0]) / (h**2).sum())


def test_a_shift_of_all_classes_changes_nothing():
    f, h, ideal, truth = pairs()
    shifted = Pair(f.source + 7.0, f.target - 3.0)
    first, second = (bound.study(one, h, ideal, truth) for one in (f, shifted))
    assert first.f.as_dict() == pytest.approx(second.f.as_dict())
    assert first.g.as_dict() == pytest.approx(second.g.as_dict())
    assert first.target.k == pytest.approx(second.target.k)


def test_nothing_to_divide_by_is_no_error():
    f, _, _, truth = pairs()
    found = bound.study(f, Pair(np.zeros((40, 3)), np.zeros((40, 3))), f, truth)
    assert (found.both.k, found.both.residual) == (0.0, 0.0)
    assert np.isnan(found.ratio)
    assert found.as_dict()["ratio"] is None  # which JSON can say


def test_the_estimated_ideal_sees_both_domains_and_no_row_its_own_label():
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 200), random.integers(0, 2, 200)
    rows = Pair(*(np.stack([label * 6.0 - 3.0, random.normal(size=200)], axis=1) for label in labels))
    ideal = bound.estimated_ideal(rows, labels, 3)  # of the third class there is no picture
    for scores, label in zip(ideal, labels, strict=True):
        assert (scores[:, :2].argmax(axis=1) == label).all()
        assert (scores[:, 2] <= scores[:, :2].min(axis=1)).all()
    noise = Pair(*(random.normal(size=(200, 300)) for _ in range(2)))
    right = [
        (s.argmax(axis=1) == label).mean()
        for s, label in zip(bound.estimated_ideal(noise, labels, 2), labels, strict=True)
    ]
    assert max(right) < 0.7  # 300 columns would tell 200 rows apart that they were trained on


def test_the_known_ideal_is_ideal():
    """No other function is nearer to the truth, on either domain; the class is that of the highest score."""
    random = np.random.default_rng(1)
    for domain in problem(0, 4000):
        at = bound.distance(bound.centred(domain.ideal), bound.centred(domain.scores))
        for _ in range(20):
            other = domain.ideal + 0.3 * random.normal(size=(1, CLASSES))
            assert bound.distance(bound.centred(other), bound.centred(domain.scores)) > at
        shares = bound.probabilities(domain.ideal)
        assert (domain.labels == domain.ideal.argmax(axis=1)).mean() == pytest.approx(
            shares.max(axis=1).mean(), abs=0.03
        )


def test_the_trained_head_is_measured_along_the_way_and_the_same_twice():
    first, again = (known_ideal(0, measured=(5, 40)) for _ in range(2))
    assert [outcome.updates for outcome in first] == [5, 40]
    assert [outcome.as_dict() for outcome in first] == [outcome.as_dict() for outcome in again]
    assert first[0].study.source.k != first[1].study.source.k
    for outcome in first:
        assert outcome.study.g.target_risk <= outcome.study.g.bound
        assert outcome.target_accuracy < outcome.ideal_accuracy
