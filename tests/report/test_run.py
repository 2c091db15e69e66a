import numpy as np
import pytest

from hda.engine.evaluate import score
from hda.report.run import run_page

BAD = "<script>alert(1)</script>"


def some(count, classes):
    return [(f"folder/{i:03d}.jpg", classes[i % len(classes)], 0.2 + 0.7 * i / count) for i in range(count)]


def test_the_page_of_a_run(make_run, checked):
    run = make_run(predictions=some(40, ("a", "b")))
    page = run_page(run)
    parsed = checked(page)
    text = parsed.text.replace("\u00a0", " ")
    assert "typed->handwritten" in text
    assert "Method hdan with one source (UDA) on the backbone small." in text
    assert parsed.row("target accuracy")[1] == "90.0 %"
    assert parsed.row("mean of the classes' accuracies")[1] == "89.0 %"
    assert parsed.row("iterations")[1] == "60"
    assert "last iteration, not of the best" in text
    assert "Never predicted: c." in text
    assert parsed.row("heuristics")[1] == "3"
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("svg") == 1 + 4 + 4 + 1  # accuracy; total, classification, transfer, lr; constraints; predictions
    assert str(run.path.parent) not in page


def test_the_least_confident_pictures_are_named_first(make_run, checked):
    predictions = some(40, ("a", "b", "c"))
    run = make_run(predictions=predictions[::-1])
    rows = [row for row in checked(run_page(run)).rows if row[0].startswith("folder/")]
    assert rows == [[name, label, f"{100 * value:.1f}"] for name, label, value in predictions[:10]]


def test_an_evaluation_adds_the_confusion(make_run, checked):
    labels, predicted = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 1, 2, 1, 1])
    found = score(predicted, labels, 3)  # no picture of the last class
    parsed = checked(run_page(make_run(accuracy=None), evaluation=found))
    assert parsed.row("accuracy on 6 pictures, evaluated apart")[1] == "50.0 %"
    assert parsed.row("a") == ["a", "25.0", "b (2)"]
    assert parsed.row("b") == ["b", "100.0", "none"]
    assert not any(row[0] == "c" for row in parsed.rows)


def test_a_run_without_answers_says_so(make_run, checked):
    run = make_run(accuracy=None)
    parsed = checked(run_page(run))
    assert "was not measured" in parsed.text
    assert "Target accuracy" not in parsed.text


def test_an_unfinished_run_says_how_far_it_is(make_run, checked):
    run = make_run(finished=False, steps=6000, records=[{"step": 1, "total": 1.0}, {"step": 1200, "total": 0.5}])
    assert "not finished: 1,200 of 6,000 iterations" in checked(run_page(run)).text


def test_a_run_that_has_just_begun(make_run, checked):
    text = checked(run_page(make_run(finished=False, records=[]))).text
    assert "0 of 60 iterations" in text
    assert "No line of metrics is written yet." in text


def test_a_resumed_run_and_its_event(make_run, checked):
    records = [{"step": 1, "total": 1.0}, {"step": 1, "event": "resumed"}, {"step": 2, "total": 0.5}]
    assert checked(run_page(make_run(records=records)))


def test_losses_of_several_phases_are_drawn_each(make_run, checked):
    records = [{"step": step, "all.total": 1.0, "all.classification": 0.5, "apart.total": 2.0} for step in (1, 2, 3)]
    parsed = checked(run_page(make_run("mcd", records=records, accuracy=None)))
    for name in ("all: total", "all: classification", "apart: total"):
        assert name in parsed.text


def test_long_runs_are_smoothed_and_it_is_said(make_run, checked):
    records = [{"step": step, "total": float(step % 7)} for step in range(1, 401)]
    assert "moving averages over 11 lines" in checked(run_page(make_run(records=records))).text


def test_samples_of_either_domain(make_run, checked):
    pictures = np.zeros((3, 16, 16, 3), dtype=np.uint8)
    one = checked(run_page(make_run(seed=1), target_pictures=pictures))
    two = checked(run_page(make_run(seed=2), source_pictures=pictures, target_pictures=pictures))
    assert [sum(tag == "img" for tag, _ in page.tags) for page in (one, two)] == [1, 2]


def test_names_are_escaped_wherever_they_stand(make_run, checked):
    predictions = [(f"{BAD}/1.jpg", BAD, 0.5), ("/home/someone/pictures/cup/2.jpg", "b", 0.6)]
    run = make_run(classes=(BAD, "b", "c"), predictions=predictions, description={"task": f"{BAD}->x"})
    page = run_page(run, evaluation=score(np.array([1, 1]), np.array([0, 1]), 3))
    parsed = checked(page)
    assert "<script" not in page
    assert parsed.text.count(BAD) >= 4
    assert "/home/someone" not in page
    assert "cup/2.jpg" in parsed.text


@pytest.mark.parametrize(
    ("setting", "labelled", "words"), [("msda", 0, "several sources"), ("ssda", 195, "195 of the target")]
)
def test_other_settings(make_run, checked, setting, labelled, words):
    images = {"source": 10, "labelled": labelled, "target": 20}
    assert words in checked(run_page(make_run(description={"setting": setting, "images": images}))).text
