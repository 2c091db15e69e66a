import statistics

import numpy as np
import pytest

from hda.analysis.embedding import Embedding
from hda.report.demo import DemoFigures, demo_page

PLAIN, HDAN = (82.04, 83.35, 84.61), (91.0, 91.72, 92.4)


@pytest.fixture
def runs(make_run):
    def make(plain=PLAIN, hdan=HDAN):
        return (
            [make_run("source-only", seed, accuracy) for seed, accuracy in enumerate(plain)],
            [make_run("hdan", seed, accuracy) for seed, accuracy in enumerate(hdan)],
        )

    return make


def page_of(plain, hdan, **more):
    random = np.random.default_rng(0)
    pictures = random.integers(0, 256, (8, 32, 32, 3), dtype=np.uint8)
    points = random.normal(size=(2, 20, 2)).astype(np.float32)
    embedding = Embedding(points[0], points[1], np.arange(20), np.arange(20))
    given = {
        "source_only": plain,
        "hdan": hdan,
        "source_pictures": pictures,
        "target_pictures": pictures,
        "planes": {"source-only": embedding, "HDAN": embedding},
        "seconds": 123.4,
        "settings": {"steps": 60, "weights": "/home/someone/models/w.pth", "size": None},
        "facts": {"torch": "2.11.0", "device": "cpu"},
    }
    return demo_page(**(given | more))


def test_the_table_holds_means_deviations_and_every_seed(runs, checked):
    parsed = checked(page_of(*runs()))
    for name, values in (("source-only", PLAIN), ("HDAN", HDAN)):
        numbers = [statistics.mean(values), statistics.stdev(values), *values]
        assert parsed.row(name) == [name, *(f"{number:.1f}" for number in numbers)]
    assert parsed.row("method") == ["method", "mean", "deviation", "seed 0", "seed 1", "seed 2"]


def test_the_headline_gives_the_result(runs, checked):
    page = page_of(*runs())
    words = "HDAN reads 91.7 % of handwritten digits, source-only 83.3 %: +8.4 points, mean of 3 seeds"
    assert words in checked(page).text.replace("\u00a0", " ")


def test_figures_are_in_the_order_of_the_seeds(runs):
    plain, hdan = runs()
    figures = DemoFigures.of(plain[::-1], [hdan[1], hdan[2], hdan[0]])
    assert figures == DemoFigures((0, 1, 2), PLAIN, HDAN)


def test_the_gain_is_the_difference_of_the_numbers_shown():
    figures = DemoFigures((0,), (84.26,), (92.14,))  # 7.88 apart, shown as 84.3 and 92.1
    assert figures.headline == "HDAN reads 92.1 % of handwritten digits, source-only 84.3 %: +7.8 points, one seed"


def test_a_loss_is_not_hidden():
    assert ": \u22122.0 points" in DemoFigures((0,), (84.0,), (82.0,)).headline


def test_the_page_says_what_was_done_and_measured(runs, checked):
    page = page_of(*runs())
    text = checked(page).text.replace("\u00a0", " ")
    assert "4,000 typed digits" in text
    assert "1,797 handwritten" in text
    assert "the last iteration (60), not at the best one" in text
    assert "nothing is trained or tuned on them" in text
    assert "Measured: 1 at iteration 1, 0.0167 at iteration 60." in text  # similarity
    assert "Measured: 0.4 at iteration 1, 0.00667 at iteration 60." in text  # independence
    assert "Measured: 0.5 at iteration 1, 0.00833 at iteration 60." in text  # mean |H|
    assert "2 min 3 s" in text
    assert "/home/someone" not in page


def test_figures_of_the_page(runs, checked):
    parsed = checked(page_of(*runs()))
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("img") == 2  # samples
    assert tags.count("svg") == 1 + 2 + 3 + 2  # accuracy, losses, constraints, planes
    assert "not measured" not in parsed.text


def test_planes_may_be_coloured_by_class(runs, checked):
    labels = (np.arange(20) % 3, np.arange(20) % 3)
    parsed = checked(page_of(*runs(), plane_labels=labels))
    assert parsed.text.count("the same points, coloured by class") == 2


def test_one_seed_has_no_deviation(runs, checked):
    parsed = checked(page_of(*runs((82.0,), (91.0,))))
    assert parsed.row("HDAN") == ["HDAN", "91.0", "\u2013", "91.0"]
    assert "One seed" in parsed.text


def test_termination_stands_in_for_the_heuristics_where_they_are_not_watched(make_run, checked):
    lines = [{"step": step, "classification": 1.0, "termination": 0.3, "target_accuracy": 90.0} for step in (1, 2)]
    page = page_of([make_run("source-only", records=lines)], [make_run("hdan", records=lines)])
    assert "termination loss" in checked(page).text
    assert "mean |H|" not in page


@pytest.mark.parametrize(("plain", "hdan"), [((80.0, 81.0), (90.0,)), ((), ())])
def test_both_methods_have_the_same_seeds(runs, plain, hdan):
    with pytest.raises(ValueError, match="once with each seed"):
        DemoFigures.of(*runs(plain, hdan))


def test_runs_without_an_accuracy_are_refused(make_run):
    done = make_run("hdan")
    for run in (make_run("source-only", 0, None), make_run("mcd", 0, finished=False)):
        with pytest.raises(ValueError, match="no target accuracy"):
            DemoFigures.of([run], [done])
