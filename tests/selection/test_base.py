import dataclasses

import numpy as np
import pytest

from hda.data.scenario import Answers
from hda.errors import UserError
from hda.registry import registered
from hda.selection import Labelled, Seen, Unlabelled, Validator, best, ranks, validator
from hda.selection.base import shuffled, standardised
from hda.selection.oracle import Oracle

VALIDATORS = sorted(registered("selection"))
ALONE = [name for name in VALIDATORS if not registered("selection")[name].relative]
NEEDED = {
    "class-ami", "dev", "entropy", "importance-weighted", "infomax", "nuclear-norm", "ranks", "reverse", "snd",
    "source-accuracy",
}  # fmt: skip


def permuted(part: Unlabelled, seed: int) -> Unlabelled:
    rows = np.random.default_rng(seed).permutation(len(part))
    values = {field.name: getattr(part, field.name)[rows] for field in dataclasses.fields(part)}
    return type(part)(**values)


def test_every_validator_is_found_and_says_what_it_is():
    assert set(VALIDATORS) >= NEEDED
    for name in VALIDATORS:
        found = validator(name)
        assert isinstance(found, Validator)
        assert found.name == name
        assert found.summary
        assert found.paper
        assert found.needs <= {"source", "held_out"}
        assert type(found).__doc__


def test_an_unknown_validator_is_told_with_the_nearest():
    with pytest.raises(UserError, match=r"^unknown validator 'sdn': did you mean 'snd'"):
        validator("sdn")


def test_the_oracle_is_no_validator(make_seen):
    assert not any("oracle" in name for name in VALIDATORS)
    assert not issubclass(Oracle, Validator)
    seen = make_seen()
    right = seen.target.predicted.copy()
    right[:10] = (right[:10] + 1) % 4
    right[10:20] = -1  # not scored
    assert Oracle(Answers(right, tuple("abcd"))).score(seen) == pytest.approx(100 * 30 / 40)


# What a validator sees


def test_no_field_holds_a_target_label(make_seen):
    assert {field.name for field in dataclasses.fields(Seen)} == {"target", "source", "held_out"}
    assert {field.name for field in dataclasses.fields(Unlabelled)} == {"features", "logits"}
    seen = make_seen()
    with pytest.raises(TypeError, match="the target is of the type Unlabelled"):
        Seen(seen.source)
    with pytest.raises(TypeError):
        Unlabelled(seen.target.features, seen.target.logits, labels=np.zeros(50, dtype=np.int64))
    with pytest.raises(dataclasses.FrozenInstanceError):
        seen.target = seen.source


def test_rows_must_go_together():
    rows = np.zeros((3, 2))
    with pytest.raises(ValueError, match="a row a picture"):
        Unlabelled(rows, rows[:2])
    with pytest.raises(ValueError, match="as many labels"):
        Labelled(rows, rows, np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("name", ALONE)
def test_what_is_needed_is_said_and_nothing_else_is_looked_at(name, make_seen):
    judge, seen = validator(name), make_seen()
    only = {part: getattr(seen, part) for part in judge.needs}
    assert judge.score(Seen(seen.target, **only)) == judge.score(seen)
    for part in judge.needs:
        with pytest.raises(ValueError, match=f"the validator {name} needs Seen.{part}"):
            judge.score(dataclasses.replace(seen, **{part: None}))


@pytest.mark.parametrize("name", ALONE)
def test_the_order_of_the_pictures_is_of_no_account(name, make_seen):
    judge, seen = validator(name), make_seen()
    other = Seen(permuted(seen.target, 1), permuted(seen.source, 2), permuted(seen.held_out, 3))
    assert judge.score(other) == pytest.approx(judge.score(seen), rel=1e-6)
    assert judge.score(make_seen(seed=5)) != judge.score(seen)


@pytest.mark.parametrize("name", ALONE)
def test_a_score_is_a_number_of_its_own_that_nothing_else_moves(name, make_seen):
    judge, seen = validator(name), make_seen()
    before = {field: getattr(seen.target, field).copy() for field in ("features", "logits")}
    state = np.random.get_state()[1].tolist()  # noqa: NPY002 - the generator that others share
    first = judge.score(seen)
    assert type(first) is float
    assert judge.score(seen) == first
    assert np.random.get_state()[1].tolist() == state  # noqa: NPY002
    assert all(np.array_equal(getattr(seen.target, field), value) for field, value in before.items())


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("kind", ["one class", "all alike", "sure", "two rows"])
def test_a_model_gone_wrong_still_has_a_finite_score(name, kind, make_seen):
    seen = make_seen(rows=(2, 2, 2) if kind == "two rows" else (12, 9, 10))

    def spoilt(part):
        features, logits = part.features.copy(), part.logits.copy()
        if kind == "one class":
            logits[:, 1] += 100
        elif kind == "all alike":
            features[:], logits[:] = 0, 1
        elif kind == "sure":
            features, logits = features * 1e6, logits * 1e4
        return dataclasses.replace(part, features=features, logits=logits)

    other = Seen(spoilt(seen.target), spoilt(seen.source), spoilt(seen.held_out))
    assert np.isfinite(validator(name).score(other))


# What validators share


def test_places_are_counted_from_the_lowest_and_shared_by_equals():
    assert ranks(np.array([3.0, 1.0, 2.0])).tolist() == [3, 1, 2]
    assert ranks(np.array([5.0, 1.0, 5.0, 5.0])).tolist() == [3, 1, 3, 3]
    values = np.random.default_rng(0).integers(5, size=40).astype(float)
    by_hand = [np.mean([1 + sum(values < v) + k for k in range(sum(values == v))]) for v in values]
    np.testing.assert_allclose(ranks(values), by_hand)


def test_the_first_of_the_best_is_chosen():
    assert best(validator("entropy"), [{"entropy": -2.0}, {"entropy": -1.0}, {"entropy": -1.0}]) == 1


def test_a_shuffle_follows_the_rows():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    order, back = shuffled(rows), np.random.default_rng(1).permutation(20)
    np.testing.assert_array_equal(rows[order], rows[back][shuffled(rows[back])])
    assert sorted(order.tolist()) == list(range(20))
    assert order.tolist() != list(range(20))


def test_features_are_standardised_by_the_rows_they_are_compared_with():
    like = np.array([[1.0, 7.0], [3.0, 7.0]])
    np.testing.assert_allclose(standardised(np.array([[4.0, 9.0]]), like), [[2.0, 2.0]])
