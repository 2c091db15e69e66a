import dataclasses
import json

import numpy as np
import pytest
from PIL import Image

from hda.analysis.changes import Predicted
from hda.analysis.outputs import Domains, Outputs
from hda.report import draw
from hda.report.figures import EVERY, figures
from hda.report.runs import headline, runs_page
from hda.report.subject import Subject, labels

NAMES = tuple(f"{i}.png" for i in range(30))
LABELS = np.arange(30) % 3


def outputs(rows, heuristics, shift, seed):
    random = np.random.default_rng(seed)
    f, h = random.normal(size=(rows, 3)), random.normal(size=(rows, heuristics, 3)) + shift
    g = f - h.sum(axis=1)
    parts = (random.normal(size=(rows, 8)) + shift, g, *((f, h) if heuristics else (None, None)))
    return Outputs(*(None if part is None else part.astype(np.float32) for part in parts))


@pytest.fixture
def subject(make_run):
    def make(method="hdan", seed=0, wrong=3, **more):
        run = make_run(method, seed)
        heuristics = 3 if method == "hdan" else 0
        domains = Domains(outputs(40, heuristics, 0.0, seed), outputs(40, heuristics, 2.0, seed + 50))
        classes = np.where(np.arange(30) < wrong, (LABELS + 1) % 3, LABELS)
        made = Subject(run, method, NAMES, Predicted(classes, np.linspace(0.4, 0.95, 30)), LABELS, domains=domains)
        return dataclasses.replace(made, **more)

    return make


def by_name(subjects):
    return {figure.name: figure for figure in figures(subjects)}


def test_of_two_methods_every_figure_is_drawn(subject):
    found = by_name([subject("hdan", 0), subject("hdan", 1), subject("source-only", 0, wrong=6)])
    pictures = {"mistakes", "moved"}  # these are galleries, whose pictures cannot be had here
    assert {name for name, figure in found.items() if figure.drawings} == found.keys() - pictures
    assert len(found) == len(EVERY)


def test_domain_accuracy_says_whether_h_has_more_of_the_domain(subject):
    one = subject()
    random = np.random.default_rng(0)
    alike = [dataclasses.replace(part, g=random.normal(size=(40, 3))) for part in one.domains]
    figure = by_name([dataclasses.replace(one, domains=Domains(*alike))])["domain-accuracy"]
    bars = figure.numbers["hdan"]
    assert bars["H"]["mean"] > 90 > 70 > bars["G"]["mean"]  # H is shifted between the domains, G is not
    assert "higher on H, as in the paper" in figure.sentence
    swapped = [dataclasses.replace(part, g=part.heuristic, h=part.g[:, None]) for part in alike]
    told = by_name([dataclasses.replace(one, domains=Domains(*swapped))])["domain-accuracy"].sentence
    assert "not higher on H, other than in the paper" in told


def test_numbers_of_the_heuristics_are_means_over_seeds(subject):
    subjects = [subject("hdan", 0), subject("hdan", 1)]
    end = by_name(subjects)["heuristic-size"].numbers["hdan"]["end"]
    expected = np.mean([np.abs(s.domains.h).mean(axis=(0, 2)) for s in subjects], axis=0)
    np.testing.assert_allclose(end, expected, rtol=1e-6)


