import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hda.data import download
from hda.data.download import fetch
from hda.errors import UserError

DATA = bytes(range(256)) * 40  # 10,240 bytes, every piece telling where it is from
OTHER = bytes(reversed(DATA))
SHA256 = hashlib.sha256(DATA).hexdigest()
FAST = {"backoff": 0.01, "timeout": 5.0}
IMPATIENT = 0.4  # seconds


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def get(urls, path: Path, **options) -> Path:
    return fetch(urls, path, **FAST | options)


def refusal(urls, path: Path, **options) -> str:
    with pytest.raises(UserError) as caught:
        get(urls, path, **options)
    return str(caught.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "art.zip"


def is_there(path: Path) -> bool:
    return path.read_bytes() == DATA and names(path.parent) == [path.name]


def test_a_file_comes_whole_and_alone(site, path):
    told = []
    url = site("/art.zip", site.file(DATA))
    assert get(url, path, sha256=SHA256, size=len(DATA), progress=lambda *far: told.append(far)) == path
    assert is_there(path)
    assert told[-1] == (len(DATA), len(DATA))
    assert site.ranges() == [None]


def test_a_file_that_is_there_is_not_fetched_again(site, path):
    url = site("/art.zip", site.file(DATA))
    get(url, path)
    get(url, path, sha256=SHA256.upper())
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("published", "wrong"),
    [
        ({"sha256": "0" * 64}, f"has the sha256 {SHA256[:12]}... and not 000000000000..."),
        ({"md5": "0" * 32}, f"has the md5 {hashlib.md5(DATA).hexdigest()[:12]}... and not 000000000000..."),
        ({"size": 7}, "has 10,240 bytes and not 7"),
    ],
)
def test_what_is_there_and_wrong_is_left_alone(site, path, published, wrong):
    path.parent.mkdir()
    path.write_bytes(DATA)
    said = refusal(site("/art.zip", site.file(DATA)), path, **published)
    assert said == f"{path} is there, but {wrong}: move it away, so that it can be downloaded"
    assert is_there(path)
    assert site.asked == []


@pytest.mark.parametrize("fault", ["cut", "reset", "stall"])
def test_what_broke_off_is_gone_on_from(site, path, fault):
    url = site("/art.zip", getattr(site, fault)(DATA, 4000), site.file(DATA))
    get(url, path, timeout=IMPATIENT if fault == "stall" else 5.0)
    assert is_there(path)
    assert site.asked[1:] == [("/art.zip", "bytes=4000-", '"a"')]


def test_what_broke_off_is_gone_on_from_by_the_next_call(site, path):
    url = site("/art.zip", site.cut(DATA, 4000))
    host = url.split("/")[2]
    assert refusal(url, path, tries=1) == (
        f"art.zip cannot be downloaded ({host} broke off after 4.0 kB of 10.2 kB): try again later, when the 4.0 kB that "
        f"came are gone on from, or fetch it by other means and save it as {path}"
    )
    assert names(path.parent) == ["art.zip.part", "art.zip.part.json"]
    site("/art.zip", site.file(DATA))
    get(url, path)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-"]


def test_a_date_will_do_where_the_tag_is_weak(site, path):
    date = "Wed, 21 Oct 2015 07:28:00 GMT"

    def cut(handler):
        handler.head(200, 'ETag: W/"a"', f"Last-Modified: {date}", f"Content-Length: {len(DATA)}")
        handler.wfile.write(DATA[:4000])

    get(site("/art.zip", cut, site.file(DATA, tag='W/"a"', date=date)), path)
    assert is_there(path)
    assert site.asked[1] == ("/art.zip", "bytes=4000-", date)


def test_nothing_is_gone_on_from_without_a_sign_that_it_is_the_same_file(site, path):
    get(site("/art.zip", site.cut(OTHER, 4000, tag=None), site.file(DATA, tag=None)), path)
    assert is_there(path)
    assert site.ranges() == [None, None]


def test_a_checksum_is_such_a_sign(site, path):
    get(site("/art.zip", site.cut(DATA, 4000, tag=None), site.file(DATA, tag=None)), path, sha256=SHA256)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-"]


def test_two_halves_of_different_files_are_found_out_and_the_file_comes_anew(site, path):
    get(site("/art.zip", site.cut(OTHER, 4000, tag=None), site.file(DATA, tag=None)), path, sha256=SHA256)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-", None]


def test_a_server_that_ignores_ranges_is_listened_to_from_the_start(site, path):
    get(site("/art.zip", site.cut(DATA, 4000), site.file(DATA, ranges=False)), path)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-"]


