import numpy as np
import pytest

from hda.selection import Seen, Unlabelled
from hda.selection.class_ami import ClassAMI


def seen_of(predicted: np.ndarray, true: np.ndarray, classes: int = 3) -> Seen:
    """Features in well separated clusters, one for each true class."""
    features = 100 * np.eye(classes)[true] + np.random.default_rng(0).normal(size=(len(true), classes))
    return Seen(Unlabelled(features, np.eye(classes)[predicted]))


def entropy(counts: np.ndarray) -> float:
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


def adjusted(first: np.ndarray, second: np.ndarray, draws: int = 4000) -> float:
    """AMI with the information expected by chance taken from random permutations."""

    def information(a: np.ndarray, b: np.ndarray) -> float:
        table = np.array([[np.sum((a == i) & (b == j)) for j in np.unique(b)] for i in np.unique(a)])
        return entropy(table.sum(0)) + entropy(table.sum(1)) - entropy(table.ravel())

    random = np.random.default_rng(0)
    chance = np.mean([information(first, random.permutation(second)) for _ in range(draws)])
    sizes = [entropy(np.unique(part, return_counts=True)[1]) for part in (first, second)]
    return (information(first, second) - chance) / (np.mean(sizes) - chance)


def test_clusters_and_predictions_that_are_one_and_the_same_agree_fully():
    true = np.arange(30) % 3
    assert ClassAMI().score(seen_of((true + 1) % 3, true)) == pytest.approx(1)


def test_it_is_the_mutual_information_beyond_chance():
    true = np.arange(30) % 3
    predicted = true.copy()
    predicted[::4] = 0
    found = ClassAMI().score(seen_of(predicted, true))  # clusters this far apart are found as they are
    assert found == pytest.approx(adjusted(predicted, true), abs=0.01)


def test_one_class_for_all_is_worth_nothing():
    true = np.arange(30) % 3
    assert ClassAMI().score(seen_of(np.zeros(30, dtype=int), true)) == pytest.approx(0, abs=1e-9)
