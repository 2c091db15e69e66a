"""Draws, and the published lists with their faults: made ones, and the real ones where they are."""

from __future__ import annotations

import tarfile

import numpy as np
import pytest

from hda.data import splits
from hda.data.datasets.domainnet_126 import DomainNet126
from hda.data.datasets.office_home import OfficeHome
from hda.data.images import read_labelled
from hda.errors import UserError


def stems(pictures, rows):
    return {name.rpartition(".")[0] for name in pictures.images.select(rows).names}


def test_a_draw_has_so_many_of_each_class_and_leaves_the_rest(tmp_path, plant):
    pictures = read_labelled(plant(tmp_path, [f"{c}/{i}.jpg" for c in "abc" for i in range(7)]))
    split = splits.draw(pictures, 3, seed=0)
    assert np.bincount(pictures.labels[split.labelled]).tolist() == [3, 3, 3]
    assert sorted([*split.labelled, *split.unlabelled]) == list(range(21))
    assert split.notes == (
        f"9 pictures of the target {tmp_path.name}, 3 of each class, are drawn with seed 0 and labelled; they are no part "
        "of the unlabelled target",
    )


def test_a_draw_depends_on_the_seed_and_not_on_format_order_or_other_classes(tmp_path, plant):
    names = [f"{c}/{i:03d}" for c in "abcd" for i in range(20)]
    one = read_labelled(plant(tmp_path / "one", [f"{name}.jpg" for name in names]))
    other = read_labelled(
        plant(tmp_path / "two" / "Art", [f"{name}.webp" for name in reversed(names) if name[0] != "a"])
    )
    drawn = stems(one, splits.draw(one, 3, 0).labelled)
    assert {name for name in drawn if name[0] != "a"} == stems(other, splits.draw(other, 3, 0).labelled)
    assert stems(one, splits.draw(one, 1, 0).labelled) < drawn  # fewer shots are among more
    assert drawn != stems(one, splits.draw(one, 3, 1).labelled)


def test_a_draw_leaves_alone_the_classes_that_are_not_asked_for(tmp_path, plant):
    pictures = read_labelled(plant(tmp_path, [f"{c}/{i}.jpg" for c in "abc" for i in range(4)]))
    split = splits.draw(pictures, 1, 0, classes={"a", "c", "z"})
    assert pictures.labels[split.labelled].tolist() == [0, 2]


def test_a_class_with_too_few_pictures_is_said_and_nothing_left_is_an_error(tmp_path, plant):
    pictures = read_labelled(plant(tmp_path, ["a/1.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg"]))
    split = splits.draw(pictures, 2, 0)
    assert len(split.labelled) == 3
    assert split.notes[-1] == "classes with fewer than 2 pictures in the target, all labelled: a (1)"
    with pytest.raises(UserError, match=r"3 shots of each class are all 4 pictures of .*: give fewer --shots"):
        splits.draw(pictures, 3, 0)


CLASSES = ("Alarm_Clock", "Toys", "Trash_Can", "TV")  # numbered in this order: not sorted by letters


@pytest.fixture
def small(tmp_path, plant):
    """Real World with four classes of six pictures, as `.webp`, and lists with the faults of the published ones."""
    plant(tmp_path / "Real_World", [f"{c}/{i:05d}.webp" for c in CLASSES for i in range(1, 7)])

    def write(name, which):
        lines = [f"Real/{c}/{i:05d}.jpg {n}\n" for n, c in enumerate(CLASSES) for i in which]
        path = tmp_path / "lists" / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(reversed(lines)))

    write("labeled_target_images_Real_1", [6])
    write("unlabeled_target_images_Real_1", [1, 2, 3, 4, 5])
    write("labeled_target_images_Real_3", [1, 2, 3])
    write("unlabeled_target_images_Real_3", [4, 5, 3])  # 3 is labelled, too, and 6 is in neither
    write("validation_target_images_Real_3", [4])
    return OfficeHome(tmp_path)


def take(dataset, word, shots, lists_in=None):
    domain = dataset.domain(word)
    pictures = dataset.read(domain)
    return pictures, splits.published(dataset, domain, pictures, splits.find(dataset, domain, shots, lists_in))


def test_published_lists_are_matched_by_names_and_their_faults_are_said(small):
    pictures, split = take(small, "R", 3)
    assert stems(pictures, split.labelled) == {f"{c}/{i:05d}" for c in CLASSES for i in (1, 2, 3)}
    assert stems(pictures, split.unlabelled) == {f"{c}/{i:05d}" for c in CLASSES for i in (4, 5)}
    assert split.notes == (
        "the labelled target is that of labeled_target_images_Real_3.txt, the unlabelled one that of "
        "unlabeled_target_images_Real_3.txt",
        "4 pictures of both lists are taken out of the unlabelled one",
        "4 pictures of Real World in neither list are not used",
        "the lists' class numbers are not in the order of the names: classes are matched by name",
        "4 pictures of the published validation list are in the test list too: nothing is chosen by their labels, and "
        "they are tested on like the others",
        "of the 4 labelled pictures of the smaller list only 0 are in the larger one",
        "the test lists of 1 and 3 shots share 8 pictures: accuracies of different shots are to be compared on these, and "
        "the result has it",
    )
    assert stems(pictures, split.common) == {f"{c}/{i:05d}" for c in CLASSES for i in (4, 5)}