def test_a_file_that_changed_in_between_comes_anew(site, path):
    get(site("/art.zip", site.cut(OTHER, 4000, tag='"old"'), site.file(DATA, tag='"new"')), path)
    assert is_there(path)
    assert site.asked[1] == ("/art.zip", "bytes=4000-", '"old"')


@pytest.mark.parametrize(
    "lines",
    [
        (
            'ETag: "new"',
            f"Content-Range: bytes 4000-{len(DATA) - 1}/{len(DATA)}",
        ),  # a changed file, the condition ignored
        ('ETag: "old"', f"Content-Range: bytes 4001-{len(DATA) - 1}/{len(DATA)}"),  # from elsewhere
        ('ETag: "old"', f"Content-Range: bytes 4000-{len(DATA)}/{len(DATA) + 1}"),  # of another length
        ('ETag: "old"',),  # from nowhere
    ],
)
def test_a_range_that_does_not_fit_is_not_taken(site, path, lines):
    wrong = site.says(206, *lines, body=OTHER[4000:])
    get(site("/art.zip", site.cut(OTHER, 4000, tag='"old"'), wrong, site.file(DATA)), path)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-", None]


def test_a_part_longer_than_the_file_is_now_is_thrown_away(site, path):
    get(site("/art.zip", site.cut(OTHER * 2, 15000), site.file(DATA)), path)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=15000-", None]


def test_a_part_that_lacks_nothing_but_its_name_is_not_fetched_again(site, path):
    url = site("/art.zip", site.file(DATA))
    path.parent.mkdir()
    path.with_name("art.zip.part").write_bytes(DATA)
    notes = {"url": url, "etag": '"a"', "modified": None, "total": len(DATA)}
    path.with_name("art.zip.part.json").write_text(json.dumps(notes))
    get(url, path, sha256=SHA256)
    assert is_there(path)
    assert site.asked == []


@pytest.mark.parametrize("notes", [None, "", '{"url": "htt', "[]", '{"other": 1}'])
def test_a_part_of_which_nothing_is_known_is_not_gone_on_from(site, path, notes):
    path.parent.mkdir()
    path.with_name("art.zip.part").write_bytes(OTHER[:4000])
    if notes is not None:
        path.with_name("art.zip.part.json").write_text(notes)
    get(site("/art.zip", site.file(DATA)), path)
    assert is_there(path)
    assert site.ranges() == [None]


def test_another_mirror_goes_on_where_length_and_checksum_are_published(site, path):
    mirrors = site("/one", site.cut(DATA, 4000), site.says(404)), site("/two", site.file(DATA, tag='"b"'))
    get(mirrors, path, sha256=SHA256, size=len(DATA))
    assert is_there(path)
    assert site.asked[1:] == [("/one", "bytes=4000-", '"a"'), ("/two", "bytes=4000-", None)]


def test_another_mirror_starts_anew_where_nothing_is_published(site, path):
    mirrors = site("/one", site.cut(OTHER, 4000), site.says(404)), site("/two", site.file(DATA))
    get(mirrors, path)
    assert is_there(path)
    assert site.asked[2] == ("/two", None, None)


def test_a_mirror_without_the_file_does_not_cost_what_another_gave(site, path):
    mirrors = site("/one", site.cut(DATA, 4000)), site("/two", site.says(404))
    host = mirrors[0].split("/")[2]
    said = refusal(mirrors, path, tries=2)
    assert f"({host} broke off after 4.0 kB of 10.2 kB, 2 times in a row; {host} answered 404 Not Found)" in said
    assert path.with_name("art.zip.part").read_bytes() == DATA[:4000]


def test_a_length_too_long_is_never_believed_whole(site, path):
    said = refusal(site("/art.zip", site.cut(DATA, len(DATA), said=len(DATA) + 5, tag=None)), path)
    assert "broke off after 10.2 kB of 10.2 kB, 4 times in a row" in said
    assert not path.exists()
    assert len(site.asked) == 4


def test_a_length_too_short_is_seen(site, path):
    said = refusal(site("/art.zip", site.cut(DATA, len(DATA), said=5000)), path)
    assert "sent more than the 5,000 bytes that were announced" in said
    assert names(path.parent) == []


@pytest.mark.parametrize("length", [5000, None])
def test_a_length_other_than_the_published_is_seen(site, path, length):
    act = site.chunks(DATA) if length is None else site.file(DATA)
    said = refusal(site("/art.zip", act), path, size=length or 99)
    assert ("has a file of 10,240 bytes and not 5,000" if length else "sent more than the 99 bytes") in said
    assert names(path.parent) == []


