from __future__ import annotations

import numpy as np
import pytest

import hda
from hda.data.datasets.base import Domain
from hda.data.datasets.domainnet import DomainNet
from hda.data.tasks import TaskName, read_task
from hda.errors import UserError

CLASSES = ("Alarm_Clock", "Backpack", "TV")


@pytest.fixture
def home(tmp_path, plant):
    """Three domains of Office-Home with three of its classes, five pictures each."""
    for domain in ("Art", "Product", "Real_World"):
        plant(tmp_path / domain, [f"{name}/{number:05d}.jpg" for name in CLASSES for number in range(1, 6)])
    return tmp_path


def test_a_name_is_taken_apart():
    assert TaskName.parse("office-home:Art -> Clipart") == TaskName("office-home", ("Art",), "Clipart")
    assert TaskName.parse("pacs:P, A->S") == TaskName("pacs", ("P", "A"), "S")
    assert TaskName.parse("pacs:*->S") == TaskName("pacs", ("*",), "S")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Art->Clipart", "the task 'Art->Clipart' names no dataset: write it as DATASET:SOURCE->TARGET in quotes, for"),
        (
            "office-home:Art-",
            "has no '->' between its source and its target: .*, since a shell takes an unquoted > for",
        ),
        ("office-home:Art", "has no '->' between its source and its target"),
        ("office-home:->Art", "is to have one target and at least one source"),
        ("office-home:Art->", "is to have one target and at least one source"),
        ("office-home:Art,,TV->C", "is to have one target and at least one source"),
        ("office-home:Art->C,P", "is to have one target and at least one source"),
        ("office-home:*,A->C", "has '\\*', which stands for all other domains, beside others"),
        ("office-hone:A->C", "unknown dataset 'office-hone': did you mean 'office-home'"),
        ("office-home:Atr->C", "Office-Home has no domain 'Atr': did you mean 'Art'\\? \\(known: Art \\(A\\), "),
        ("office-home:A->A", "Art is given as source and as target: give each domain once"),
        ("office-home:A,Art->R", "Art is given twice as source: give each domain once"),
        ("office-home:A->C", "has no Clipart of Office-Home: put its folder there"),
        ("pacs:P->S", "has no Photo of PACS: put its folder there as 'Photo'"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(home, name, sentence):
    with pytest.raises(UserError, match=sentence):
        read_task(name, home)


def test_a_wrong_root_is_told(tmp_path):
    with pytest.raises(UserError, match="is no folder: give the folder that Office-Home lies in"):
        read_task("office-home:A->C", tmp_path / "nowhere")


def test_short_names_spellings_and_long_names_mean_the_same(home):
    tasks = [read_task(f"office-home:{text}", home) for text in ("A->R", "Art->Real World", "art->RealWorld")]
    assert {task.scenario.name for task in tasks} == {"Art->Real World"}
    assert len({task.scenario.fingerprint() for task in tasks}) == 1
    assert hda.task is read_task


def test_unsupervised_measures_on_the_whole_target(home):
    scenario, answers = read_task("office-home:A->R", home)
    assert (scenario.setting, len(scenario.target), answers.images) == ("uda", 15, None)
    truth = [scenario.target.names[i].split("/")[0] for i in range(15)]
    assert [scenario.classes[label] for label in answers.labels] == truth
    assert scenario.notes[0] == (
        f"Art has 15 pictures, published are 2,427: `hda data check office-home {home}` says more"
    )


def test_a_star_is_every_other_domain_that_is_there(home):
    assert read_task("office-home:*->R", home).scenario.name == "Art,Product->Real World"
    assert read_task("office-home:*->R", home).scenario.setting == "msda"
    assert read_task("office-home:P,A->R", home).scenario.name == "Product,Art->Real World"


def test_sources_combined_are_one_domain(home):
    task = read_task("office-home:*->R", home, combine=True)
    assert (task.scenario.setting, task.scenario.domains, task.scenario.name) == ("uda", 2, "Art+Product->Real World")
    source, apart = task.scenario.sources[0], read_task("office-home:*->R", home).scenario.sources
    assert len(source) == 30
    np.testing.assert_array_equal(source.labels, np.concatenate([part.labels for part in apart]))
    assert [source.images.where(i) for i in range(30)] == [p.images.where(i) for p in apart for i in range(15)]
    assert task.scenario.notes[-1] == "the sources Art, Product are combined: methods see one domain"


def test_shots_are_drawn_where_there_are_no_lists_and_that_is_said(home):
    scenario, answers = read_task("office-home:A->R", home, shots=2)
    assert (scenario.setting, len(scenario.labelled), len(scenario.target), len(answers)) == ("ssda", 6, 9, 9)
    assert not set(scenario.labelled.images.names) & set(scenario.target.names)
    assert any(note.startswith("there are no published lists of 2 shots of Real World") for note in scenario.notes)
    again = read_task("office-home:A->R", home, shots=2, seed=1).scenario
    assert again.labelled.images.names != scenario.labelled.images.names
    assert read_task("office-home:A->R", home, shots=2).scenario.fingerprint() == scenario.fingerprint()
    with pytest.raises(
        UserError, match="has no published lists of Office-Home for Real World and 2 shots: give --lists"
    ):
        read_task("office-home:A->R", home, shots=2, split="published")
    with pytest.raises(UserError, match="the drawn split is about labelled pictures of the target: add --shots N"):
        read_task("office-home:A->R", home, split="drawn")
    with pytest.raises(UserError, match="are about labelled pictures of the target: add --shots N or leave them out"):
        read_task("office-home:A->R", home, lists=home)


@pytest.fixture
def lists(home):
    def write(name, which):
        lines = [f"Real/{c}/{i:05d}.jpg {9 - n}\n" for n, c in enumerate(CLASSES) for i in which]
        (home / "lists").mkdir(exist_ok=True)
        (home / "lists" / f"{name}.txt").write_text("".join(lines))

    write("labeled_target_images_Real_1", [5])
    write("unlabeled_target_images_Real_1", [1, 2, 3, 4])
    write("labeled_target_images_Real_3", [1, 2, 3])
    write("unlabeled_target_images_Real_3", [4, 5])
    return home


def test_published_lists_go_before_a_draw(lists):
    scenario, answers = read_task("office-home:A->R", lists, shots=3)
    named = [scenario.labelled.classes[label] for label in scenario.labelled.labels]
    assert [f"{c}/{i:05d}.jpg" for c in CLASSES for i in (1, 2, 3)] == list(scenario.labelled.images.names)
    assert named == [name.split("/")[0] for name in scenario.labelled.images.names]
    assert scenario.target.names == tuple(f"{c}/{i:05d}.jpg" for c in CLASSES for i in (4, 5))
    assert answers.common.tolist() == [True, False] * 3  # 5 is labelled where there is one shot
    assert read_task("office-home:A->R", lists, shots=1).answers.common.tolist() == [False, False, False, True] * 3
    drawn = read_task("office-home:A->R", lists, shots=3, split="drawn")
    assert drawn.answers.common is None
    assert not any("published" in note for note in drawn.scenario.notes if "published are" not in note)
    elsewhere = lists / "apart"
    (lists / "lists").rename(elsewhere)
    assert (
        read_task("office-home:A->R", lists, shots=3, lists=elsewhere).scenario.fingerprint() == scenario.fingerprint()
    )


def test_the_class_of_an_unlabelled_picture_reaches_the_answers_alone(lists):
    """Pictures that swap their class folders change what is measured; nothing that is trained on has a place for it."""
    scenario, answers = read_task("office-home:A->R", lists, shots=3)
    assert vars(scenario.target).keys() == {"storage", "names", "origin", "name"}
    path = lists / "lists" / "unlabeled_target_images_Real_3.txt"
    for at in ("00004", "00005"):
        (lists / "Real_World" / "TV" / f"{at}.jpg").rename(lists / "Real_World" / "Backpack" / f"other{at}.jpg")
        path.write_text(path.read_text().replace(f"TV/{at}", f"Backpack/other{at}"))
    (lists / "lists" / "unlabeled_target_images_Real_1.txt").unlink()
    moved, truth = read_task("office-home:A->R", lists, shots=3)
    assert moved.labelled.images.names == scenario.labelled.images.names
    np.testing.assert_array_equal(moved.labelled.labels, scenario.labelled.labels)
    np.testing.assert_array_equal(moved.sources[0].labels, scenario.sources[0].labels)
    assert (answers.labels.tolist(), truth.labels.tolist()) == ([0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 1, 1])


def test_a_target_s_test_part_is_measured_on_and_never_trained_on(tmp_path, plant, monkeypatch):
    monkeypatch.setattr(
        DomainNet, "domains", (Domain("Clipart", "C", train=4, test=2), Domain("Sketch", "S", train=4, test=2))
    )
    for domain in ("clipart", "sketch"):
        names = [f"{domain}/{name}/{number}.jpg" for name in ("ant", "axe") for number in range(3)]
        plant(tmp_path, [*names, f"{domain}/axe/unlisted.jpg"])
        for part, which in (("train", "01"), ("test", "2")):
            lines = [f"{name} 0\n" for name in names if name[-5] in which]
            (tmp_path / f"{domain}_{part}.txt").write_text("".join(lines))
    scenario, answers = read_task("domainnet:C->S", tmp_path)
    assert scenario.sources[0].images.names == ("ant/0.jpg", "ant/1.jpg", "axe/0.jpg", "axe/1.jpg")
    assert scenario.target.names == ("ant/0.jpg", "ant/1.jpg", "axe/0.jpg", "axe/1.jpg")
    assert answers.images.names == ("ant/2.jpg", "axe/2.jpg")
    assert answers.labels.tolist() == [0, 1]
    assert scenario.notes[-1] == (
        "Sketch has 4 training and 2 test pictures: accuracy is measured on the latter, which training never sees"
    )
    scenario, answers = read_task("domainnet:C->S", tmp_path, shots=1)
    assert (len(scenario.labelled), len(scenario.target), len(answers)) == (2, 2, 2)
    assert answers.images.names == ("ant/2.jpg", "axe/2.jpg")


def test_target_classes_that_the_source_lacks_stay_unlabelled_and_unmeasured_or_are_refused(home):
    for path in (home / "Art" / "TV").iterdir():
        path.unlink()
    (home / "Art" / "TV").rmdir()
    scenario, answers = read_task("office-home:A->R", home, shots=1)
    assert scenario.classes == ("Alarm_Clock", "Backpack")
    assert scenario.labelled.classes == ("Alarm_Clock", "Backpack")
    assert len(scenario.target) == 13  # all five of the class, without labels
    assert answers.labels.tolist().count(-1) == 5
    assert answers.notes == ("5 images of 1 class the source lacks are left out of the accuracy: TV",)
    with pytest.raises(
        UserError, match="the target Real World has 1 of the 3 classes: TV, which the source lacks: leave --strict"
    ):
        read_task("office-home:A->R", home, strict=True)


def test_a_target_with_fewer_classes_says_so(home):
    for path in (home / "Real_World" / "TV").iterdir():
        path.unlink()
    (home / "Real_World" / "TV").rmdir()
    scenario, answers = read_task("office-home:A->R", home)
    assert scenario.classes == CLASSES
    assert answers.notes == ("the target Real World lacks 1 of the 3 classes: TV",)
