import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hda.data.images import LabelledImages, from_arrays, is_list, read_labelled, read_unlabelled, unite
from hda.errors import UserError

ANIMALS = ("dog/2.png", "cat/9.jpg", "cat/10.png", "dog/1.JPG", "emu/1.webp")
IN_ORDER = ("cat/10.png", "cat/9.jpg", "dog/1.JPG", "dog/2.png", "emu/1.webp")


def fill(folder: Path, *names: str) -> Path:
    """Files that hold their own names: sets of images are read without decoding any."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def pack(path: Path, *names: str, members: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """A tar of such files, in the order given, then members without content."""
    with tarfile.open(path, "w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
        for member in members:
            tar.addfile(member)
    return path


def member(name: str, kind: bytes, to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def sentence(*args, read=read_labelled) -> str:
    with pytest.raises(UserError) as caught:
        read(*args)
    return str(caught.value)


# Folders


def test_a_folder_of_class_folders_is_in_the_order_of_names_with_classes_in_alphabetical_order(tmp_path):
    animals = read_labelled(fill(tmp_path / "animals", *ANIMALS))
    assert animals.images.names == IN_ORDER
    assert animals.classes == ("cat", "dog", "emu")
    assert animals.labels.tolist() == [0, 0, 1, 1, 2]
    assert animals.images.name == "animals"
    assert animals.images.origin == tmp_path / "animals"
    assert [animals.images.read(i).decode() for i in range(5)] == list(IN_ORDER)


def test_one_folder_above_the_class_folders_is_passed_through_and_names_the_set(tmp_path):
    animals = read_labelled(fill(tmp_path / "outer", *(f"art/{name}" for name in ANIMALS)))
    assert animals.images.names == tuple(f"art/{name}" for name in IN_ORDER)
    assert animals.classes == ("cat", "dog", "emu")
    assert animals.labels.tolist() == [0, 0, 1, 1, 2]
    assert animals.images.name == "art"


def test_so_are_several_one_in_another_and_the_last_names_the_set(tmp_path):
    outer = fill(tmp_path / "outer", *(f"data/v2/art/{name}" for name in ANIMALS))
    (outer / "data" / "v2" / "art" / "cow").mkdir()
    assert sentence(outer) == f"class 'cow' in {outer} has no images: add some or remove the folder"
    animals = read_labelled(outer, complete=False)
    assert animals.classes == ("cat", "dog", "emu")
    assert animals.labels.tolist() == [0, 0, 1, 1, 2]
    assert animals.images.name == "art"
    assert read_unlabelled(outer).name == "art"


def test_folders_below_a_class_folder_belong_to_the_class(tmp_path):
    animals = read_labelled(fill(tmp_path, "cat/old/1.png", "cat/2.png", "dog/new/deep/1.png"))
    assert animals.classes == ("cat", "dog")
    assert dict(zip(animals.images.names, animals.labels.tolist(), strict=True)) == {
        "cat/2.png": 0,
        "cat/old/1.png": 0,
        "dog/new/deep/1.png": 1,
    }


def test_a_name_that_is_given_goes_before_the_folder_s(tmp_path):
    fill(tmp_path, *ANIMALS)
    assert read_labelled(tmp_path, name="zoo").images.name == "zoo"
    assert read_unlabelled(tmp_path, name="zoo").name == "zoo"


def test_a_flat_folder_is_read_without_labels(tmp_path):
    flat = read_unlabelled(fill(tmp_path / "photos", "b.png", "a.bmp", "c.TIF"))
    assert flat.names == ("a.bmp", "b.png", "c.TIF")
    assert flat.name == "photos"
    assert flat.read(2) == b"c.TIF"
    assert len(flat) == 3
    assert repr(flat) == "<3 images of photos>"


def test_without_labels_class_folders_are_read_all_the_same(tmp_path):
    assert read_unlabelled(fill(tmp_path, *ANIMALS, "loose.png")).names == (*IN_ORDER, "loose.png")


def test_hidden_files_and_other_kinds_of_files_are_passed_over(tmp_path):
    strange = (".cache/1.png", "cat/.hidden.png", "cat/._1.png", "__MACOSX/cat/1.png", "cat/Thumbs.db", "notes.txt")
    assert read_labelled(fill(tmp_path, *ANIMALS, *strange)).images.names == IN_ORDER
    packed = pack(tmp_path / "animals.tar", *ANIMALS, ".DS_Store", *strange[:-1], "cat/notes.txt")
    assert read_labelled(packed).images.names == IN_ORDER


def test_links_to_folders_are_followed_and_loops_of_links_end(tmp_path):
    fill(tmp_path / "away", "1.png")
    set_ = fill(tmp_path / "set", "dog/1.png")
    (set_ / "cat").symlink_to(tmp_path / "away")
    (set_ / "dog" / "round").symlink_to(set_)
    assert {"cat/1.png", "dog/1.png"} <= set(read_unlabelled(set_).names)
    assert len(read_unlabelled(set_)) < 10


def test_a_link_to_nothing_is_an_error(tmp_path):
    (fill(tmp_path, *ANIMALS) / "cat" / "3.png").symlink_to(tmp_path / "gone.png")
    assert sentence(tmp_path) == (
        f"{tmp_path}/cat/3.png is a link to nothing, or no file: restore what it stands for or remove it"
    )


def test_a_single_image_is_a_set_without_labels_of_one(tmp_path):
    one = read_unlabelled(fill(tmp_path, "cat.png") / "cat.png")
    assert (one.names, one.name, one.read(0)) == (("cat.png",), "cat", b"cat.png")
    assert sentence(tmp_path / "cat.png") == f"{tmp_path}/cat.png is a single image: give a folder of class folders"


def test_two_ways_to_one_picture_give_one_place(tmp_path):
    fill(tmp_path / "real", *ANIMALS)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    direct, linked = read_unlabelled(tmp_path / "real"), read_unlabelled(tmp_path / "link" / "cat")
    assert direct.where(0) == linked.where(0) == str(tmp_path.resolve() / "real" / "cat" / "10.png")


# Sentences on folders


def test_a_path_that_is_missing_or_empty_is_an_error(tmp_path):
    for read in (read_labelled, read_unlabelled):
        assert sentence(tmp_path / "no", read=read) == f"{tmp_path}/no does not exist: check the path"
        assert sentence("", read=read) == "a path is empty: give a folder, a .tar or a list of images"


def test_a_path_that_cannot_be_reached_is_an_error(tmp_path):
    assert "cannot be reached" in sentence(tmp_path / ("x" * 5000))


def test_an_empty_class_folder_is_an_error_unless_parts_will_do(tmp_path):
    (fill(tmp_path, *ANIMALS) / "cow").mkdir()
    assert sentence(tmp_path) == f"class 'cow' in {tmp_path} has no images: add some or remove the folder"
    assert read_labelled(tmp_path, complete=False).classes == ("cat", "dog", "emu")


def test_a_folder_of_tars_is_told_from_one_without_anything(tmp_path):
    pack(tmp_path / "animals.tar", *ANIMALS)
    assert (
        sentence(tmp_path)
        == f"{tmp_path} holds no images but animals.tar: give that .tar itself, or a task with --data"
    )


def test_an_empty_class_below_a_folder_above_is_an_error_too(tmp_path):
    (fill(tmp_path, "art/cat/1.png", "art/dog/1.png") / "art" / "cow").mkdir()
    assert sentence(tmp_path) == f"class 'cow' in {tmp_path} has no images: add some or remove the folder"


def test_a_single_class_is_an_error_unless_parts_will_do(tmp_path):
    fill(tmp_path, "cat/1.png", "cat/2.png")
    assert sentence(tmp_path) == f"{tmp_path} has images of the single class 'cat': give at least two classes"
    few = read_labelled(tmp_path, complete=False)
    assert (few.classes, few.labels.tolist()) == (("cat",), [0, 0])


def test_images_directly_in_the_folder_are_an_error_with_labels(tmp_path):
    fill(tmp_path, "cat/1.png", "dog/1.png", "7.png")
    assert sentence(tmp_path) == (
        f"{tmp_path} has images directly in it, such as 7.png: put each in a folder of its class"
    )


@pytest.mark.parametrize("read", [read_labelled, read_unlabelled])
def test_a_folder_or_tar_without_images_is_an_error(tmp_path, read):
    fill(tmp_path / "set", "cat/notes.txt")
    assert sentence(tmp_path / "set", read=read).startswith(f"{tmp_path}/set holds no images: files that end in .jpg,")
    packed = pack(tmp_path / "set.tar", "cat/notes.txt")
    assert sentence(packed, read=read).startswith(f"{packed} holds no images: files that end in .jpg,")


@pytest.mark.parametrize("read", [read_labelled, read_unlabelled])
@pytest.mark.parametrize("name", ["set.tar.gz", "set.tgz", "set.zip", "set.TAR.XZ", "set.7z"])
def test_something_compressed_is_to_be_uncompressed_first(tmp_path, read, name):
    fill(tmp_path, name)
    assert sentence(tmp_path / name, read=read) == (
        f"{tmp_path / name} is compressed, and images are read in place: uncompress it to a folder or a .tar first"
    )


def test_an_unknown_kind_of_file_is_an_error(tmp_path):
    fill(tmp_path, "labels.csv")
    assert sentence(tmp_path / "labels.csv") == (
        f"{tmp_path}/labels.csv is of an unknown kind: give a folder, a .tar, a list (.txt, .lst, .list) or an image"
    )


# Tars


@pytest.mark.parametrize("above", ["", "./", "art/", "./art/"])
def test_a_tar_is_read_in_place_as_the_folder_would_be(tmp_path, above):
    path = pack(tmp_path / "animals.tar", *(above + name for name in ANIMALS))
    before = sorted(tmp_path.iterdir())
    animals = read_labelled(path)
    inner = above.removeprefix("./")
    assert animals.images.names == tuple(inner + name for name in IN_ORDER)
    assert animals.classes == ("cat", "dog", "emu")
    assert animals.labels.tolist() == [0, 0, 1, 1, 2]
    assert animals.images.name == (inner.rstrip("/") or "animals")
    assert [animals.images.read(i).decode() for i in range(5)] == [above + name for name in IN_ORDER]
    assert animals.images.where(0) == f"{path}/{inner}cat/10.png"
    assert sorted(tmp_path.iterdir()) == before


def test_a_tar_that_lists_its_folders_and_long_names_is_read(tmp_path):
    folder = fill(tmp_path / "art", *ANIMALS, f"cat/{'long' * 40}.png")
    with tarfile.open(tmp_path / "art.tar", "w") as tar:
        tar.add(folder, arcname="art")
    packed, lying = read_labelled(tmp_path / "art.tar"), read_labelled(folder)
    assert packed.images.names == tuple(f"art/{name}" for name in lying.images.names)
    assert packed.labels.tolist() == lying.labels.tolist()
    for row in range(len(lying)):
        assert packed.images.read(row) == lying.images.read(row)


def test_a_tar_is_read_without_labels(tmp_path):
    assert read_unlabelled(pack(tmp_path / "flat.tar", "b.png", "a.png")).names == ("a.png", "b.png")


def test_threads_read_one_tar_at_a_time_without_mixing_its_files(tmp_path):
    names = [f"cat/{i:03d}.png" for i in range(50)]
    images = read_unlabelled(pack(tmp_path / "many.tar", *names))
    rows = np.random.default_rng(0).integers(50, size=400)
    with ThreadPoolExecutor(8) as pool:
        assert [data.decode() for data in pool.map(images.read, rows)] == [names[row] for row in rows]


def test_an_empty_class_in_a_tar_is_an_error(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS, members=(member("cow", tarfile.DIRTYPE),))
    assert sentence(path) == f"class 'cow' in {path} has no images: add some or remove the folder"


def test_images_directly_in_a_tar_are_an_error_with_labels(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS, "loose.png")
    assert "has images directly in it, such as loose.png" in sentence(path)


@pytest.mark.parametrize(("kind", "to"), [(tarfile.SYMTYPE, "9.jpg"), (tarfile.LNKTYPE, "cat/9.jpg")])
def test_a_link_in_a_tar_is_an_error(tmp_path, kind, to):
    path = pack(tmp_path / "set.tar", *ANIMALS, members=(member("cat/link.png", kind, to),))
    assert sentence(path) == (
        f"{path} holds a link, cat/link.png, where images are read in place: "
        "pack it with tar's --dereference and --hard-dereference"
    )


def test_a_tar_that_reaches_out_of_its_folder_is_an_error(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS, members=(member("/cat/1.png", tarfile.REGTYPE),))
    assert sentence(path) == f"{path} holds /cat/1.png, outside of its own folder: pack it with relative paths"
    pack(path, *ANIMALS, members=(member("cat/../../1.png", tarfile.REGTYPE),))
    assert "outside of its own folder" in sentence(path)


def test_a_tar_with_a_pipe_is_an_error(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS, members=(member("cat/pipe.png", tarfile.FIFOTYPE),))
    assert sentence(path) == f"{path} holds cat/pipe.png, which is no plain file: pack it without"


@pytest.mark.parametrize("length", [0, 100, 512, 700, 1024, 1500, 2048])
def test_a_truncated_tar_is_an_error_wherever_it_breaks_off(tmp_path, length):
    path = pack(tmp_path / "set.tar", *ANIMALS)  # a header and a block of content each
    path.write_bytes(path.read_bytes()[:length])
    assert sentence(path).endswith(": get it anew")


def test_a_tar_that_breaks_off_between_two_files_says_where(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS)
    path.write_bytes(path.read_bytes()[:2048])
    assert sentence(path) == f"{path} breaks off or is damaged at byte 2,048: get it anew"


def test_a_damaged_header_in_the_middle_of_a_tar_is_an_error(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS)
    data = bytearray(path.read_bytes())
    data[2048:2100] = b"\xff" * 52
    path.write_bytes(data)
    assert sentence(path) == f"{path} breaks off or is damaged at byte 2,048: get it anew"


def test_a_compressed_tar_under_a_plain_name_is_an_error(tmp_path):
    with tarfile.open(tmp_path / "set.tar", "w:gz") as tar:
        tar.add(fill(tmp_path / "set", *ANIMALS), arcname=".")
    start = f"{tmp_path}/set.tar is damaged or is not an uncompressed tar ("
    assert sentence(tmp_path / "set.tar").startswith(start)


# Lists


def test_a_list_s_paths_start_from_the_root_and_its_numbers_give_way_to_folder_names(tmp_path):
    root = fill(tmp_path / "data", *(f"art/{name}" for name in ANIMALS))
    lines = ("art/dog/2.png 7", "art/cat/9.jpg 0", "art/emu/1.webp 3", "art/dog/1.JPG 7")
    listed = read_labelled(write(tmp_path / "art.txt", *lines), root)
    assert listed.images.names == ("art/cat/9.jpg", "art/dog/1.JPG", "art/dog/2.png", "art/emu/1.webp")
    assert listed.classes == ("cat", "dog", "emu")
    assert listed.labels.tolist() == [0, 1, 1, 2]
    assert listed.images.name == "art"
    assert listed.images.read(0) == b"art/cat/9.jpg"
    assert listed.images.where(0) == f"{root.resolve()}/art/cat/9.jpg"


def test_a_list_s_numbers_stay_where_they_do_not_go_with_the_folders_one_to_one(tmp_path):
    fill(tmp_path, "a/1.png", "a/2.png", "b/1.png")
    two_in_one = write(tmp_path / "split.txt", "a/1.png 10", "a/2.png 9", "b/1.png 9")
    assert read_labelled(two_in_one).classes == ("10", "9")
    assert read_labelled(two_in_one).labels.tolist() == [0, 1, 1]
    one_of_two = write(tmp_path / "joined.txt", "a/1.png 0", "b/1.png 0", "a/2.png 0")
    assert read_labelled(one_of_two, complete=False).classes == ("0",)


def test_a_list_s_words_stay_and_so_do_the_numbers_of_images_without_a_folder(tmp_path):
    fill(tmp_path, "a/1.png", "b/1.png", "3.png", "4.png")
    assert read_labelled(write(tmp_path / "words.txt", "a/1.png cat", "b/1.png dog")).classes == ("cat", "dog")
    assert read_labelled(write(tmp_path / "flat.txt", "3.png 1", "4.png 0")).classes == ("0", "1")


def test_a_list_without_a_root_starts_from_its_own_folder_and_may_go_up(tmp_path):
    fill(tmp_path / "data", "cat/1.png", "dog/1.png")
    inside = write(tmp_path / "data" / "all.list", "cat/1.png 0", "./dog/1.png 1")
    assert read_labelled(inside).images.names == ("cat/1.png", "dog/1.png")
    (tmp_path / "lists").mkdir()
    beside = write(tmp_path / "lists" / "all.lst", "../data/cat/1.png 0", "../data/dog/1.png 1")
    listed = read_labelled(beside)
    assert listed.classes == ("cat", "dog")
    assert listed.images.name == "all"
    assert listed.images.read(1) == b"dog/1.png"
    assert listed.images.where(1) == read_labelled(inside).images.where(1)


def test_an_image_that_is_stored_in_another_format_is_found_by_its_stem(tmp_path):
    fill(tmp_path, "cat/1.webp", "cat/1.txt", "dog/1.png")
    listed = read_labelled(write(tmp_path / "all.txt", "cat/1.jpg 0", "dog/1.png 1"))
    assert listed.images.names == ("cat/1.webp", "dog/1.png")
    assert listed.images.read(0) == b"cat/1.webp"


def test_an_image_that_is_stored_in_two_other_formats_is_not_guessed(tmp_path):
    fill(tmp_path, "cat/1.webp", "cat/1.png", "dog/1.png")
    path = write(tmp_path / "all.txt", "dog/1.png 1", "cat/1.jpg 0")
    assert sentence(path) == f"line 2 of {path} names cat/1.jpg, which is not in {tmp_path}: give the lists' root"


def test_a_list_may_start_from_a_tar(tmp_path):
    packed = pack(tmp_path / "data.tar", *(f"art/{name}" for name in ANIMALS))
    listed = read_labelled(write(tmp_path / "art.txt", "art/dog/2.jpg 1", "art/cat/9.jpg 0"), packed)
    assert listed.images.names == ("art/cat/9.jpg", "art/dog/2.png")
    assert listed.classes == ("cat", "dog")
    assert listed.images.read(1) == b"art/dog/2.png"
    assert listed.images.where(1) == read_labelled(packed).images.where(3)


def test_a_list_may_have_spaces_in_paths_comments_empty_lines_a_mark_and_say_a_thing_twice(tmp_path):
    fill(tmp_path, "big cat/a b.png", "dog/1.png")
    path = tmp_path / "all.txt"
    path.write_bytes(b"\xef\xbb\xbfbig cat/a b.png 0\r\n\r\n# dogs\r\ndog/1.png   1\r\nbig cat/a b.png 0")
    listed = read_labelled(path)
    assert listed.images.names == ("big cat/a b.png", "dog/1.png")
    assert listed.classes == ("big cat", "dog")


def test_without_labels_a_list_s_labels_are_neither_needed_nor_compared(tmp_path):
    fill(tmp_path, "cat/a b.png", "dog/1.png", "dog/2.png")
    path = write(tmp_path / "all.txt", "dog/1.png 1", "dog/1.png 2", "cat/a b.png", "dog/2.png x")
    assert read_unlabelled(path).names == ("cat/a b.png", "dog/1.png", "dog/2.png")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["cat/1.png 0", "cat/7.png 0"],
            "line 2 of {path} names cat/7.png, which is not in {root}: give the lists' root",
        ),
        (["# none"], "{path} names no images: write one `path label` a line"),
        (
            ["cat/1.png 0", "dog/1.png"],
            "line 2 of {path} reads 'dog/1.png': write it as `path label`, the path being an image's",
        ),
        (
            ["cat/notes.doc 0"],
            "line 1 of {path} reads 'cat/notes.doc 0': write it as `path label`, the path being an image's",
        ),
        (
            ["cat/1.png 0", "dog/1.png 1", "./cat/1.png 1"],
            "line 3 of {path} gives ./cat/1.png the label 1, a line above 0: keep one",
        ),
        (["cat/1.png 0"], "{path} has images of the single class 'cat': give at least two classes"),
    ],
)
def test_a_list_with_a_mistake_is_an_error_that_names_the_line(tmp_path, lines, expected):
    fill(tmp_path, "cat/1.png", "dog/1.png")
    path = write(tmp_path / "all.txt", *lines)
    assert sentence(path) == expected.format(path=path, root=tmp_path)


def test_a_line_without_an_image_is_an_error_without_labels_too(tmp_path):
    path = write(tmp_path / "all.txt", "readme")
    assert sentence(path, read=read_unlabelled) == (
        f"line 1 of {path} reads 'readme': write it as `path`, the path being an image's"
    )


def test_a_list_that_is_no_text_is_an_error(tmp_path):
    (tmp_path / "all.txt").write_bytes(b"\xff\xfe\x00")
    expected = f"{tmp_path}/all.txt is not a text in UTF-8: give a list of `path label` lines"
    assert sentence(tmp_path / "all.txt") == expected


def test_a_root_that_cannot_be_one_is_an_error(tmp_path):
    path = write(tmp_path / "all.txt", "cat/1.png 0")
    assert sentence(path, tmp_path / "gone") == f"{tmp_path}/gone does not exist: check the path"
    assert sentence(path, path) == f"{path} cannot be the root of a list: give a folder or a .tar"


def test_only_a_text_file_is_a_list(tmp_path):
    (tmp_path / "folder.txt").mkdir()
    assert is_list("anywhere/train.txt")
    assert is_list("train.LST")
    assert not is_list("train.tar")
    assert not is_list(tmp_path / "folder.txt")


# Fingerprints


def test_a_fingerprint_stays_while_nothing_changes_and_changes_with_every_file(tmp_path):
    fill(tmp_path / "set", *ANIMALS)
    first = read_unlabelled(tmp_path / "set").fingerprint()
    assert read_unlabelled(tmp_path / "set").fingerprint() == first

    seen = {first}
    changed = tmp_path / "set" / "cat" / "9.jpg"
    changed.write_text("more than before")
    seen.add(read_unlabelled(tmp_path / "set").fingerprint())
    status = changed.stat()
    os.utime(changed, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
    seen.add(read_unlabelled(tmp_path / "set").fingerprint())
    changed.rename(changed.with_name("8.jpg"))
    seen.add(read_unlabelled(tmp_path / "set").fingerprint())
    changed.with_name("8.jpg").unlink()
    seen.add(read_unlabelled(tmp_path / "set").fingerprint())
    assert len(seen) == 5


def test_a_tar_s_fingerprint_changes_with_its_time(tmp_path):
    path = pack(tmp_path / "set.tar", *ANIMALS)
    first = read_unlabelled(path).fingerprint()
    assert read_unlabelled(path).fingerprint() == first
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1_000_000_000))
    assert read_unlabelled(path).fingerprint() != first


def test_a_stamp_is_the_file_s_size_and_time(tmp_path):
    images = read_unlabelled(fill(tmp_path, *ANIMALS))
    status = (tmp_path / IN_ORDER[0]).stat()
    assert images.stamp(0) == (len(IN_ORDER[0]), status.st_mtime_ns)


def test_a_selection_has_a_fingerprint_of_its_own_that_depends_on_the_order(tmp_path):
    images = read_unlabelled(fill(tmp_path, *ANIMALS))
    assert images.select([3, 1]).names == (IN_ORDER[3], IN_ORDER[1])
    assert images.select([3, 1]).read(0) == IN_ORDER[3].encode()
    assert len({part.fingerprint() for part in (images, images.select([3, 1]), images.select([1, 3]))}) == 3


# In memory


def test_arrays_are_pictures_that_read_as_png(tmp_path):
    pixels = np.random.default_rng(0).integers(256, size=(12, 5, 7, 3)).astype(np.uint8)
    images = from_arrays(pixels, name="noise")
    assert len(images) == 12
    assert images.names == tuple(sorted(images.names))
    assert images.origin is None
    assert images.name == "noise"
    for row in range(12):
        np.testing.assert_array_equal(images.array(row), pixels[row])
        decoded = Image.open(io.BytesIO(images.read(row)))
        assert decoded.format == "PNG"
        np.testing.assert_array_equal(np.asarray(decoded), pixels[row])
    assert images.where(11) == "noise[11]"
    np.testing.assert_array_equal(images.select([11, 2]).array(1), pixels[2])
    assert read_unlabelled(fill(tmp_path, "a.png")).array(0) is None


def test_arrays_with_labels_are_labelled_images():
    labelled = from_arrays(np.zeros((3, 2, 2, 3), np.uint8), [1, 0, 1], ("cat", "dog"))
    assert isinstance(labelled, LabelledImages)
    assert labelled.labels.tolist() == [1, 0, 1]
    assert labelled.labels.dtype == np.int64
    assert labelled.classes == ("cat", "dog")


def test_the_fingerprint_of_arrays_changes_with_a_pixel():
    pixels = np.zeros((3, 2, 2, 3), np.uint8)
    other = pixels.copy()
    other[2, 1, 1, 2] = 1
    assert from_arrays(pixels).fingerprint() == from_arrays(pixels.copy()).fingerprint()
    assert from_arrays(pixels).fingerprint() != from_arrays(other).fingerprint()


@pytest.mark.parametrize(
    "pixels", [np.zeros((3, 2, 2, 3)), np.zeros((3, 2, 2), np.uint8), np.zeros((3, 3, 2, 2), np.uint8)]
)
def test_arrays_of_another_type_or_shape_are_refused(pixels):
    with pytest.raises(ValueError, match="pixels are uint8 of the shape"):
        from_arrays(pixels)


# Labels


def test_labels_that_do_not_fit_the_images_or_classes_are_refused():
    pixels = np.zeros((3, 2, 2, 3), np.uint8)
    with pytest.raises(ValueError, match="3 images need as many labels"):
        from_arrays(pixels, [0, 1], ("cat", "dog"))
    with pytest.raises(ValueError, match="labels run from 0 to 2, classes are 2"):
        from_arrays(pixels, [0, 1, 2], ("cat", "dog"))
    with pytest.raises(ValueError, match="labels run from -1 to 1"):
        from_arrays(pixels, [0, 1, -1], ("cat", "dog"))


def test_labels_cannot_be_written_and_do_not_follow_the_array_they_came_from():
    given = np.array([0, 1, 1])
    labelled = from_arrays(np.zeros((3, 2, 2, 3), np.uint8), given, ("cat", "dog"))
    given[0] = 1
    assert labelled.labels.tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        labelled.labels[0] = 1


def test_selecting_takes_images_and_labels_alike(tmp_path):
    part = read_labelled(fill(tmp_path, *ANIMALS)).select([4, 0, 2])
    assert part.images.names == ("emu/1.webp", "cat/10.png", "dog/1.JPG")
    assert part.labels.tolist() == [2, 0, 1]
    assert part.classes == ("cat", "dog", "emu")


def test_renumbering_matches_classes_by_name():
    labelled = from_arrays(np.zeros((4, 2, 2, 3), np.uint8), [0, 1, 2, 0], ("cat", "dog", "emu"))
    more = labelled.renumbered(("ant", "emu", "cat", "dog"))
    assert more.labels.tolist() == [2, 3, 1, 2]
    assert [more.classes[label] for label in more.labels] == ["cat", "dog", "emu", "cat"]


def test_a_list_s_order_does_not_matter(tmp_path):
    for name in (names := [f"{c}/{i:02d}.png" for c in "abc" for i in range(9)]):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    numbers = np.random.default_rng(0).permutation(len(names))
    for file, order in (("sorted.txt", range(len(names))), ("shuffled.txt", numbers)):
        (tmp_path / file).write_text("".join(f"{names[at]} {names[at][0]}\n" for at in order))
    one, other = (read_labelled(tmp_path / file, name="set") for file in ("sorted.txt", "shuffled.txt"))
    assert one.images.names == other.images.names == tuple(names)
    assert one.labels.tolist() == other.labels.tolist() == [at // 9 for at in range(27)]
    assert one.images.fingerprint() == other.images.fingerprint()


def test_united_sets_read_as_their_parts_do(tmp_path):
    pixels = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    memory = from_arrays(pixels, [0, 1], ("a", "b"), name="memory")
    (tmp_path / "disk" / "a").mkdir(parents=True)
    (tmp_path / "disk" / "a" / "1.png").write_bytes(b"one")
    disk = read_labelled(tmp_path / "disk", complete=False).renumbered(("a", "b"))
    both = unite([disk, memory])
    assert both.images.name == "disk+memory"
    assert both.images.names == ("disk/a/1.png", "memory/0000000", "memory/0000001")
    assert both.labels.tolist() == [0, 0, 1]
    assert both.images.read(0) == b"one"
    assert both.images.array(0) is None
    np.testing.assert_array_equal(both.images.array(2), pixels[1])
    assert [both.images.where(at) for at in range(3)] == [disk.images.where(0), "memory[0]", "memory[1]"]
    assert [both.images.stamp(at) for at in (0, 1)] == [disk.images.stamp(0), memory.images.stamp(0)]
    assert len(set(unite([disk, disk]).images.names)) == 2  # sets of one name
    with pytest.raises(ValueError, match="numbered by one tuple of classes"):
        unite([disk, disk.renumbered(("b", "a"))])