def test_corrupt_bytes_are_never_named(site, path):
    mirrors = site("/one", site.file(OTHER)), site("/two", site.file(DATA[:-1] + b"!"))
    said = refusal(mirrors, path, sha256=SHA256)
    wrong = hashlib.sha256(OTHER).hexdigest()[:12]
    assert f"gave a file that has the sha256 {wrong}... and not {SHA256[:12]}...;" in said
    assert names(path.parent) == []
    assert len(site.asked) == 2


def test_the_next_mirror_mends_it(site, path):
    get((site("/one", site.file(OTHER)), site("/two", site.file(DATA))), path, md5=hashlib.md5(DATA).hexdigest())
    assert is_there(path)


@pytest.mark.parametrize("whole", [True, False])
def test_chunks_without_the_last_are_no_file(site, path, whole):
    url = site("/art.zip", site.chunks(DATA, whole))
    if whole:
        get(url, path)
        assert is_there(path)
    else:
        assert "broke off after 10.2 kB, 2 times in a row" in refusal(url, path, tries=2)
        assert not path.exists()


def test_nothing_is_no_file(site, path):
    assert "gave a file that is empty" in refusal(site("/art.zip", site.file(b"")), path)
    assert names(path.parent) == []


@pytest.mark.parametrize(
    ("status", "times"),
    [
        ("404 Not Found", 1),
        ("403 Forbidden", 1),
        ("410 Gone", 1),
        ("503 Service Unavailable", 4),
        ("429 Too Many Requests", 4),
    ],
)
def test_only_what_may_pass_is_tried_again(site, path, status, times):
    said = refusal(site("/art.zip", site.says(int(status[:3]))), path)
    assert f"answered {status}{', 4 times in a row' if times > 1 else ''})" in said
    assert len(site.asked) == times
    assert names(path.parent) == []


def test_it_waits_as_long_as_it_is_told_to(site, path, monkeypatch):
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    busy = [site.says(503, f"Retry-After: {seconds}") for seconds in ("7", "3600", "Wed, 21 Oct 2015 07:28:00 GMT")]
    get(site("/art.zip", *busy, site.file(DATA)), path, backoff=1.0)
    assert waited == [7, download.PAUSE, 4]


def test_progress_gives_new_tries_and_standing_still_does_not(site, path, monkeypatch):
    monkeypatch.setattr(download, "STEP", 1000)

    def piece(handler):
        start = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
        where = [f"Content-Range: bytes {start}-{len(DATA) - 1}/{len(DATA)}"]
        handler.head(206 if start else 200, 'ETag: "a"', f"Content-Length: {len(DATA) - start}", *where)
        handler.wfile.write(DATA[start : start + 1100])

    get(site("/art.zip", piece), path, tries=2)
    assert is_there(path)
    assert len(site.asked) == 10


def test_a_silent_server_is_given_up(site, path):
    said = refusal(site("/art.zip", site.stall(DATA, 0)), path, tries=2, timeout=IMPATIENT)
    assert "was silent for 0.4 s, 2 times in a row" in said
    assert names(path.parent) == []


def test_a_server_that_drips_is_given_up(site, path):
    said = refusal(site("/art.zip", site.drip(DATA, 0.05)), path, tries=1, timeout=IMPATIENT)
    assert re.search(r"sent \d+ bytes in \d\.\d s\)", said)


def test_a_server_that_does_not_close_as_it_said_costs_nothing_but_time(site, path):
    get(site("/art.zip", site.stall(DATA, len(DATA))), path, tries=1, timeout=IMPATIENT)
    assert is_there(path)


def test_nobody_listens(path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{deaf.getsockname()[1]}"
        said = refusal(f"http://{host}/art.zip", path, tries=1)
    assert said.startswith(
        f"art.zip cannot be downloaded ({host} refused the connection): try again later, or fetch it"
    )
    assert names(path.parent) == []


@pytest.mark.parametrize(("kind", "times"), [(socket.EAI_NONAME, 1), (socket.EAI_AGAIN, 2)])
def test_a_name_that_leads_nowhere(path, monkeypatch, kind, times):
    asked = []

    def nowhere(*args, **kwargs):
        asked.append(args)
        raise socket.gaierror(kind, "not known")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    said = refusal("http://nowhere.invalid/art.zip", path, tries=2)
    assert f"(nowhere.invalid cannot be found: not known{', 2 times in a row' if times == 2 else ''})" in said
    assert len(asked) == times


def test_redirections_are_followed_on_the_web_alone(site, path):
    site("/there", site.file(DATA))
    get(site("/art.zip", site.says(302, "Location: /there")), path)
    assert is_there(path)
    path.unlink()
    secret = path.parent / "secret"
    secret.write_bytes(b"secret")
    for off in (f"file://{secret}", "ftp://127.0.0.1/art.zip"):
        assert "redirected in a circle, or off the web)" in refusal(
            site("/art.zip", site.says(302, f"Location: {off}")), path
        )
    assert names(path.parent) == ["secret"]


def test_redirections_in_a_circle_end(site, path):
    assert "redirected in a circle, or off the web)" in refusal(
        site("/art.zip", site.says(302, "Location: /art.zip")), path
    )
    assert len(site.asked) < 20


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html; charset=utf-8", b"Virus scan warning"), ("application/octet-stream", b"\n <!DOCTYPE html><html>")],
)
def test_a_page_is_no_archive(site, path, kind, body):
    said = refusal(site("/art.zip", site.says(200, f"Content-Type: {kind}", body=body)), path)
    assert "answered with a web page instead of the file)" in said
    assert len(site.asked) == 1
    assert names(path.parent) == []


