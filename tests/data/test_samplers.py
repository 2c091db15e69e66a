import json

import numpy as np
import pytest

from hda.batch import Layout
from hda.data.samplers import Sampler, Stream


def draws(sampler: Sampler, count: int) -> list[tuple[list[int], list[int]]]:
    taken = [sampler.next() for _ in range(count)]
    return [(draw.pictures.tolist(), draw.domains.tolist()) for draw in taken]


def make(k: int = 1, labelled: int = 0, mixing: str = "random", seed: int = 5) -> Sampler:
    layout = Layout(source=4 * k, labelled_target=4 if labelled else 0, target=3)
    return Sampler(tuple(range(11, 11 + k)), labelled, 10, layout, seed, mixing)


# A stream


def test_a_stream_visits_each_picture_once_an_epoch():
    stream = Stream(size=12, batch=4, seed=0, key=0)
    epochs = [np.concatenate([stream.take(4) for _ in range(3)]).tolist() for _ in range(3)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3


def test_a_stream_drops_the_last_partial_batch_of_an_epoch():
    stream = Stream(size=10, batch=4, seed=0, key=0)
    epochs = [np.concatenate([stream.take(4) for _ in range(2)]).tolist() for _ in range(200)]
    assert all(len(set(epoch)) == 8 for epoch in epochs)
    left_out = {number for epoch in epochs for number in set(range(10)) - set(epoch)}
    assert left_out == set(range(10))  # others every time


def test_a_stream_of_fewer_pictures_than_a_batch_is_shuffled_again_within_the_batch():
    stream = Stream(size=3, batch=8, seed=0, key=0)
    drawn = np.concatenate([stream.take(8) for _ in range(30)]).reshape(80, 3)
    np.testing.assert_array_equal(np.sort(drawn, axis=1), np.tile([0, 1, 2], (80, 1)))
    assert len(set(map(tuple, drawn.tolist()))) == 6  # every order occurs


def test_how_much_is_taken_at_once_does_not_matter():
    one, other = (Stream(size=10, batch=4, seed=3, key=1) for _ in range(2))
    pieces = [other.take(count) for count in (1, 7, 0, 20, 2)]
    np.testing.assert_array_equal(one.take(30), np.concatenate(pieces))


def test_a_stream_depends_on_seed_and_key():
    orders = [Stream(100, 10, seed, key).take(100).tolist() for seed, key in ((0, 0), (0, 1), (1, 0), (0, 0))]
    assert len(set(map(tuple, orders))) == 3
    assert orders[0] == orders[3]


def test_a_stream_goes_on_from_its_position_alone():
    for position in range(25):
        whole, resumed = Stream(10, 4, 0, 0), Stream(10, 4, 0, 0, position=position)
        whole.take(position)
        np.testing.assert_array_equal(resumed.take(13), whole.take(13))


# Batches


def test_rows_are_source_then_target_and_domains_are_numbered_target_first():
    for pictures, domains in draws(make(), 20):
        assert domains == [1] * 4 + [0] * 3
        assert all(0 <= number < 11 for number in pictures[:4])
        assert all(11 <= number < 21 for number in pictures[4:])


def test_the_labelled_target_is_domain_one_and_the_source_domain_two():
    for pictures, domains in draws(make(labelled=6), 20):
        assert domains == [2] * 4 + [1] * 4 + [0] * 3
        assert all(0 <= number < 11 for number in pictures[:4])
        assert all(11 <= number < 17 for number in pictures[4:8])
        assert all(17 <= number < 27 for number in pictures[8:])


@pytest.mark.parametrize("mixing", ["random", "balanced"])
@pytest.mark.parametrize(("labelled", "first"), [(0, 1), (6, 2)])
def test_pictures_of_several_sources_belong_to_the_domain_that_is_named(mixing, labelled, first):
    edges = [0, 11, 23, 36]  # sources of 11, 12 and 13 pictures
    for pictures, domains in draws(make(3, labelled, mixing), 20):
        for number, domain in zip(pictures[:12], domains[:12], strict=True):
            assert edges[domain - first] <= number < edges[domain - first + 1]
        assert domains[12:] == ([1] * 4 if labelled else []) + [0] * 3


def test_balanced_mixing_gives_every_source_as_many_rows():
    for _, domains in draws(make(3, mixing="balanced"), 10):
        assert domains[:12] == [1] * 4 + [2] * 4 + [3] * 4


def test_balanced_mixing_of_rows_that_do_not_divide_differs_by_one():
    sampler = Sampler((5, 5, 5), 0, 5, Layout(10, 0, 1), 0, "balanced")
    assert sorted(np.bincount(sampler.next().domains, minlength=4)[1:].tolist()) == [3, 3, 4]


def test_random_mixing_draws_the_source_of_each_row_evenly_and_independently():
    domains = np.array([domains[:12] for _, domains in draws(make(3), 1000)])
    shares = np.array([(domains == source).mean(axis=0) for source in (1, 2, 3)])
    assert np.abs(shares - 1 / 3).max() < 0.06  # four deviations of a mean of 1,000
    counts = (domains == 1).sum(axis=1)
    assert counts.var() == pytest.approx(12 * 1 / 3 * 2 / 3, rel=0.2)  # as a binomial has it


@pytest.mark.parametrize("mixing", ["random", "balanced"])
def test_several_sources_visit_each_picture_once_an_epoch(mixing):
    sampler = make(3, mixing=mixing)
    rows = [pair for pictures, domains in draws(sampler, 60) for pair in zip(pictures, domains, strict=True)]
    for source, (start, size) in enumerate([(0, 11), (11, 12), (23, 13)], start=1):
        numbers = [number for number, domain in rows if domain == source]
        for epoch in range(len(numbers) // size):
            assert sorted(numbers[epoch * size : (epoch + 1) * size]) == list(range(start, start + size))


def test_one_source_drops_its_last_partial_batch():
    sampler = make()  # 11 pictures, 4 a batch
    for _ in range(10):
        epoch = [number for pictures, _ in draws(sampler, 2) for number in pictures[:4]]
        assert len(set(epoch)) == 8
    assert sampler.state()["positions"][0] == 80


def test_small_domains_fill_a_batch_again_and_again():
    sampler = Sampler((2,), 1, 3, Layout(5, 3, 7), 0)
    for pictures, _ in draws(sampler, 20):
        assert sorted(set(pictures[:5])) == [0, 1]
        assert pictures[5:8] == [2, 2, 2]
        assert sorted(set(pictures[8:])) == [3, 4, 5]


def test_a_target_that_is_not_looked_at_takes_no_rows():
    sampler = Sampler((8,), 4, 0, Layout(4, 2, 0), 0)
    for pictures, domains in draws(sampler, 5):
        assert domains == [2] * 4 + [1] * 2
        assert max(pictures) < 12


# Resuming


@pytest.mark.parametrize("mixing", ["random", "balanced"])
@pytest.mark.parametrize("labelled", [0, 6])
@pytest.mark.parametrize("k", [1, 3])
def test_a_sampler_goes_on_exactly_from_its_state_at_any_step(k, labelled, mixing):
    whole = make(k, labelled, mixing)
    for _ in range(12):
        resumed = make(k, labelled, mixing)
        resumed.restore(json.loads(json.dumps(whole.state())))
        ahead = make(k, labelled, mixing)
        ahead.restore(whole.state())
        assert draws(resumed, 7) == draws(ahead, 7)
        whole.next()
    fresh = make(k, labelled, mixing)
    straight = draws(fresh, 20)
    assert draws(whole, 8) == straight[12:]


def test_a_restored_sampler_forgets_where_it_was():
    sampler = make(3)
    state = sampler.state()
    first = draws(sampler, 30)
    sampler.restore(state)
    assert draws(sampler, 30) == first


def test_a_sampler_depends_on_the_seed():
    assert draws(make(3, seed=1), 3) != draws(make(3, seed=2), 3)
    assert draws(make(3, seed=1), 3) == draws(make(3, seed=1), 3)