def test_numbers_in_the_lists_decide_nothing(small, tmp_path):
    before = take(small, "R", 3)[1]
    for path in (tmp_path / "lists").glob("*.txt"):
        path.write_text(
            "".join(f"{line.split()[0]} {7 - i % 3}\n" for i, line in enumerate(path.read_text().splitlines()))
        )
    after = take(small, "R", 3)[1]
    np.testing.assert_array_equal(before.labelled, after.labelled)
    np.testing.assert_array_equal(before.unlabelled, after.unlabelled)
    assert (
        "the lists' numbers do not go with their folders one to one: the folders' names are the classes" in after.notes
    )


def test_lists_for_other_numbers_of_shots_are_not_there(small):
    assert splits.find(small, small.domain("R"), 5) is None
    assert splits.find(small, small.domain("Art"), 3) is None


def test_half_of_the_lists_is_an_error(small, tmp_path):
    (tmp_path / "lists" / "unlabeled_target_images_Real_3.txt").unlink()
    with pytest.raises(
        UserError, match=r"has labeled_target_images_Real_3.txt and not unlabeled_target_images_Real_3.txt"
    ):
        splits.find(small, small.domain("R"), 3)


def test_another_dataset_s_lists_are_passed_over_and_refused_when_named(small, tmp_path):
    lists_of_another = tmp_path / "lists"
    for path in lists_of_another.glob("*.txt"):
        path.write_text("real/aircraft_carrier/real_001_000337.jpg 0\n")
    domain = small.domain("R")
    assert splits.find(small, domain, 3) is None
    with pytest.raises(UserError) as caught:
        take(small, "R", 3, lists_of_another)
    assert str(caught.value) == (
        f"line 1 of {lists_of_another}/labeled_target_images_Real_3.txt is no line of Office-Home's Real World but names "
        "the class 'aircraft_carrier', which it lacks: give --lists the folder of its own lists"
    )


def test_pictures_of_the_lists_that_are_missing_are_an_error(small, tmp_path):
    (tmp_path / "Real_World" / "TV" / "00004.webp").unlink()
    with pytest.raises(
        UserError, match=r"1 of the 12 pictures of .*unlabeled_target_images_Real_3.txt are not in .*Real_World"
    ):
        take(small, "R", 3)


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize(("word", "pictures"), [("A", 2427), ("C", 4365), ("P", 4439)])
def test_office_home_s_lists_match_the_real_pictures_by_stem(shared_data, word, pictures, shots):
    there, split = take(OfficeHome(shared_data), word, shots)
    assert len(there) == pictures
    assert np.bincount(there.labels[split.labelled]).tolist() == [shots] * 65
    assert len(split.unlabelled) == pictures - 65 * shots
    assert not len(np.intersect1d(split.labelled, split.unlabelled))
    assert np.isin(split.common, split.unlabelled).all()


@pytest.fixture(scope="module")
def domainnet_126(shared_data, tmp_path_factory):
    """The real lists, beside empty pictures laid out as the lists of two domains say."""
    root = tmp_path_factory.mktemp("domainnet-126")
    with tarfile.open(shared_data / "lists" / "domainnet126_ssda_lists.tar.xz") as tar:
        tar.extractall(root / "lists", filter="data")
    for name in ("clipart", "sketch"):
        listed = (root / "lists" / "multi" / f"labeled_source_images_{name}.txt").read_text().split()[::2]
        with tarfile.open(root / f"{name}.tar", "w") as tar:  # quicker than as many files
            for path in (*listed, f"{name}/zigzag/1.jpg"):  # the last is of a class of DomainNet's, none of the 126
                tar.addfile(tarfile.TarInfo(path))
    return DomainNet126(root)


def test_domainnet_126_s_lists_match_pictures_laid_out_as_they_say(domainnet_126):
    pictures, split = take(domainnet_126, "S", 3)
    assert (len(pictures), len(split.labelled), len(split.unlabelled)) == (24582, 378, 23826)
    assert "378 pictures of Sketch in neither list are not used" in split.notes  # here the validation list is apart
    assert not any("validation" in note for note in split.notes)
    pictures, split = take(domainnet_126, "Clipart", 1)
    assert (len(pictures), len(split.labelled), len(split.unlabelled), len(split.common)) == (18703, 126, 18577, 18202)
    assert np.bincount(pictures.labels[split.labelled]).tolist() == [1] * 126
    assert any("376 pictures of the published validation list" in note for note in split.notes)


def test_domainnet_126_s_lists_are_refused_where_their_pictures_are_not(domainnet_126, shared_data):
    with pytest.raises(UserError, match="is no line of Office-Home's Clipart but names the class 'aircraft_carrier'"):
        take(OfficeHome(shared_data), "C", 3, domainnet_126.root / "lists")
    with pytest.raises(UserError, match="has no Real of DomainNet-126"):
        take(domainnet_126, "R", 3)
