import hashlib
import io
import signal
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from hda.data.download import Download
from hda.data.prepare import Lines, prepare
from hda.data.sources import SOURCES
from hda.errors import UserError

FAST = {"backoff": 0.01, "timeout": 5.0, "tries": 2}
ART = {f"Art/Bed/{number}.jpg": bytes([number]) * 3000 for number in range(4)}
REAL = {f"Real World/Bed/{number}.jpg": bytes([number]) * 2000 for number in range(4)}
LIST = b"Art/Bed/0.jpg 0\n"
MANUAL = "get office.zip from https://example.org/office, and put Art and Real World into the folder"


@dataclass
class Office:
    """A dataset of two domains and a list."""

    downloads: tuple[Download, ...] = ()
    manual: str = MANUAL
    name: str = "tiny-office"


def check(root: Path) -> list[str]:
    files = {**ART, **REAL, "lists/art.txt": LIST}
    return [f"{name} is missing" for name in files if not (root / name).is_file()]


def a_zip(files: dict[str, bytes], above: str = "") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, data in files.items():
            packed.writestr(above + name, data)
    return file.getvalue()


def a_tgz(files: dict[str, bytes], above: str = "") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for name, data in files.items():
            info = tarfile.TarInfo(above + name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return file.getvalue()


ART_ZIP, REAL_TGZ = a_zip(ART), a_tgz(REAL, "OfficeDataset/")


@pytest.fixture
def office(site) -> Office:
    return Office(
        (
            Download(
                (site("/gone/Art.zip", site.says(404)), site("/Art.zip", site.file(ART_ZIP))),
                "Art.zip",
                sha256=hashlib.sha256(ART_ZIP).hexdigest(),
                size=len(ART_ZIP),
                extract="",
                holds=("Art",),
            ),
            Download(
                (site("/Real.tgz", site.file(REAL_TGZ)),), "Real.tgz", extract="", unwrap=True, holds=("Real World",)
            ),
            Download((site("/art.txt", site.file(LIST)),), "lists/art.txt"),
        )
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data" / "office"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def asked(site) -> list[str]:
    return [path for path, _, _ in site.asked]


def whole(root: Path) -> bool:
    return check(root) == [] and names(root) == ["Art", "Real World", "lists"]


def refusal(dataset, root: Path, **options) -> str:
    with pytest.raises(UserError) as caught:
        prepare(dataset, root, check, **FAST | options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_dataset_is_fetched_extracted_and_checked(office, root):
    told = []
    result = prepare(office, root, check, note=told.append, **FAST)
    assert whole(root)
    assert all((root / name).read_bytes() == data for name, data in {**ART, **REAL}.items())
    assert result == {"dataset": "tiny-office", "root": str(root), "done": ["Art.zip", "Real.tgz", "lists/art.txt"]}
    assert told == [
        "extracting Art.zip",
        f"Art.zip is extracted into {root}",
        "extracting Real.tgz",
        f"Real.tgz is extracted into {root}",
        f"lists/art.txt is in {root}",
        f"tiny-office is in {root}, and whole",
    ]


def test_lists_that_did_not_come_are_asked_for_again_where_all_pictures_are_there(office, root, site):
    def pictures(root: Path) -> list[str]:
        return [f"{name} is missing" for name in {**ART, **REAL} if not (root / name).is_file()]

    site("/art.txt", site.says(404))
    with pytest.raises(UserError, match=r"lists/art\.txt of tiny-office cannot be downloaded"):
        prepare(office, root, pictures, **FAST)
    told = []
    assert prepare(office, root, pictures, note=told.append, **FAST)["done"] == []
    assert told[0].startswith(f"tiny-office is in {root} already, and whole but for published lists: lists/art.txt of ")
    site("/art.txt", site.file(LIST))
    assert prepare(office, root, pictures, note=told.append, **FAST)["done"] == ["lists/art.txt"]
    assert (root / "lists" / "art.txt").read_bytes() == LIST
    (root / "lists").rename(root / "ssda lists")
    site.asked.clear()
    assert prepare(office, root, pictures, note=told.append, **FAST)["done"] == []
    assert told[-1] == f"tiny-office is in {root} already, and whole: there is nothing to do"
    assert site.asked == []


def test_what_is_complete_is_left_alone_and_that_is_said(office, root, site):
    prepare(office, root, check, **FAST)
    site.asked.clear()
    told = []
    assert prepare(office, root, check, note=told.append, **FAST)["done"] == []
    assert told == [f"tiny-office is in {root} already, and whole: there is nothing to do"]
    assert site.asked == []


def test_what_cannot_be_fetched_is_told_and_nothing_is_made(root):
    said = refusal(Office(), root)
    assert said == f"tiny-office cannot be downloaded by a program: {MANUAL} (the folder being {root})"
    assert not root.parent.exists()


def test_a_dead_link_is_told_with_what_to_do_and_nothing_is_left(office, root, site):
    site("/Art.zip", site.says(403))
    host = site.url.removeprefix("http://")
    assert refusal(office, root) == (
        f"Art.zip of tiny-office cannot be downloaded ({host} answered 404 Not Found; {host} answered 403 Forbidden): try "
        f"again later, or save it as {root / 'Art.zip'} and run again, or {MANUAL} (the folder being {root})"
    )
    assert not root.parent.exists()


def test_an_archive_that_the_user_has_saved_is_taken_and_left(office, root, site):
    root.mkdir(parents=True)
    (root / "Art.zip").write_bytes(ART_ZIP)
    prepare(office, root, check, **FAST)
    assert check(root) == []
    assert names(root) == ["Art", "Art.zip", "Real World", "lists"]
    assert asked(site) == ["/Real.tgz", "/art.txt"]


def test_an_archive_of_the_user_s_that_is_another_is_told_and_left(office, root, site):
    root.mkdir(parents=True)
    (root / "Art.zip").write_bytes(ART_ZIP[:-1])
    wrong = f"has {len(ART_ZIP) - 1:,} bytes and not {len(ART_ZIP):,}"
    said = refusal(office, root)
    assert said == f"{root / 'Art.zip'} is there, but {wrong}: move it away, so that it can be downloaded"
    (root / "Art.zip").unlink()
    (root / "Real.tgz").write_bytes(REAL_TGZ[:100])
    assert f"): fetch it anew, or {MANUAL}" in refusal(office, root)
    assert names(root) == [".prepare", "Art", "Real.tgz"]


def test_an_interrupted_download_is_gone_on_with(office, root, site):
    site("/Art.zip", site.cut(ART_ZIP, 4000))
    refusal(office, root, tries=1)
    assert names(root) == [".prepare"]
    assert names(root / ".prepare") == ["Art.zip.part", "Art.zip.part.json", "lock"]
    site("/Art.zip", site.file(ART_ZIP))
    prepare(office, root, check, **FAST)
    assert whole(root)
    assert site.asked[3] == ("/Art.zip", "bytes=4000-", '"a"')


def test_what_was_done_is_not_done_again(office, root, site):
    site("/Real.tgz", site.says(404))
    refusal(office, root)
    assert names(root) == [".prepare", "Art"]
    site("/Real.tgz", site.file(REAL_TGZ))
    site.asked.clear()
    prepare(office, root, check, **FAST)
    assert whole(root)
    assert asked(site) == ["/Real.tgz", "/art.txt"]


def test_a_domain_that_is_there_already_is_used(office, root, site):
    for name, data in ART.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    told = []
    prepare(office, root, check, note=told.append, **FAST)
    assert whole(root)
    assert told[0] == f"Art is in {root} already: Art.zip was not downloaded"
    assert asked(site) == ["/Real.tgz", "/art.txt"]


def test_half_a_domain_of_the_user_s_is_told_with_what_is_missing(office, root):
    (root / "Art" / "Bed").mkdir(parents=True)
    (root / "Art" / "Bed" / "0.jpg").write_bytes(b"mine")
    said = refusal(office, root)
    assert said == (
        f"tiny-office in {root} is not whole (Art/Bed/1.jpg is missing; Art/Bed/2.jpg is missing; Art/Bed/3.jpg is "
        f"missing): move away what is wrong and run again, or {MANUAL} (the folder being {root})"
    )
    assert (root / "Art" / "Bed" / "0.jpg").read_bytes() == b"mine"


def test_some_of_what_one_archive_holds_is_told_before_it_is_fetched(root, site):
    both = Download(
        (site("/all.zip", site.file(a_zip(ART | REAL))),), "all.zip", extract="", holds=("Art", "Real World")
    )
    (root / "Art").mkdir(parents=True)
    said = refusal(Office((both,)), root)
    assert said.startswith(f"{root / 'Art'} is there, but not all that all.zip holds: move it away")
    assert site.asked == []
    assert names(root) == ["Art"]


def test_no_file_of_the_user_s_is_replaced(office, root, site):
    root.mkdir(parents=True)
    (root / "Art").write_text("mine")
    office.downloads = (Download(office.downloads[0].urls, "Art.zip", extract=""), *office.downloads[1:])
    said = refusal(office, root)
    assert said == f"{root / 'Art'} is in the way of what was downloaded: move it away and run again"
    assert (root / "Art").read_text() == "mine"
    (root / "Art").unlink()
    site.asked.clear()
    prepare(office, root, check, **FAST)
    assert whole(root)
    assert asked(site) == ["/Real.tgz", "/art.txt"]


def test_what_was_taken_away_comes_again(office, root, site):
    site("/art.txt", site.says(404))
    refusal(office, root)
    (root / "Real World").rename(root.parent / "elsewhere")
    site("/art.txt", site.file(LIST))
    prepare(office, root, check, **FAST)
    assert whole(root)


def test_a_damaged_archive_without_a_checksum_is_removed_and_told(office, root, site):
    site("/Real.tgz", site.file(REAL_TGZ[:100]))
    said = refusal(office, root)
    work = root / ".prepare"
    assert said.startswith(f"{work / 'Real.tgz'} is damaged, broken off or no archive (")
    assert said.endswith(f": it was removed, run again to fetch it anew, or {MANUAL} (the folder being {root})")
    assert names(work) == ["Art.zip.json", "lock"]
    assert names(root) == [".prepare", "Art"]
    site("/Real.tgz", site.file(REAL_TGZ))
    prepare(office, root, check, **FAST)
    assert whole(root)


def test_a_page_in_place_of_an_archive_is_told(office, root, site):
    site("/Real.tgz", site.says(200, "Content-Type: text/html", body=b"<html>Virus scan warning"))
    assert "answered with a web page instead of the file)" in refusal(office, root)


def test_what_is_missing_in_the_end_is_told(office, root, site):
    office.downloads = office.downloads[1:]
    said = refusal(office, root)
    assert (
        "is not whole (Art/Bed/0.jpg is missing; Art/Bed/1.jpg is missing; Art/Bed/2.jpg is missing; and 1 more)"
        in said
    )


def test_a_check_that_refuses_is_a_fault(office, root):
    def strict(root: Path) -> list[str]:
        raise UserError("this is no office")

    with pytest.raises(UserError, match=r"is not whole \(this is no office\)"):
        prepare(office, root, strict, **FAST)


def test_archives_are_kept_where_asked_for(root, site):
    kept = Download((site("/Art.zip", site.file(ART_ZIP)),), "Art.zip", extract="", keep=True)
    prepare(Office((kept,)), root, lambda root: [] if (root / "Art").is_dir() else ["none"], **FAST)
    assert names(root) == ["Art", "archives"]
    assert (root / "archives" / "Art.zip").read_bytes() == ART_ZIP


def test_a_file_may_go_into_a_folder_of_an_archive(root, site):
    one = Download(
        (site("/test.zip", site.file(a_zip({"test/1.jpg": b"1"}))),), "test.zip", extract="", holds=("test",)
    )
    other = Download((site("/list", site.file(LIST)),), "test/list.txt")
    prepare(Office((one, other)), root, lambda root: [] if (root / "test" / "list.txt").is_file() else ["none"], **FAST)
    assert names(root / "test") == ["1.jpg", "list.txt"]


def test_two_archives_may_fill_one_folder(root, site):
    parts = [a_zip({f"images/{number}/a.jpg": b"a"}) for number in range(2)]
    downloads = tuple(
        Download((site(f"/{number}.zip", site.file(data)),), f"{number}.zip", extract="all")
        for number, data in enumerate(parts)
    )
    prepare(Office(downloads), root, lambda root: [] if (root / "all" / "images" / "1").is_dir() else ["none"], **FAST)
    assert names(root / "all" / "images") == ["0", "1"]


def test_a_file_is_no_folder(office, tmp_path):
    (tmp_path / "file").write_text("")
    assert refusal(office, tmp_path / "file") == (
        f"{tmp_path / 'file'} is no folder: give a folder for tiny-office, which need not be there yet"
    )


RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_prepare import Office, check
from hda.data import prepare
from hda.data.download import Download

kind, place, root = sys.argv[2:5]
prepare.os.sync = lambda: None
downloads = eval(sys.argv[5])

def wait(*args):
    print("here", flush=True)
    sys.stdin.read()

if kind == "extracting":
    inner = prepare.extract
    prepare.extract = lambda *a, **k: inner(*a, **{**k, "progress": lambda done: wait() if done == int(place) else None})
else:
    replace, count = prepare.os.replace, iter(range(1, 1000))
    prepare.os.replace = lambda *a: wait() if next(count) == int(place) else replace(*a)
prepare.prepare(Office(downloads), root, check)
"""


@pytest.mark.parametrize(("kind", "place"), [("extracting", 2), *(("naming", place) for place in range(1, 11))])
def test_killed_at_any_moment_the_next_call_ends_what_was_begun(office, root, kind, place):
    command = [
        sys.executable,
        "-c",
        RUN,
        str(Path(__file__).parent),
        kind,
        str(place),
        str(root),
        repr(office.downloads),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "here\n"
        assert refusal(office, root).endswith("by another process: wait until that is done")
        other.send_signal(signal.SIGKILL)
        other.wait()
    for domain in (ART, REAL):
        some = next(iter(domain)).partition("/")[0]
        assert not (root / some).exists() or all((root / name).is_file() for name in domain)  # whole, or not there
    assert check(root) != []
    prepare(office, root, check, **FAST)
    assert whole(root)


def test_progress_is_printed_now_and_then(capsys):
    lines = Lines(every=0.0)
    lines.note("a note")
    lines.progress("Art.zip: 1 MB of 2 MB")
    Lines(every=60.0).progress("Art.zip: 2 MB of 2 MB")
    assert capsys.readouterr().out == "a note\nArt.zip: 1 MB of 2 MB\n"


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_can_be_fetched_as_far_as_can_be_told_without_the_web(name):
    source = SOURCES[name]
    assert source.manual.endswith("folder")
    places = [download.name for download in source.downloads]
    assert len(set(places)) == len(places)
    for download in source.downloads:
        assert download.urls
        assert all(url.startswith(("https://", "http://")) for url in download.urls)
        assert not Path(download.name).is_absolute()
        assert ".." not in Path(download.name).parts
        assert {len(download.sha256 or "0" * 64), len(download.md5 or "0" * 32) * 2} == {64}
        assert download.name.endswith((".zip", ".tar", ".tgz", ".tar.gz")) == (download.extract is not None)
