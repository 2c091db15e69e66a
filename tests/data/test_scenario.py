import shutil
from pathlib import Path

import numpy as np
import pytest

from hda.data.images import Images, from_arrays, read_labelled, read_unlabelled
from hda.data.scenario import Answers, Scenario
from hda.errors import UserError


def fill(folder: Path, *names: str) -> Path:
    """Files that hold their own paths, so that no two have the same bytes."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(str(folder / name))
    return folder


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def art(tmp_path) -> Path:
    return fill(tmp_path / "art", "cat/1.png", "dog/1.png", "dog/2.png")


@pytest.fixture
def clipart(tmp_path) -> Path:
    return fill(tmp_path / "clipart", "cat/7.png", "cat/8.png", "dog/7.png")


# Roles


def test_one_source_and_a_target_are_unsupervised(art, clipart):
    scenario = Scenario.read(art, clipart)
    assert scenario.setting == "uda"
    assert scenario.domains == 2
    assert scenario.name == "art->clipart"
    assert scenario.classes == ("cat", "dog")
    assert scenario.sources[0].labels.tolist() == [0, 1, 1]
    assert type(scenario.target) is Images
    assert scenario.target.names == ("cat/7.png", "cat/8.png", "dog/7.png")
    assert scenario.labelled is None
    assert scenario.notes == ()


def test_several_sources_are_multi_source_and_their_classes_are_united_by_name(tmp_path, art, clipart):
    product = fill(tmp_path / "product", "ant/1.png", "dog/1.png")
    scenario = Scenario.read([art, product], clipart)
    assert scenario.setting == "msda"
    assert scenario.domains == 3
    assert scenario.name == "art,product->clipart"
    assert scenario.classes == ("ant", "cat", "dog")
    assert [source.labels.tolist() for source in scenario.sources] == [[1, 2, 2], [0, 2]]
    assert all(source.classes == scenario.classes for source in scenario.sources)
    assert scenario.notes == (
        "the source art lacks 1 of the 3 classes: ant",
        "the source product lacks 1 of the 3 classes: cat",
    )


def test_a_labelled_part_of_the_target_is_semi_supervised_and_numbered_as_the_source(tmp_path, art, clipart):
    few = fill(tmp_path / "few", "dog/1.png", "dog/2.png")
    scenario = Scenario.read(art, clipart, few)
    assert scenario.setting == "ssda"
    assert scenario.domains == 3
    assert scenario.name == "art->clipart"
    assert scenario.labelled.classes == ("cat", "dog")
    assert scenario.labelled.labels.tolist() == [1, 1]
    assert len(scenario.target) == 3
    assert scenario.notes == ("the labelled target few lacks 1 of the 2 classes: cat",)
    assert Scenario.read([art, fill(tmp_path / "more", "cat/1.png", "dog/1.png")], clipart, few).domains == 4


def test_classes_that_differ_in_case_alone_are_kept_apart_with_a_note(tmp_path, art, clipart):
    scenario = Scenario.read([art, fill(tmp_path / "more", "Cat/1.png", "dog/1.png")], clipart)
    assert scenario.classes == ("Cat", "cat", "dog")
    assert scenario.notes[-1] == "the classes Cat, cat are kept apart: rename their folders if they are one"


def test_lists_share_a_root(tmp_path, art, clipart):
    source = write(tmp_path / "source.txt", "art/cat/1.jpg 0", "art/dog/1.jpg 1")
    target = write(tmp_path / "target.txt", "clipart/cat/7.png 9", "clipart/cat/7.png 8")
    (tmp_path / "lists").mkdir()
    for path in (source, target):
        path.rename(tmp_path / "lists" / path.name)
    scenario = Scenario.read(tmp_path / "lists/source.txt", tmp_path / "lists/target.txt", root=tmp_path)
    assert scenario.classes == ("cat", "dog")
    assert scenario.target.names == ("clipart/cat/7.png",)


# What a scenario insists on


def test_a_scenario_takes_no_labelled_target(art, clipart):
    source, target = read_labelled(art), read_labelled(clipart)
    with pytest.raises(TypeError, match="the target is of the type Images, without labels"):
        Scenario((source,), target)
    with pytest.raises(ValueError, match="a scenario has at least one source"):
        Scenario((), target.images)


def test_a_scenario_by_hand_has_one_numbering(art, clipart):
    source, target = read_labelled(art), read_unlabelled(clipart)
    assert Scenario((source,), target).classes == ("cat", "dog")
    with pytest.raises(ValueError, match="numbered by one tuple of classes"):
        Scenario((source, source.renumbered(("dog", "cat"))), target)
    with pytest.raises(ValueError, match="numbered by one tuple of classes"):
        Scenario((source,), target, labelled=source.renumbered(("cat", "dog", "emu")))


def test_a_path_given_twice_is_an_error_however_it_is_written(tmp_path, art, clipart):
    again = tmp_path / "clipart" / ".." / "art"
    (tmp_path / "link").symlink_to(art)
    for path in (art, again, tmp_path / "link"):
        with pytest.raises(UserError) as caught:
            Scenario.read(art, path)
        assert str(caught.value) == f"{path} is given as source and as target: give each set of images once"
        with pytest.raises(UserError) as caught:
            Scenario.read([art, path], clipart)
        assert str(caught.value) == f"{path} is given twice as source: give each set of images once"
        with pytest.raises(UserError) as caught:
            Scenario.read(art, clipart, path)
        assert str(caught.value) == f"{path} is given as source and as labelled target: give each set of images once"


def test_no_source_is_an_error(clipart):
    with pytest.raises(UserError, match="no source is given: give the path of at least one"):
        Scenario.read([], clipart)


def test_a_root_without_a_list_is_an_error(tmp_path, art, clipart):
    with pytest.raises(UserError) as caught:
        Scenario.read(art, clipart, root=tmp_path)
    assert str(caught.value) == (f"the root {tmp_path} is for the paths in lists, and no list is given: leave it out")


def test_a_picture_in_source_and_target_is_an_error(tmp_path, art):
    target = write(tmp_path / "target.txt", "art/dog/2.png", "art/cat/1.png")
    with pytest.raises(UserError) as caught:
        Scenario.read(art, target)
    assert str(caught.value) == (
        f"the source art and the target art share 2 images, such as {art}/cat/1.png: give sets that share none"
    )


def test_a_labelled_class_that_no_source_has_is_an_error_that_names_the_nearest(tmp_path, art, clipart):
    with pytest.raises(UserError) as caught:
        Scenario.read(art, clipart, fill(tmp_path / "few", "cat/1.png", "Dog_/1.png"))
    assert str(caught.value) == (
        "class 'Dog_' of the labelled target few is not among the source's classes: "
        "name its folder or label 'dog' if that is meant"
    )
    with pytest.raises(UserError, match=r"class 'zebra' of the labelled target .*: leave it out"):
        Scenario.read(art, clipart, fill(tmp_path / "other", "cat/1.png", "zebra/1.png"))


# The labelled target is taken out of the unlabelled one


def test_labelled_pictures_are_taken_out_of_the_target_where_they_lie_in_the_same_place(tmp_path, art, clipart):
    few = write(tmp_path / "few.txt", "clipart/cat/8.png 0", "clipart/dog/7.png 1")
    scenario = Scenario.read(art, clipart, few)
    assert scenario.target.names == ("cat/7.png",)
    assert scenario.labelled.images.names == ("clipart/cat/8.png", "clipart/dog/7.png")
    assert scenario.notes == ("2 images of the labelled target are taken out of the unlabelled target",)


def test_labelled_pictures_that_are_copies_are_taken_out_by_file_name_and_bytes(tmp_path, art, clipart):
    few = tmp_path / "few"
    (few / "cat").mkdir(parents=True)
    shutil.copy(clipart / "cat" / "8.png", few / "cat" / "8.png")
    assert Scenario.read(art, clipart, few).target.names == ("cat/7.png", "dog/7.png")
    assert "1 image of the labelled target are taken" in Scenario.read(art, clipart, few).notes[0]


def test_a_picture_with_the_same_name_or_the_same_bytes_alone_stays(tmp_path, art, clipart):
    few = fill(tmp_path / "fewfew.", "cat/8.png")  # as long a path as in clipart, so as many bytes
    assert (few / "cat/8.png").stat().st_size == (clipart / "cat/8.png").stat().st_size
    shutil.copy(clipart / "cat" / "7.png", few / "cat" / "other.png")
    scenario = Scenario.read(art, clipart, few)
    assert scenario.target.names == ("cat/7.png", "cat/8.png", "dog/7.png")


def test_a_target_that_is_all_labelled_is_an_error(tmp_path, art, clipart):
    few = write(tmp_path / "few.txt", "clipart/cat/7.png 0", "clipart/cat/8.png 0", "clipart/dog/7.png 1")
    with pytest.raises(UserError, match="every image of the target clipart is in its labelled part too"):
        Scenario.read(art, clipart, few)


def test_sets_in_memory_are_taken_as_they_are():
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    labelled = from_arrays(pixels, [0, 1], ("cat", "dog"))
    assert len(Scenario.of([labelled], from_arrays(pixels), labelled).target) == 2


# Keeping a part


def test_keeping_rows_leaves_the_classes(tmp_path, art, clipart):
    scenario = Scenario.read(art, clipart, fill(tmp_path / "few", "cat/1.png", "dog/1.png"))
    part = scenario.keep(sources=[[2]], labelled=[1], target=[2, 0])
    assert part.sources[0].images.names == ("dog/2.png",)
    assert part.sources[0].labels.tolist() == [1]
    assert part.labelled.images.names == ("dog/1.png",)
    assert part.target.names == ("dog/7.png", "cat/7.png")
    assert part.classes == scenario.classes
    assert len({scenario.fingerprint(), part.fingerprint()}) == 2
    assert scenario.keep().fingerprint() == scenario.fingerprint()


def test_keeping_nothing_of_a_set_is_an_error(tmp_path, art, clipart):
    scenario = Scenario.read(art, clipart, fill(tmp_path / "few", "cat/1.png", "dog/1.png"))
    for none, name in (({"sources": [[]]}, "art"), ({"labelled": []}, "few"), ({"target": []}, "clipart")):
        with pytest.raises(UserError) as caught:
            scenario.keep(**none)
        assert str(caught.value) == f"no image of {name} is left: give some that can be read"


def test_a_fingerprint_depends_on_every_set_and_on_who_has_which_label(tmp_path, art, clipart):
    few = fill(tmp_path / "few", "cat/1.png", "dog/1.png")
    source, target = read_labelled(art), read_unlabelled(clipart)
    other_labels = read_labelled(art)
    swapped = type(source)(source.images, 1 - other_labels.labels, source.classes)
    scenarios = [
        Scenario.of([source], target),
        Scenario.of([swapped], target),
        Scenario.of([source], target.select([0, 1])),
        Scenario.of([source.select([0, 1])], target),
        Scenario.of([source, read_labelled(few)], target),
        Scenario.of([source], target, read_labelled(few)),
    ]
    assert len({scenario.fingerprint() for scenario in scenarios}) == len(scenarios)
    assert Scenario.read(art, clipart).fingerprint() == scenarios[0].fingerprint()


# Answers


def test_answers_are_the_target_s_folders_in_the_order_of_the_scenario(art, clipart):
    scenario = Scenario.read(art, clipart)
    answers = Answers.read(clipart, scenario)
    assert answers.labels.tolist() == [0, 0, 1]
    assert answers.classes == scenario.classes
    assert answers.notes == ()
    turned = scenario.keep(target=[2, 0])
    assert Answers.read(clipart, turned).labels.tolist() == [1, 0]
    assert Answers.of(clipart, turned.target, ("dog", "cat")).labels.tolist() == [0, 1]


def test_answers_leave_out_what_the_labelled_target_took(tmp_path, art, clipart):
    few = write(tmp_path / "few.txt", "clipart/cat/7.png 0")
    assert Answers.read(clipart, Scenario.read(art, clipart, few)).labels.tolist() == [0, 1]


def test_answers_of_a_class_that_the_source_lacks_are_minus_one_with_a_note(tmp_path, art):
    target = fill(tmp_path / "target", "cat/1.png", "dog_/1.png", "dog_/2.png", "ant/1.png")
    answers = Answers.read(target, Scenario.read(art, target))
    assert answers.labels.tolist() == [-1, 0, -1, -1]
    assert answers.notes == (
        "3 images of 2 classes the source lacks are left out of the accuracy: ant, dog_; "
        "'dog_' may be the source's 'dog'",
        "the target target lacks 1 of the 2 classes: dog",
    )


def test_answers_come_from_a_list_s_labels(tmp_path, art, clipart):
    target = write(tmp_path / "target.txt", "clipart/dog/7.png 1", "clipart/cat/8.png 0")
    answers = Answers.read(target, Scenario.read(art, target))
    assert answers.labels.tolist() == [0, 1]


def test_a_flat_target_has_no_answers(tmp_path, art):
    flat = fill(tmp_path / "flat", "1.png", "2.png")
    with pytest.raises(UserError) as caught:
        Answers.read(flat, Scenario.read(art, flat))
    assert str(caught.value) == f"{flat} has no class folders, so its true labels are unknown: leave --evaluate out"


def test_answers_without_a_single_class_of_the_source_are_an_error(tmp_path, art):
    target = fill(tmp_path / "target", "Cat/1.png", "zebra/1.png")
    with pytest.raises(UserError) as caught:
        Answers.read(target, Scenario.read(art, target))
    assert str(caught.value) == (
        f"no class of {target} (Cat, zebra) is among the source's (cat, dog): rename its 'Cat' to 'cat' and so on"
    )
    strangers = fill(tmp_path / "strangers", "xylophone/1.png", "zebra/1.png")
    with pytest.raises(UserError, match="leave --evaluate out"):
        Answers.read(strangers, Scenario.read(art, strangers))


def test_answers_are_an_error_where_the_labelled_target_took_every_picture_of_the_source_s_classes(tmp_path, art):
    target = fill(tmp_path / "target", "cat/1.png", "zebra/1.png")
    few = write(tmp_path / "few.txt", "target/cat/1.png cat")
    scenario = Scenario.read(art, target, few)
    assert scenario.target.names == ("zebra/1.png",)
    with pytest.raises(UserError, match=r"no class of .*target \(zebra\) is among the source's \(cat, dog\)"):
        Answers.read(target, scenario)


def test_answers_of_another_folder_than_the_target_are_an_error(tmp_path, art, clipart):
    scenario = Scenario.read(art, clipart)
    other = fill(tmp_path / "other", "cat/7.png", "dog/7.png")
    with pytest.raises(UserError) as caught:
        Answers.read(other, scenario)
    assert str(caught.value) == f"{other} has no label for cat/8.png: give the target itself"


def test_answers_are_selected_in_order_and_cannot_be_written(art, clipart):
    answers = Answers.read(clipart, Scenario.read(art, clipart))
    assert answers.select([2, 0]).labels.tolist() == [1, 0]
    assert answers.select(np.array([1])).classes == ("cat", "dog")
    assert len(answers) == 3
    with pytest.raises(ValueError, match="read-only"):
        answers.labels[0] = 1