def test_google_s_page_is_told_by_its_name(site, path, monkeypatch):
    page = site("/uc", site.says(200, "Content-Type: text/html", body=b"<html>Google Drive - Virus scan warning"))
    monkeypatch.setenv("http_proxy", site.url)
    site("http://drive.google.com/uc", *site.acts["/uc"])
    said = refusal("http://drive.google.com/uc?id=1", path)
    assert "a web page instead of the file, as Google Drive does for large files and after many downloads)" in said
    assert page


def test_the_environment_s_proxy_is_asked(site, path, monkeypatch):
    monkeypatch.setenv("http_proxy", site.url)
    site("http://nowhere.invalid/art.zip", site.file(DATA))
    get("http://nowhere.invalid/art.zip", path)
    assert is_there(path)
    assert site.asked[0][0] == "http://nowhere.invalid/art.zip"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/art.zip", "file:///etc/hosts", "art.zip"])
def test_only_web_addresses_will_do(path, url):
    assert refusal(url, path) == f"{url!r} is no web address: give one that starts with https:// or http://"
    assert not path.parent.exists()


def test_a_full_disk_is_told_before_anything_comes(site, path, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda folder: _Free)
    said = refusal(site("/art.zip", site.file(DATA)), path)
    assert said == (f"there is no room for {path} (10.2 kB are needed and 10.0 kB free): free some and run again")
    assert names(path.parent) == []


class _Free:
    free = 10_000


def test_a_disk_that_fills_up_leaves_what_came(site, path, monkeypatch):
    write = download.write_all

    def fill(file, data):
        write(file, data[:4000])
        raise OSError(errno.ENOSPC, "No space left on device")

    url = site("/art.zip", site.file(DATA))
    with monkeypatch.context() as patch:
        patch.setattr(download, "write_all", fill)
        assert refusal(url, path) == (f"there is no room for {path} (No space left on device): free some and run again")
    assert path.with_name("art.zip.part").read_bytes() == DATA[:4000]
    get(url, path)
    assert is_there(path)
    assert site.ranges() == [None, "bytes=4000-"]


def test_a_folder_that_cannot_be_made_is_told(site, tmp_path):
    (tmp_path / "file").write_text("")
    said = refusal(site("/art.zip", site.file(DATA)), tmp_path / "file" / "art.zip")
    assert said == f"{tmp_path / 'file'} cannot be written (File exists): see to its folder and run again"
    assert site.asked == []


def test_two_processes_do_not_fetch_at_once(site, path):
    url = site("/art.zip", site.stall(DATA, 4000), site.file(DATA))
    with started(url, path, timeout=20) as other:
        wait_for(lambda: path.with_name("art.zip.part").exists() and os.path.getsize(f"{path}.part") == 4000)
        said = refusal(url, path)
        assert said == f"{path} is being downloaded by another process: wait until that is done"
        other.send_signal(signal.SIGKILL)
        other.wait()
    get(url, path)
    assert is_there(path)


def test_a_killed_download_is_gone_on_from(site, path):
    url = site("/art.zip", site.stall(DATA, 4000), site.file(DATA))
    with started(url, path, timeout=20) as other:
        wait_for(lambda: path.with_name("art.zip.part").exists() and os.path.getsize(f"{path}.part") == 4000)
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert names(path.parent) == ["art.zip.part", "art.zip.part.json"]
    get(url, path, sha256=SHA256)
    assert is_there(path)
    assert site.asked[1] == ("/art.zip", "bytes=4000-", '"a"')


def started(url: str, path: Path, timeout: float) -> subprocess.Popen:
    code = "import sys; from pathlib import Path; from hda.data.download import fetch\n"
    code += "fetch(sys.argv[1], Path(sys.argv[2]), timeout=float(sys.argv[3]))"
    return subprocess.Popen([sys.executable, "-c", code, url, str(path), str(timeout)])


def wait_for(condition) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it did not come to that")
