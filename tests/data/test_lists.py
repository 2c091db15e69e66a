from __future__ import annotations

import numpy as np
import pytest

from hda.data import lists
from hda.data.images import from_arrays, read_labelled
from hda.errors import UserError


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_line_is_taken_apart(tmp_path):
    path = write(
        tmp_path / "l.txt", "# all", "Real/Alarm_Clock/00080.jpg 0", "./data/amazon/images/mug/f 1.PNG", "mug/x.jpg  7"
    )
    assert list(lists.parse(path)) == [
        (2, "Real/Alarm_Clock/00080.jpg", "Real", "Alarm_Clock", "0"),
        (3, "./data/amazon/images/mug/f 1.PNG", "amazon", "mug", ""),
        (4, "mug/x.jpg", "", "mug", "7"),
    ]


@pytest.mark.parametrize("line", ["00080.jpg 0", "Real/Alarm_Clock 0", "nothing at all"])
def test_a_line_that_names_no_class_is_an_error(tmp_path, line):
    with pytest.raises(
        UserError, match=f"line 1 of .*l.txt reads '{line}': write it as `domain/class/picture.jpg label`"
    ):
        list(lists.parse(write(tmp_path / "l.txt", line)))


@pytest.mark.parametrize("home", ["", "lists/", "lists/ssda_office_home/", "ssda/multi/", "anything/"])
def test_a_list_is_found_where_lists_are_kept(tmp_path, home):
    path = write(tmp_path / f"{home}labeled_target_images_Real_3.txt", "a/b/c.jpg 0")
    assert lists.find(tmp_path, ["labeled_target_images_Real World_3.txt", "labeled_target_images_real_3.txt"]) == path
    assert lists.find(tmp_path, ["labeled_target_images_Real_3.txt"], accept=lambda _: False) is None
    assert lists.find(tmp_path, ["labeled_target_images_Art_3.txt"]) is None


def test_pictures_are_found_by_class_and_stem_whatever_their_format(tmp_path, plant):
    plant(tmp_path, ["cat/00001.webp", "cat/00002.png", "cat/00003.jpg", "cat/00003.png", "dog/00001.webp"])
    pictures = read_labelled(tmp_path)
    path = write(tmp_path / "l.txt", "X/dog/00001.jpg 0", "X/cat/00003.png 5", "X/Cat/00001.jpg 5", "X/cat/00001.jpg 5")
    found = lists.positions(lists.parse(path), path, pictures, {"Cat": "cat"}.get)
    assert [pictures.images.names[at] for at in found] == ["cat/00001.webp", "cat/00003.png", "dog/00001.webp"]


@pytest.mark.parametrize("line", ["X/cat/00009.jpg 0", "X/cow/00001.jpg 0", "X/cat/00003.bmp 0"])
def test_a_picture_that_is_not_there_is_an_error_that_counts(tmp_path, plant, line):
    plant(tmp_path, ["cat/00001.webp", "cat/00003.jpg", "cat/00003.png", "dog/00001.webp"])
    path = write(tmp_path / "l.txt", "X/cat/00001.jpg 0", line)
    with pytest.raises(UserError) as caught:
        lists.positions(lists.parse(path), path, read_labelled(tmp_path), lambda folder: folder)
    assert str(caught.value) == (
        f"1 of the 2 pictures of {path} are not in {tmp_path}, such as {line.split()[0]}: give --data the folder of the "
        "whole dataset, or --lists the folder of its own lists"
    )


def test_an_empty_list_is_an_error(tmp_path):
    pictures = from_arrays(np.zeros((2, 1, 1, 3), np.uint8), [0, 1], ("a", "b"))
    path = write(tmp_path / "l.txt", "# nothing")
    with pytest.raises(UserError, match="names no pictures: get it anew"):
        lists.positions(lists.parse(path), path, pictures, lambda folder: folder)


@pytest.mark.parametrize("line", ["a.jpg 2", "a.jpg x", "a.jpg"])
def test_a_number_that_is_no_class_is_an_error(tmp_path, plant, line):
    plant(tmp_path / "c", ["a.jpg"])
    with pytest.raises(UserError, match="the number is to be below 2"):
        lists.read_numbered(write(tmp_path / "l.txt", line), tmp_path / "c", ("x", "y"))
