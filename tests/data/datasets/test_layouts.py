"""Where domains are found, however copies spell them, and what they are read as."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

from hda.data.datasets.folder import Folder
from hda.data.datasets.imageclef_da import ImageCLEFDA
from hda.data.datasets.office_31 import Office31
from hda.data.datasets.office_caltech_10 import OfficeCaltech10
from hda.data.datasets.office_home import OfficeHome
from hda.data.datasets.visda_2017 import VisDA2017
from hda.errors import UserError

TWO = ("Alarm_Clock/00001.jpg", "Backpack/00001.jpg")


@pytest.mark.parametrize(
    "spelling", ["Real World", "Real_World", "RealWorld", "real_world", "real-world", "Real", "real"]
)
@pytest.mark.parametrize("above", ["", "OfficeHomeDataset_10072016/", "data/office-home/"])
def test_a_domain_is_found_however_its_folder_is_spelled(tmp_path, plant, spelling, above):
    plant(tmp_path / f"{above}{spelling}", TWO)
    home = OfficeHome(tmp_path)
    pictures = home.read(home.domain("R"))
    assert pictures.images.name == "Real World"
    assert pictures.classes == ("Alarm_Clock", "Backpack")
    assert pictures.labels.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["office_home_real_world.tar", "Real World.tar", "RealWorld.tar"])
def test_a_domain_may_be_a_tar(tmp_path, plant, name):
    plant(tmp_path / "packed" / "Real", TWO)
    with tarfile.open(tmp_path / name, "w") as tar:
        tar.add(tmp_path / "packed" / "Real", "Real")
    (tmp_path / "packed").rename(tmp_path / ".packed")
    home = OfficeHome(tmp_path)
    assert home.read(home.domain("R")).images.names == ("Real/Alarm_Clock/00001.jpg", "Real/Backpack/00001.jpg")
    plant(tmp_path / "Real World", TWO)  # a folder goes before the tar that it was unpacked from
    assert home.where(home.domain("R")) == tmp_path / "Real World"


@pytest.mark.parametrize("name", ["office_home_real_256.tar", "rw.tar", "Real World.tar"])
@pytest.mark.parametrize("above", ["", "./", "OfficeHomeDataset_10072016/", "Real/"])
def test_a_tar_may_be_called_otherwise_and_have_folders_above(tmp_path, plant, name, above):
    plant(tmp_path / ".packed", TWO)
    plant(tmp_path / "Art", TWO)
    with tarfile.open(tmp_path / name, "w") as tar:
        tar.add(tmp_path / ".packed", f"{above}Real_World")
    home = OfficeHome(tmp_path)
    assert home.where(home.domain("C")) is None
    pictures = home.read(home.domain("R"))
    assert pictures.images.name == "Real World"
    assert pictures.classes == ("Alarm_Clock", "Backpack")


def test_two_spellings_at_once_are_an_error(tmp_path, plant):
    plant(tmp_path / "Real World", TWO)
    plant(tmp_path / "RealWorld", TWO)
    home = OfficeHome(tmp_path)
    with pytest.raises(UserError, match=r"Real World of Office-Home is there twice, as .*: remove one"):
        home.where(home.domain("R"))


def test_a_domain_that_is_missing_is_told_with_what_is_near(tmp_path, plant):
    home = OfficeHome(tmp_path)
    with pytest.raises(UserError) as caught:
        home.read(home.domain("A"))
    assert str(caught.value) == (
        f"{tmp_path} has no Art of Office-Home: put its folder there as 'Art' "
        "(`hda data check office-home` looks again)"
    )
    plant(tmp_path / "Cliparts", TWO)
    with pytest.raises(UserError, match="rename 'Cliparts' to 'Clipart' if that is it"):
        home.read(home.domain("C"))
    plant(tmp_path, ["office_home_products.tar", "office_home_real_world.tar.gz"])
    with pytest.raises(UserError, match=r"rename 'office_home_products.tar' to 'Product.tar' if that is it"):
        home.read(home.domain("P"))
    with pytest.raises(UserError, match=r"unpack 'office_home_real_world.tar.gz' there, or make it a .tar without"):
        home.read(home.domain("R"))


def test_a_domain_s_own_folder_is_told_to_be_one_too_low(tmp_path, plant):
    home = OfficeHome(plant(tmp_path / "Art", TWO))
    with pytest.raises(UserError, match=f"has class folders itself, so give the folder above, such as {tmp_path}$"):
        home.read(home.domain("A"))


def test_folders_beside_a_dataset_that_cannot_be_read_are_passed_over(tmp_path, plant, monkeypatch):
    """Such as lost+found, at the top of a disk."""
    plant(tmp_path / "data" / "Art", TWO)
    (tmp_path / "lost+found").mkdir()
    listed = Path.iterdir

    def iterdir(path):
        if path.name == "lost+found":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    home = OfficeHome(tmp_path)
    assert home.where(home.domain("A")) == tmp_path / "data" / "Art"
    assert home.where(home.domain("C")) is None


@pytest.mark.parametrize("inside", ["", "images/"])
@pytest.mark.parametrize("spelling", ["amazon", "Amazon"])
def test_office_31_is_read_with_and_without_the_folder_images(tmp_path, plant, inside, spelling):
    names = [f"{inside}{name}/frame_0001.jpg" for name in ("back_pack", "Desk Lamp", "trash can")]
    plant(tmp_path / spelling, [*names, "interest_points/notes.txt"])
    office = Office31(tmp_path)
    pictures = office.read(office.domain("A"))
    assert pictures.classes == ("back_pack", "desk_lamp", "trash_can")
    assert len(pictures) == 3


def test_office_caltech_10_passes_over_the_other_classes_and_knows_those_of_caltech_256(tmp_path, plant):
    plant(tmp_path / "amazon" / "images", ["back_pack/frame_0001.jpg", "stapler/frame_0001.jpg", "mug/frame_0001.jpg"])
    plant(tmp_path / "caltech", ["backpack/003_0001.jpg", "coffee-mug/041_0001.jpg", "clutter/257_0001.jpg"])
    ten = OfficeCaltech10(tmp_path)
    for short in "AC":
        assert ten.read(ten.domain(short)).classes == ("back_pack", "mug")
        assert len(ten.read(ten.domain(short))) == 2


def test_a_folder_without_any_class_of_the_dataset_is_an_error(tmp_path, plant):
    plant(tmp_path / "amazon", ["cat/1.jpg", "dog/1.jpg"])
    ten = OfficeCaltech10(tmp_path)
    with pytest.raises(UserError, match=r"has none of the classes of Office-Caltech10, but cat, dog"):
        ten.read(ten.domain("A"))
    office = Office31(tmp_path)  # which keeps other classes beside its own
    with pytest.raises(UserError, match=r"has none of the classes of Office-31, but cat, dog"):
        office.read(office.domain("A"))


def test_imageclef_is_read_by_its_list_or_by_class_folders(tmp_path, plant):
    plant(tmp_path / "c", ["251_0041.jpg", "246_0100.jpg"])
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "cList.txt").write_text("c/251_0041.jpg 0\nc/246_0100.jpg 4\n")
    plant(tmp_path / "i", ["bird/1.jpg", "people/2.jpg"])
    clef = ImageCLEFDA(tmp_path)
    pictures = clef.read(clef.domain("Caltech"))
    named = dict(zip(pictures.images.names, [pictures.classes[label] for label in pictures.labels], strict=True))
    assert named == {"251_0041.jpg": "aeroplane", "246_0100.jpg": "bottle"}
    assert clef.read(clef.domain("I")).classes == ("bird", "people")
    plant(tmp_path / "c", ["999_0001.jpg"])
    with pytest.raises(UserError, match=r"cList.txt has no line for 999_0001.jpg"):
        clef.read(clef.domain("C"))


def test_visda_s_test_pictures_get_their_classes_from_the_list(tmp_path, plant):
    plant(tmp_path / "test", ["trunk00/a.jpg", "trunk01/b.jpg"])
    (tmp_path / "test" / "image_list.txt").write_text("trunk01/b.jpg 11\ntrunk00/a.jpg 3\n")
    visda = VisDA2017(tmp_path)
    pictures = visda.read(visda.domain("Test"))
    assert pictures.images.names == ("trunk00/a.jpg", "trunk01/b.jpg")
    assert [pictures.classes[label] for label in pictures.labels] == ["car", "truck"]


def test_the_order_of_reading_does_not_depend_on_how_files_were_made(tmp_path, plant):
    names = [f"{name}/{number:05d}.jpg" for name in ("Backpack", "Alarm_Clock") for number in (3, 1, 2)]
    plant(tmp_path / "one" / "Art", names)
    plant(tmp_path / "two" / "Art", reversed(names))
    one, two = (OfficeHome(tmp_path / which) for which in ("one", "two"))
    first, second = (home.read(home.domain("Art")) for home in (one, two))
    assert first.images.names == second.images.names == tuple(sorted(names))
    np.testing.assert_array_equal(first.labels, second.labels)


def test_one_s_own_folder_has_the_domains_that_are_in_it(tmp_path, plant):
    plant(tmp_path, ["photos/cat/1.jpg", "photos/dog/1.jpg", "drawings/cat/1.jpg"])
    own = Folder(tmp_path)
    assert [domain.name for domain in own.domains] == ["drawings", "photos"]
    assert own.classes == ("cat", "dog")
    assert own.read(own.domain("drawings")).classes == ("cat",)
    plant(tmp_path, ["Photos/cat/1.jpg"])
    with pytest.raises(UserError, match="has the domains Photos and photos, too alike: rename one"):
        Folder(tmp_path)


def test_what_lies_beside_one_s_own_domains_is_told_only_when_asked_for(tmp_path, plant):
    plant(tmp_path, ["photos/cat/1.jpg", "drawings/cat/1.jpg", "notes/todo.txt"])
    own = Folder(tmp_path)
    assert own.read(own.domain("photos")).classes == ("cat",)
    with pytest.raises(UserError, match="notes holds no images"):
        own.read(own.domain("notes"))
    with pytest.raises(
        UserError, match=r"no domain 'photo': did you mean 'photos'\? \(known: drawings, notes, photos\)"
    ):
        own.domain("photo")
