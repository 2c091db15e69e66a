"""A whole copy, one with pictures removed, one with a class renamed, and domains in each known spelling."""

from __future__ import annotations

import io
import shutil
import tarfile

import pytest

from hda.data.check import check
from hda.data.datasets.base import Domain
from hda.data.datasets.digits import Digits
from hda.data.datasets.domainnet import DomainNet
from hda.data.datasets.domainnet_126 import DomainNet126
from hda.data.datasets.folder import Folder
from hda.data.datasets.imageclef_da import ImageCLEFDA
from hda.data.datasets.office_home import OfficeHome


class Small(OfficeHome):
    """Office-Home with two classes in two domains: as many facts as the real one has, of fewer pictures."""

    classes = ("Alarm_Clock", "Backpack")
    domains = (
        Domain("Art", "A", images=14, per_class=(12, 2)),
        Domain("Real World", "R", ("Real",), images=3, per_class=(1, 2)),
    )


def names(first, second):
    counted = (("Alarm_Clock", first), ("Backpack", second))
    return [f"{name}/{number:05d}.jpg" for name, count in counted for number in range(1, count + 1)]


@pytest.fixture
def copy(tmp_path, plant):
    plant(tmp_path / "Art", names(12, 2))
    plant(tmp_path / "Real World", names(1, 2))
    return tmp_path


def test_a_whole_copy_is_whole(copy):
    report = check(Small(copy))
    assert report.whole
    assert [(found.domain, found.pictures, found.published, found.classes) for found in report.found] == [
        ("Art", 14, 14, 2),
        ("Real World", 3, 3, 2),
    ]
    assert report.as_dict()["whole"] is True


def test_pictures_without_a_byte_are_named(copy):
    """A copy that broke off on a full disk has files of the right names."""
    (copy / "Art" / "Backpack" / "00002.jpg").write_bytes(b"")
    report = check(Small(copy))
    assert report.wrong == ["1 picture of Art without a byte, so get them anew: Backpack/00002"]


@pytest.mark.parametrize("spelling", ["Real_World", "RealWorld", "real_world", "Real"])
def test_it_is_whole_in_every_spelling_of_its_domains(copy, spelling):
    (copy / "Real World").rename(copy / spelling)
    assert check(Small(copy)).whole


@pytest.mark.parametrize("ending", ["webp", "png", "JPG"])
def test_it_is_whole_in_every_format(copy, ending):
    for path in list(copy.rglob("*.jpg")):
        path.rename(path.with_suffix(f".{ending}"))
    assert check(Small(copy)).whole


def test_ten_pictures_that_are_removed_are_named(copy):
    for number in range(2, 12):
        (copy / "Art" / "Alarm_Clock" / f"{number:05d}.jpg").unlink()
    report = check(Small(copy))
    gone = [f"Alarm_Clock/{number:05d}" for number in range(2, 12)]
    assert report.found[0].missing == gone
    assert report.wrong == [f"10 pictures of Art missing: {', '.join(gone)}"]


def test_pictures_that_are_too_many_are_named(copy, plant):
    plant(copy / "Art", ["Backpack/00003.jpg", "Backpack/copy of 1.jpg"])
    assert check(Small(copy)).wrong == [
        "2 pictures of Art not in the published dataset: Backpack/00003, Backpack/copy of 1"
    ]


def test_a_class_that_is_renamed_is_told_with_what_it_may_be(copy):
    (copy / "Art" / "Alarm_Clock").rename(copy / "Art" / "Alarm_Clocks")
    assert check(Small(copy)).wrong == [
        "Art has the class folder 'Alarm_Clocks', which Office-Home has not: rename it to 'Alarm_Clock' if that is it",
        "class 'Alarm_Clock' of Art is missing (12 pictures)",
    ]
    (copy / "Art" / "Alarm_Clocks").rename(copy / "Art" / "Wecker")  # as many pictures as the missing class
    assert "Wecker', which Office-Home has not: rename it to 'Alarm_Clock' if that is it" in check(Small(copy)).wrong[0]
    (copy / "Art" / "Wecker").rename(copy / "Art" / "alarm clock")  # a spelling, no other name
    assert check(Small(copy)).whole


