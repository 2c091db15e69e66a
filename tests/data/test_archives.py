import bz2
import gzip
import io
import lzma
import os
import random
import signal
import stat
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hda.data import archives
from hda.data.archives import ArchiveError, extract
from hda.errors import UserError

TREE = {"Art/Alarm_Clock/00001.jpg": b"one" * 999, "Art/Bed/00002.jpg": b"", "Art/Bed/ü 3.jpg": b"three" * 512}
PACK = {".tar": bytes, ".tar.gz": gzip.compress, ".tar.xz": lzma.compress, ".tar.bz2": bz2.compress}
KINDS = (".zip", *PACK)


def a_zip(entries, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Entries are (name or ZipInfo, bytes)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as packed:
        for name, data in entries:
            packed.writestr(name, data)
    return file.getvalue()


def a_tar(entries) -> bytes:
    """Entries are (name, bytes) or (TarInfo, bytes)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        for name, data in entries:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return file.getvalue()


def an_archive(folder: Path, kind: str, entries) -> Path:
    path = folder / f"some{kind}"
    path.write_bytes(a_zip(entries) if kind == ".zip" else PACK[kind](a_tar(entries)))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(archive: Path, **limits) -> str:
    """The sentence; nothing may be left beside the archive."""
    before = sorted(archive.parent.rglob("*"))
    with pytest.raises(ArchiveError) as caught:
        extract(archive, archive.parent / "into", **limits)
    assert sorted(archive.parent.rglob("*")) == before
    said = str(caught.value)
    assert said.startswith(f"{archive} ")
    assert "\n" not in said
    return said.removeprefix(f"{archive} ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_its_tree_and_nothing_else(tmp_path, kind):
    told = []
    archive = an_archive(tmp_path, kind, TREE.items())
    assert extract(archive, tmp_path / "deep" / "into", progress=told.append) == tmp_path / "deep" / "into"
    assert contents(tmp_path / "deep") == {f"into/{name}": data for name, data in TREE.items()}
    assert told == [1, 2, 3]


def test_the_kind_is_told_by_the_bytes(tmp_path):
    archive = tmp_path / "some.zip"
    archive.write_bytes(gzip.compress(a_tar(TREE.items())))
    assert contents(extract(archive, tmp_path / "into")) == TREE


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_folders_dots_and_what_macos_adds(tmp_path, kind):
    entries = [("./a/", b""), ("a/.DS_Store", b"x"), ("__MACOSX/a/._b", b"x"), ("a/._b", b"x"), ("./a//b", b"b")]
    if kind == ".tar":
        entries[0] = (tarfile.TarInfo("./a"), b"")
        entries[0][0].type = tarfile.DIRTYPE
    assert contents(extract(an_archive(tmp_path, kind, entries), tmp_path / "into")) == {"a/b": b"b"}


def test_the_one_folder_around_all_may_be_left_out(tmp_path):
    archive = an_archive(tmp_path, ".zip", TREE.items())
    assert sorted(path.name for path in extract(archive, tmp_path / "into", unwrap=True).iterdir()) == [
        "Alarm_Clock",
        "Bed",
    ]
    several = an_archive(tmp_path, ".tar", [*TREE.items(), ("README", b"x")])
    assert sorted(path.name for path in extract(several, tmp_path / "other", unwrap=True).iterdir()) == [
        "Art",
        "README",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "other", "some.tar", "some.zip"]


def test_files_are_no_programs_whatever_the_archive_says(tmp_path):
    info = tarfile.TarInfo("run")
    info.mode = 0o6777
    into = extract(an_archive(tmp_path, ".tar", [(info, b"x")]), tmp_path / "into")
    assert not (into / "run").stat().st_mode & 0o7111


def test_what_is_there_is_never_touched(tmp_path):
    archive = an_archive(tmp_path, ".zip", TREE.items())
    (tmp_path / "into").mkdir()
    with pytest.raises(UserError) as caught:
        extract(archive, tmp_path / "into")
    assert str(caught.value) == f"{tmp_path / 'into'} is there already: move it away, so that some.zip can be extracted"
    assert list((tmp_path / "into").iterdir()) == []


ESCAPES = ["/etc/passwd", "../out", "a/../../out", "a/..", "C:/out", "c:out"]


@pytest.mark.parametrize("kind", [".zip", ".tar", ".tar.gz"])
@pytest.mark.parametrize("name", ESCAPES)
def test_no_name_leads_out(tmp_path, kind, name):
    home = tmp_path / "home"
    home.mkdir()
    said = refusal(an_archive(home, kind, [("good", b"x"), (name, b"bad")]))
    assert said == f"holds {name!r}, which is outside of its own folder: do not use this archive"
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("kind", [".zip", ".tar"])
@pytest.mark.parametrize("name", ["..\\out", "a\\b", "a\nb", "a\x1b[2J"])
def test_names_that_mean_other_things_elsewhere_are_refused(tmp_path, kind, name):
    said = refusal(an_archive(tmp_path, kind, [(name, b"bad")]))
    assert said == f"holds {name!r}, a name that no packer of ours would give: do not use this archive"


def test_a_name_with_an_end_in_its_middle_is_refused(tmp_path):
    archive = tmp_path / "some.zip"
    archive.write_bytes(a_zip([("goodXbad", b"x")]).replace(b"goodXbad", b"good\0bad"))
    assert refusal(archive).startswith("holds 'good\\x00bad', a name that no packer")


LINKS = [tarfile.SYMTYPE, tarfile.LNKTYPE]
DEVICES = [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]


@pytest.mark.parametrize("kind", LINKS + DEVICES)
@pytest.mark.parametrize("to", ["/etc/passwd", "../../out", "good"])
def test_links_and_devices_are_refused(tmp_path, kind, to):
    info = tarfile.TarInfo("bad")
    info.type, info.linkname = kind, to
    said = refusal(an_archive(tmp_path, ".tar", [("good", b"x"), (info, b"")]))
    assert said == f"holds 'bad', which is {'a link' if kind in LINKS else 'no plain file'}: do not use this archive"


def test_a_file_through_a_link_of_the_same_archive_goes_nowhere(tmp_path):
    home, out = tmp_path / "home", tmp_path / "out"
    home.mkdir()
    out.mkdir()
    link = tarfile.TarInfo("there")
    link.type, link.linkname = tarfile.SYMTYPE, str(out)
    refusal(an_archive(home, ".tar", [(link, b""), ("there/bad", b"bad")]))
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(("mode", "what"), [(stat.S_IFLNK, "a link"), (stat.S_IFIFO, "no plain file")])
def test_links_in_a_zip_are_refused(tmp_path, mode, what):
    info = zipfile.ZipInfo("bad")
    info.create_system, info.external_attr = 3, (mode | 0o777) << 16
    said = refusal(an_archive(tmp_path, ".zip", [("good", b"x"), (info, b"/etc/passwd")]))
    assert said == f"holds 'bad', which is {what}: do not use this archive"


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_of_bytes_does_not_go_off(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(archives, "ROOM", 1 << 20)
    archive = an_archive(tmp_path, kind, [("good", b"x"), ("bomb", bytes(9 << 20))])
    if kind == ".tar":
        assert refusal(archive, most_bytes=1 << 20).startswith("holds more than 1,048,576 bytes")
    elif archive.stat().st_size * archives.SWELL < 8 << 20:
        assert refusal(archive).endswith("bytes, which is too much for its size: do not use this archive")
    assert refusal(archive, most_bytes=5000) == (
        "holds more than 5,000 bytes, which is too much for its size: do not use this archive"
    )


def test_a_zip_that_lies_about_its_sizes_gains_nothing(tmp_path):
    data = bytearray(a_zip([("bomb", bytes(100_000))]))
    size = (100_000).to_bytes(4, "little")
    while size in data:
        at = data.index(size)
        data[at : at + 4] = (10).to_bytes(4, "little")
    archive = tmp_path / "some.zip"
    archive.write_bytes(data)
    assert refusal(archive, most_bytes=5000).startswith("is damaged, broken off or no archive (")


@pytest.mark.parametrize("kind", [".zip", ".tar"])
def test_a_bomb_of_files_does_not_go_off(tmp_path, kind):
    archive = an_archive(tmp_path, kind, [(f"{number}", b"") for number in range(30)])
    assert refusal(archive, most_members=29) == "holds more than 29 files: do not use this archive"


def test_a_header_that_asks_for_all_memory_is_refused(tmp_path):
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    archive = tmp_path / "some.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    assert refusal(archive) == "asks for more room than it should: do not use this archive"


@pytest.mark.parametrize("kind", [".zip", ".tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")  # zipfile's, on making it
def test_the_same_file_twice_is_refused(tmp_path, kind):
    archive = an_archive(tmp_path, kind, [("a", b"good"), ("a", b"bad")])
    assert refusal(archive) == "holds 'a', and holds it twice: do not use this archive"


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b", "a")])
def test_a_file_and_a_folder_of_one_name_are_refused(tmp_path, names):
    said = refusal(an_archive(tmp_path, ".tar", [(name, b"x") for name in names]))
    assert said.endswith(
        ("as a folder and as a file: do not use this archive", "and holds it twice: do not use this archive")
    )


def test_a_password_is_not_known(tmp_path):
    data = bytearray(a_zip([("a", b"secret")]))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[data.index(b"PK\x03\x04") + 6] |= 1
    archive = tmp_path / "some.zip"
    archive.write_bytes(data)
    assert refusal(archive) == "holds 'a', which asks for a password: do not use this archive"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.85])
def test_what_breaks_off_is_never_taken_for_whole(tmp_path, kind, share):
    entries = [(f"{number}", os.urandom(3000)) for number in range(10)]
    archive = an_archive(tmp_path, kind, entries)
    data = archive.read_bytes()
    archive.write_bytes(data[: int(len(data) * share)])
    assert refusal(archive).endswith(": fetch it again")


def test_a_tar_that_breaks_off_between_two_files_is_seen(tmp_path):
    archive = an_archive(tmp_path, ".tar", [("a", bytes(512)), ("b", bytes(512))])
    archive.write_bytes(archive.read_bytes()[:2048])
    assert refusal(archive).startswith("is damaged, broken off or no archive (")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damage_in_the_middle_is_seen_where_the_format_can_tell(tmp_path, kind):
    archive = an_archive(tmp_path, kind, [(f"{number}", os.urandom(3000)) for number in range(10)])
    data = bytearray(archive.read_bytes())
    at = data.index(b"ustar", len(data) // 2) if kind == ".tar" else len(data) // 2
    data[at : at + 40] = bytes(byte ^ 0xFF for byte in data[at : at + 40])
    archive.write_bytes(data)
    assert refusal(archive).endswith(": fetch it again")


@pytest.mark.parametrize("data", [b"", b"<html>no archive</html>", b"PK\x03\x04", b"\x1f\x8b", b"BZh9", bytes(10240)])
def test_what_is_no_archive_is_told(tmp_path, data):
    archive = tmp_path / "some.zip"
    archive.write_bytes(data)
    assert refusal(archive).endswith(": fetch it again")


def test_an_archive_without_files_is_none(tmp_path):
    assert refusal(an_archive(tmp_path, ".zip", [("a/", b"")])) == "holds no files: fetch it again"


def test_a_missing_archive_is_told(tmp_path):
    assert refusal(tmp_path / "none.zip") == "cannot be read (No such file or directory): fetch it again"


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(file, data):
        raise OSError(28, "No space left on device")

    archive = an_archive(tmp_path, ".zip", TREE.items())
    monkeypatch.setattr(archives, "write_all", full)
    with pytest.raises(UserError) as caught:
        extract(archive, tmp_path / "into")
    draft = tmp_path / ".into.draft"
    assert str(caught.value) == f"there is no room for {draft} (No space left on device): free some and run again"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["some.zip"]


SLOW = """
import os, sys
from pathlib import Path
from hda.data.archives import extract

os.sync = lambda: None

def slowly(done):
    print(done, flush=True)
    if done == 2:
        sys.stdin.read()

extract(Path(sys.argv[1]), Path(sys.argv[2]), progress=slowly)
"""


@pytest.mark.parametrize("kind", [".zip", ".tar.gz"])
def test_a_killed_extraction_is_not_taken_for_a_whole_one_and_done_anew(tmp_path, kind):
    archive, into = an_archive(tmp_path, kind, TREE.items()), tmp_path / "into"
    command = [sys.executable, "-c", SLOW, str(archive), str(into)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert [other.stdout.readline() for _ in range(2)] == ["1\n", "2\n"]
        with pytest.raises(UserError) as caught:
            extract(archive, into)
        assert str(caught.value) == f"{into} is being extracted by another process: wait until that is done"
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not into.exists()
    assert (tmp_path / ".into.draft").is_dir()
    assert contents(extract(archive, into)) == TREE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", archive.name]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_no_packer_has_written_do_no_harm(tmp_path, kind):
    chance = random.Random(0)
    good = an_archive(
        tmp_path, kind, [(f"{number % 2}/{'x' * 120}{number}ü", bytes(300)) for number in range(5)]
    ).read_bytes()
    archive, refused = tmp_path / "bad", 0
    for number in range(60):
        data = bytearray(good)
        for _ in range(chance.choice([1, 2, 8])):
            at = chance.randrange(len(data))
            data[at : at + chance.choice([1, 1, 30])] = chance.randbytes(chance.choice([1, 1, 40]))
        archive.write_bytes(data)
        into, said = tmp_path / str(number) / "into", ""
        try:
            extract(archive, into)
        except ArchiveError as error:
            said = str(error)
        refused += bool(said)
        assert "\n" not in said
        assert list(into.parent.iterdir()) == ([] if said else [into])
    assert refused > 5