def test_gaps_that_are_rounding_alone_are_given_no_verdict(subject):
    one = subject()
    lines = [{"step": 1, "independence_heuristic": 0.0}, {"step": 2, "independence_heuristic": 1.2e-7}]
    (one.run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = by_name([one])["non-gaussianity"].sentence
    assert "gap between G and H: zero throughout, up to rounding" in told
    assert "the paper" not in told


def test_checkpoints_kept_become_curves(subject):
    first, last = subject("hdan", 0).domains, subject("hdan", 1).domains
    figure = by_name([subject("hdan", 2, along={20: first, 40: last})])["heuristic-size"]
    assert figure.numbers["hdan"]["steps"] == [20, 40]
    np.testing.assert_allclose(figure.numbers["hdan"]["values"][1], np.abs(last.h).mean(axis=(0, 2)), rtol=1e-6)
    assert "at the checkpoints kept" in figure.sentence


def test_gains_by_class_against_source_only(subject):
    figure = by_name([subject("hdan", 0, wrong=3), subject("source-only", 0, wrong=9)])["classes"]
    found = figure.numbers["hdan"]
    assert (found["over"], found["won"], found["lost"]) == ("source-only", 6, 0)
    assert found["gains"] == {"a": 20.0, "b": 20.0, "c": 20.0}


def test_calibration_in_words_and_numbers(subject):
    figure = by_name([subject(wrong=0)])["calibration"]
    assert figure.numbers["hdan"]["surplus"] == pytest.approx(100 * (np.linspace(0.4, 0.95, 30).mean() - 1))
    assert "too little sure by" in figure.sentence


def test_without_heuristics_answers_or_a_second_run_a_sentence_stands_for_the_figure(subject):
    alone = subject("source-only", 0, labels=None, unanswered="the run was begun without --evaluate")
    found = by_name([alone])
    for name in ("domain-accuracy", "heuristic-size", "cosine-g-h", "cosine-h-h"):
        assert found[name].sentence == "No heuristics to show: source-only has no heuristic head."
        assert not found[name].drawings
    for name in ("calibration", "mistakes"):
        assert found[name].sentence == "The run was begun without --evaluate."
    assert "nothing to compare with" in found["classes"].sentence
    assert found["tsne"].drawings
    assert found["proxy-distance"].numbers["source-only"].keys() == {"features", "G"}


def test_pictures_that_have_gone_are_a_sentence(subject):
    found = by_name([subject(domains=None, unseen="the folder photos does not exist")])
    assert found["tsne"].sentence == "The folder photos does not exist."
    assert found["similarity"].drawings  # which the run has noted itself
    assert found["calibration"].drawings


def test_one_heuristic_has_no_other(subject):
    one = subject()
    domains = Domains(*(dataclasses.replace(part, h=part.h[:, :1]) for part in one.domains))
    found = by_name([dataclasses.replace(one, domains=domains)])
    assert found["cosine-h-h"].sentence == "There is a single heuristic, so none to compare it with."
    assert found["cosine-g-h"].drawings


def test_too_few_pictures_are_told(subject):
    few = subject()
    domains = Domains(*(outputs(5, 3, 0.0, seed) for seed in (0, 1)))
    assert "at least 8 rows" in by_name([dataclasses.replace(few, domains=domains)])["domain-accuracy"].sentence


def test_most_moved_needs_no_labels(subject):
    subjects = [subject(m, 0, wrong, labels=None) for m, wrong in (("source-only", 9), ("hdan", 3))]
    assert by_name(subjects)["moved"].numbers["hdan"] == {"from": "source-only", "moved": 6, "percent": 20.0}


def test_every_gallery_has_a_file_of_its_own(subject):
    red = np.full((8, 8, 3), (200, 0, 0), dtype=np.uint8)
    subjects = [subject("source-only", 0, wrong=9), subject("hdan", 0, wrong=3), subject("mcd", 0, wrong=6)]
    for one in subjects:
        one.picture = lambda row: red
    found = by_name(subjects)
    assert found["moved"].files().keys() == {"moved-hdan", "moved-mcd"}
    assert found["classes"].files().keys() == {"classes-hdan", "classes-mcd", "classes-right"}  # nothing is newly wrong
    assert found["mistakes"].files().keys() == {"mistakes"}


@pytest.mark.parametrize(
    ("course", "told"),
    [
        ((1.0, 0.9), "from 1 to 0.9, smaller, but by less than 50%, other than in the paper (it falls fast"),
        ((1.0, 0.4), "from 1 to 0.4, as in the paper (it falls fast"),
        (
            (0.5, 0.8, 0.6),
            "from 0.5 over 0.8 at iteration 20 to 0.6, not smaller, other than in the paper (it falls fast",
        ),
    ],
)
def test_the_cosine_is_said_to_fall_fast_only_where_it_does(make_run, course, told):
    records = [{"step": 10 * step, "similarity": value} for step, value in enumerate(course, start=1)]
    assert told in by_name([Subject(make_run(records=records), "hdan")])["similarity"].sentence


def test_the_page_of_several_runs(subject, checked):
    subjects = [subject("hdan", 0), subject("hdan", 1), subject("source-only", 0, unanswered="no labels")]
    parsed = checked(runs_page(subjects, figures(subjects)))
    assert parsed.rows[1][:4] == ["hdan", "90.0", "0.0", "2"]
    assert "Domain accuracy on G and on H" in parsed.text
    assert "hda fit --source" in parsed.text
    assert sum(tag == "a" for tag, _ in parsed.tags) == sum(tag == "h2" for tag, _ in parsed.tags)


def test_the_headline_is_one_sentence(make_run):
    def groups(**accuracies):
        return {name: [Subject(make_run(name, accuracy=value), name)] for name, value in accuracies.items()}

    two = groups(hdan=68.04, mcd=61.96)
    assert headline(two) == "hdan comes to 68.0 % on typed->handwritten, 6.0 points above mcd (62.0 %)"
    assert headline(groups(safn=None)) == "1 kind of runs on typed->handwritten, of which no accuracy is known"


def test_the_headline_compares_no_two_tasks(make_run):
    few = make_run("hdan", 1, 49.5)
    few.description["images"] = {"source": 4000, "labelled": 30, "target": 1767}
    other = make_run("hdan", 2, 88.0)
    other.description["task"] = "b->c"
    runs = [make_run("hdan", 0, 40.0), make_run("mcd", 0, 30.0), few, other]
    told = headline({label: [Subject(run, label)] for label, run in zip(labels(runs), runs, strict=True)})
    assert told == (
        "hdan, typed->handwritten comes to 40.0 %; hdan, typed->handwritten with 30 labelled comes to 49.5 %; "
        "hdan, b->c comes to 88.0 %"
    )


def test_a_run_has_the_same_colour_in_every_curve(make_run):
    with_it, without = [{"step": 60, "transfer": 0.5, "classification": 1.0}], [{"step": 60, "classification": 1.0}]
    runs = [make_run(n, records=r) for n, r in (("hdan", with_it), ("source-only", without), ("mcd", with_it))]
    page = runs_page([Subject(run, label) for run, label in zip(runs, labels(runs), strict=True)], [])
    transfer = page[page.index("<title>Transfer") :].partition("</svg>")[0]
    assert [colour in transfer for colour in draw.COLOURS[:3]] == [True, False, True]


def test_runs_are_named_by_what_tells_them_apart(make_run):
    assert labels([make_run("hdan", 0), make_run("hdan", 1), make_run("mcd", 0)]) == ["hdan", "hdan", "mcd"]
    other = make_run("hdan", 2)
    other.description["settings"]["method"] = {"heuristics": 5}
    assert labels([make_run("hdan", 3), other]) == ["hdan-3", "hdan-2"]
    few = make_run("hdan", 4)
    few.description["images"] = {"source": 4000, "labelled": 30, "target": 1767}
    alone = labels([make_run("hdan", 5), few])
    assert alone == ["hdan, typed->handwritten", "hdan, typed->handwritten with 30 labelled"]


def test_a_drawing_is_written_as_svg_and_as_png(tmp_path):
    drawing = draw.columns({"a": {"x": (1.0, 0.1)}, "b": {"x": (2.0, 0.0)}}, "y")
    assert "a: x 1; b: x 2" in drawing
    for ending in (".svg", ".png"):
        drawing.write(tmp_path / f"figure{ending}")
    with Image.open(tmp_path / "figure.png") as picture:
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 5  # not blank
    text = (tmp_path / "figure.svg").read_text()
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert text.count("http") == 1


def test_a_gallery_shows_its_pictures(tmp_path):
    red = np.full((8, 8, 3), (200, 0, 0), dtype=np.uint8)
    draw.gallery([red, red], ["one", "two\nlines"], title="two").write(tmp_path / "g.png")
    with Image.open(tmp_path / "g.png") as picture:
        shares = {colour: count for count, colour in picture.convert("RGB").getcolors(1 << 20)}
        assert shares[(200, 0, 0)] > 0.3 * picture.width * picture.height