def test_a_domain_that_is_missing_is_told_and_the_others_are_checked(copy):
    shutil.rmtree(copy / "Real World")
    (copy / "Art" / "Backpack" / "00002.jpg").unlink()
    assert check(Small(copy)).wrong == [
        "1 picture of Art missing: Backpack/00002",
        "Real World is missing: put its folder there as 'Real World' or 'Real' (`hda data check office-home` looks again)",
    ]


def test_where_files_have_no_numbers_counts_are_compared(tmp_path, plant):
    clef = ImageCLEFDA
    for domain in "cip":
        plant(tmp_path / domain, [f"{name}/{number}.jpg" for name in clef.classes for number in range(50)])
    report = check(clef(tmp_path))
    assert report.whole  # without Bing, which most do without
    assert report.found[0].told == [
        "Bing is missing: put its folder there as 'Bing' or 'b' (`hda data check imageclef-da` looks again)"
    ]
    (tmp_path / "i" / "dog" / "7.jpg").unlink()
    assert check(clef(tmp_path)).wrong == ["class 'dog' of ImageNet has 49 pictures, published are 50"]


def test_parts_are_counted_by_their_lists(tmp_path, plant, monkeypatch):
    monkeypatch.setattr(DomainNet, "domains", (Domain("Clipart", "C", train=2, test=1),))
    plant(
        tmp_path / "clipart",
        ["ant/clipart_007_1.jpg", "ant/clipart_007_2.jpg", "axe/clipart_012_3.jpg", "axe/more.jpg"],
    )
    assert check(DomainNet(tmp_path)).wrong == [
        f"clipart_{part}.txt of DomainNet is not in {tmp_path}: get it from http://ai.bu.edu/M3SDA/ and put it there, or "
        "say with --lists where it is"
        for part in ("train", "test")
    ]
    (tmp_path / "clipart_train.txt").write_text("clipart/ant/clipart_007_1.jpg 6\nclipart/axe/clipart_012_3.jpg 11\n")
    (tmp_path / "clipart_test.txt").write_text("clipart/ant/clipart_007_2.jpg 6\n")
    assert check(DomainNet(tmp_path)).whole
    (tmp_path / "clipart_test.txt").write_text("clipart/ant/clipart_007_2.jpg 6\nclipart/axe/more.jpg 11\n")
    assert check(DomainNet(tmp_path)).wrong == ["Clipart test has 2 pictures, published are 1: get it anew"]


def test_one_s_own_folder_is_told_of_classes_that_a_domain_lacks(tmp_path, plant):
    plant(tmp_path, ["photos/cat/1.jpg", "photos/dog/1.jpg", "drawings/cat/1.jpg", "drawings/dog/1.jpg"])
    assert check(Folder(tmp_path)).whole
    (tmp_path / "drawings" / "dog" / "1.jpg").unlink()
    assert check(Folder(tmp_path)).wrong == ["drawings lacks 1 of the 2 classes: dog"]


def test_digits_that_are_not_there_are_told(tmp_path):
    wrong = check(Digits(tmp_path)).wrong
    assert len(wrong) == 8
    assert wrong[0].startswith("MNIST is missing: put its folder there as 'MNIST'")


def test_the_real_domains_of_office_home_are_whole(shared_data):
    report = check(OfficeHome(shared_data))
    assert [found.pictures for found in report.found[:3]] == [2427, 4365, 4439]
    assert all(not found.wrong and len(found.told) == 2 for found in report.found[:3])


def test_the_lists_of_domainnet_126_say_which_pictures_are_missing(shared_data, tmp_path):
    file = "labeled_source_images_clipart.txt"
    with tarfile.open(shared_data / "lists" / "domainnet126_ssda_lists.tar.xz") as tar:
        listed = tar.extractfile(f"multi/{file}").read().decode()
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / file).write_text(listed)
    with tarfile.open(tmp_path / "clipart.tar", "w") as tar:
        for path in listed.split()[20::2]:
            member = tarfile.TarInfo(path)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"-"))
    found = check(DomainNet126(tmp_path)).found[0]
    gone = sorted("/".join(path.split("/")[1:]).removesuffix(".jpg") for path in listed.split()[:20:2])
    assert found.missing == gone
    assert found.wrong == [f"10 pictures of Clipart missing: {', '.join(gone)}"]
