import errno
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hda.data import decode, pixels
from hda.data.images import from_arrays, read_unlabelled
from hda.errors import UserError

EDGE = 16


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def decoded(monkeypatch):
    """The bytes that were decoded since, in no order."""
    seen = []

    def count(data, edge, real=decode.decode):
        seen.append(data)
        return real(data, edge)

    monkeypatch.setattr(decode, "decode", count)
    return seen


def picture(number):
    """A picture of one colour, which says its number."""
    return Image.new("RGB", (20 + number % 3, 18), (number % 256, number // 256, 7))


def make(folder: Path, count: int, broken=()) -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        path = folder / f"{number:04d}.png"
        picture(number).save(path)
        if number in broken:
            path.write_bytes(path.read_bytes()[:40])
    return folder


def numbers(array):
    """Which pictures the rows of an array are; each of its pixels has to say so."""
    assert array.shape[1:] == (EDGE, EDGE, 3)
    assert (array == array[:, :1, :1]).all()
    assert (array[..., 2] == 7).all()
    low, high = array[:, 0, 0, :2].astype(int).T
    return (low + 256 * high).tolist()


def stores(cache):
    return sorted(cache.rglob("*.pixels"))


def touch(path, seconds=10):
    """Give a file another modification time."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + seconds * 10**9))


def test_all_pictures_in_order(tmp_path, cache):
    loaded = pixels.load(read_unlabelled(make(tmp_path / "set", 300)), EDGE, cache=cache)
    assert numbers(loaded.array) == list(range(300))
    assert loaded.kept.tolist() == list(range(300))
    assert loaded.kept.dtype == np.int64
    assert loaded.broken == ()
    assert isinstance(loaded.array, np.memmap)
    assert loaded.array.dtype == np.uint8
    assert not loaded.array.flags.writeable


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_are_what_the_decoder_says(tmp_path, cache, workers):
    folder = tmp_path / "set"
    folder.mkdir()
    for number in range(20):
        values = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(values).save(folder / f"{number:02d}.jpg")
    images = read_unlabelled(folder)
    loaded = pixels.load(images, EDGE, cache=cache, workers=workers)
    for i, row in enumerate(loaded.array):
        assert np.array_equal(row, decode.decode(images.read(i), EDGE))


def test_the_second_load_decodes_nothing(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 40)
    first = pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    assert len(decoded) == 40
    second = pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    assert len(decoded) == 40
    assert np.array_equal(first.array, second.array)
    assert isinstance(second.array, np.memmap)


def test_a_warm_load_needs_no_right_to_write(tmp_path, cache, monkeypatch):
    images = read_unlabelled(make(tmp_path / "set", 3))
    pixels.load(images, EDGE, cache=cache)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("it writes"))
    assert len(pixels.load(images, EDGE, cache=cache).array) == 3


def test_sizes_do_not_mix(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 3))
    for edge in (8, 24, 8):
        assert pixels.load(images, edge, cache=cache).array.shape == (3, edge, edge, 3)
    assert len(stores(cache)) == 2


def test_another_decoder_decodes_anew(tmp_path, cache, decoded, monkeypatch):
    images = read_unlabelled(make(tmp_path / "set", 3))
    pixels.load(images, EDGE, cache=cache)
    monkeypatch.setattr(pixels, "DECODER", "another")
    pixels.load(images, EDGE, cache=cache)
    assert len(decoded) == 6


def test_a_changed_picture_is_decoded_alone(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 40)
    old = pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    picture(777).save(folder / "0005.png")
    touch(folder / "0005.png")
    decoded.clear()
    new = pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    assert len(decoded) == 1
    assert numbers(new.array) == [*range(5), 777, *range(6, 40)]
    assert numbers(old.array) == list(range(40))  # whoever has the old store mapped keeps it
    assert len(stores(cache)) == 1
    decoded.clear()
    pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    assert not decoded


def test_a_new_time_alone_decodes_nothing(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 10)
    pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    for path in folder.iterdir():
        touch(path)
    decoded.clear()
    assert numbers(pixels.load(read_unlabelled(folder), EDGE, cache=cache).array) == list(range(10))
    assert not decoded


def test_added_and_removed_pictures(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 10)
    pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    (folder / "0003.png").unlink()
    picture(500).save(folder / "0500.png")
    decoded.clear()
    loaded = pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    assert numbers(loaded.array) == [0, 1, 2, *range(4, 10), 500]
    assert len(decoded) == 1


def test_a_part_of_a_set_takes_its_rows_from_the_whole(tmp_path, cache, decoded):
    images = read_unlabelled(make(tmp_path / "set", 20, broken=[4]))
    pixels.load(images, EDGE, cache=cache, skip_broken=True)
    decoded.clear()
    part = pixels.load(images.select([9, 4, 2, 13]), EDGE, cache=cache, skip_broken=True)
    assert numbers(part.array) == [9, 2, 13]
    assert part.kept.tolist() == [0, 2, 3]
    assert len(part.broken) == 1
    assert not decoded


def test_a_picture_twice(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 3)).select([2, 0, 2])
    assert numbers(pixels.load(images, EDGE, cache=cache).array) == [2, 0, 2]


def test_tar(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 10, broken=[3])
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        tar.add(folder, "set")
    for _ in range(2):
        loaded = pixels.load(read_unlabelled(tmp_path / "set.tar"), EDGE, cache=cache, skip_broken=True)
        assert numbers(loaded.array) == [0, 1, 2, *range(4, 10)]
        assert loaded.broken[0].startswith(f"{tmp_path}/set.tar/set/0003.png (")
    assert len(decoded) == 10


def test_memory(cache):
    values = np.random.default_rng(0).integers(0, 256, (300, 20, 24, 3), dtype=np.uint8)
    loaded = pixels.load(from_arrays(values), EDGE, cache=cache)
    assert loaded.array.shape == (300, EDGE, EDGE, 3)
    assert all(np.array_equal(row, decode.resize(value, EDGE)) for row, value in zip(loaded.array, values, strict=True))
    assert loaded.kept.tolist() == list(range(300))
    assert not cache.exists()


def test_memory_of_the_right_size_is_left_alone(cache):
    values = np.random.default_rng(0).integers(0, 256, (7, EDGE, EDGE, 3), dtype=np.uint8)
    loaded = pixels.load(from_arrays(values).select([3, 1]), EDGE, cache=cache)
    assert np.array_equal(loaded.array, values[[3, 1]])


def test_progress(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 100))
    for _ in range(2):
        calls = []
        pixels.load(images, EDGE, cache=cache, progress=lambda *call, calls=calls: calls.append(call))
        assert calls[-1] == (100, 100)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)
        assert {of for _, of in calls} == {100}


def test_a_broken_picture(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 12, broken=[7]))
    for _ in range(2):  # cold and warm say the same
        with pytest.raises(UserError) as caught:
            pixels.load(images, EDGE, cache=cache)
        assert str(caught.value).startswith(f"{tmp_path}/set/0007.png is a broken image: ")
        assert str(caught.value).endswith(" (repair or remove it, or give --skip-broken)")
        assert "\n" not in str(caught.value)


def test_several_broken_pictures_are_counted(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 60, broken=[7, 9, 50]))
    with pytest.raises(UserError, match=r"0007\.png is a broken image, as are 2 more: "):
        pixels.load(images, EDGE, cache=cache)


@pytest.mark.parametrize("broken", [[0], [59], [7, 8, 30]])
def test_broken_pictures_are_left_out(tmp_path, cache, decoded, broken):
    images = read_unlabelled(make(tmp_path / "set", 60, broken=broken))
    left = [i for i in range(60) if i not in broken]
    for _ in range(2):
        loaded = pixels.load(images, EDGE, cache=cache, skip_broken=True)
        assert numbers(loaded.array) == left
        assert loaded.kept.tolist() == left
        assert [path.partition(" (")[0] for path in loaded.broken] == [images.where(i) for i in broken]
    assert len(decoded) == 60


def test_a_repaired_picture_is_decoded_alone(tmp_path, cache, decoded):
    folder = make(tmp_path / "set", 12, broken=[7])
    with pytest.raises(UserError):
        pixels.load(read_unlabelled(folder), EDGE, cache=cache)
    decoded.clear()
    picture(7).save(folder / "0007.png")
    assert numbers(pixels.load(read_unlabelled(folder), EDGE, cache=cache).array) == list(range(12))
    assert len(decoded) == 1


def test_nothing_left(tmp_path, cache):
    images = read_unlabelled(make(tmp_path / "set", 2, broken=[0, 1]))
    for _ in range(2):
        with pytest.raises(UserError, match="set has no image that can be decoded"):
            pixels.load(images, EDGE, cache=cache, skip_broken=True)
    with pytest.raises(UserError, match="set has no image that can be decoded"):
        list(pixels.stream(images, EDGE, skip_broken=True))
    for act in (lambda: pixels.load(images.select([]), EDGE), lambda: list(pixels.stream(images.select([]), EDGE))):
        with pytest.raises(UserError, match="no image"):
            act()


def test_a_picture_that_has_gone(tmp_path, cache):
    folder = make(tmp_path / "set", 4)
    images = read_unlabelled(folder)
    (folder / "0002.png").unlink()
    for act in (
        lambda: pixels.load(images, EDGE, cache=cache),
        lambda: list(pixels.stream(images, EDGE)),
        lambda: pixels.load(images, EDGE, cache=cache, skip_broken=True),
    ):
        with pytest.raises(UserError, match=r"0002\.png cannot be read \(No such file or directory\): "):
            act()


def test_a_picture_that_goes_while_others_are_decoded(tmp_path, cache, monkeypatch):
    folder = make(tmp_path / "set", 4)

    def remove(data, edge, real=decode.decode):
        (folder / "0003.png").unlink(missing_ok=True)
        return real(data, edge)

    monkeypatch.setattr(decode, "decode", remove)
    with pytest.raises(UserError, match=r"0003\.png cannot be read"):
        pixels.load(read_unlabelled(folder), EDGE, cache=cache, workers=1)
    assert not list(cache.rglob("*.tmp"))


def test_a_mistake_elsewhere_is_not_hidden(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(decode, "decode", lambda data, edge: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pixels.load(read_unlabelled(make(tmp_path / "set", 4)), EDGE, cache=cache)
    assert not stores(cache)
    assert not list(cache.rglob("*.tmp"))


def damage_end(path):
    path.write_bytes(path.read_bytes()[:-5])


def damage_rows(path):
    path.write_bytes(path.read_bytes()[100:])


def damage_index(path):
    data = bytearray(path.read_bytes())
    data[-60:-40] = bytes(20)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [damage_end, damage_rows, damage_index, lambda path: path.write_bytes(b"")])
def test_a_damaged_store_is_built_anew(tmp_path, cache, damage):
    images = read_unlabelled(make(tmp_path / "set", 5))
    pixels.load(images, EDGE, cache=cache)
    damage(stores(cache)[0])
    assert numbers(pixels.load(images, EDGE, cache=cache).array) == list(range(5))


def test_full_disk(tmp_path, cache, monkeypatch):
    images = read_unlabelled(make(tmp_path / "set", 3))
    usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 3 * EDGE * EDGE * 3 - 1))
    with pytest.raises(UserError) as caught:
        pixels.load(images, EDGE, cache=cache)
    assert str(caught.value).startswith(str(cache))
    assert "GiB" in str(caught.value)
    assert "$HDA_CACHE" in str(caught.value)
    assert not list(cache.rglob("*.tmp"))


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="rows are written otherwise")
def test_writes_of_a_part_are_gone_on_with(tmp_path, cache, monkeypatch):
    def some(file, data, at, real=os.pwrite):
        return real(file, data[:100], at)

    monkeypatch.setattr(os, "pwrite", some)
    assert numbers(pixels.load(read_unlabelled(make(tmp_path / "set", 3)), EDGE, cache=cache).array) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="rows are written otherwise")
def test_a_disk_that_fills_up_meanwhile(tmp_path, cache, monkeypatch):
    def full(file, data, at, real=os.pwrite):
        if at > EDGE * EDGE * 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data[:100], at)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UserError, match=r"has too little space for 0\.00 GiB"):
        pixels.load(read_unlabelled(make(tmp_path / "set", 3)), EDGE, cache=cache)
    assert not list(cache.rglob("*.tmp"))


def test_without_pwrite(tmp_path, cache, monkeypatch):
    """Windows has neither this nor a way to reserve space."""
    monkeypatch.delattr(os, "pwrite", raising=False)
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    images = read_unlabelled(make(tmp_path / "set", 100, broken=[30]))
    loaded = pixels.load(images, EDGE, cache=cache, workers=4, skip_broken=True)
    assert numbers(loaded.array) == [i for i in range(100) if i != 30]


def test_a_cache_that_cannot_be_written(tmp_path):
    images = read_unlabelled(make(tmp_path / "set", 3))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file.* cannot be written .*\$HDA_CACHE"):
        pixels.load(images, EDGE, cache=tmp_path / "file")


def test_where_the_cache_is(tmp_path, monkeypatch):
    images = read_unlabelled(make(tmp_path / "set", 1))
    places = {"HDA_CACHE": tmp_path / "a", "XDG_CACHE_HOME": tmp_path / "b", "HOME": tmp_path / "c"}
    for name, folder in places.items():
        monkeypatch.setenv(name, str(folder))
    for name, sub in (("HDA_CACHE", "."), ("XDG_CACHE_HOME", "hda/pixels"), ("HOME", ".cache/hda/pixels")):
        pixels.load(images, EDGE)
        assert len(stores(places[name])) == len(stores(places[name] / sub)) == 1
        monkeypatch.delenv(name)


def test_memory_is_bounded_however_many_pictures_there_are(tmp_path, cache):
    """Rows are written as they come: what is in memory is the few pictures that the threads are at."""
    images, peaks = read_unlabelled(make(tmp_path / "set", 400)), []
    tracemalloc.start()
    try:
        for count in (100, 400):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            loaded = pixels.load(images.select(range(count)), 64, cache=cache / str(count), workers=2)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
            assert len(loaded.array) == count
    finally:
        tracemalloc.stop()
    assert loaded.array.nbytes > 4_000_000
    assert peaks[1] < 1_500_000
    assert peaks[1] - peaks[0] < 300 * 64 * 64 * 3 / 4


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("workers", [1, 4])
def test_stream_equals_load(tmp_path, cache, chunk, workers):
    images = read_unlabelled(make(tmp_path / "set", 130, broken=[0, 5, 129]))
    loaded = pixels.load(images, EDGE, cache=cache, skip_broken=True)
    parts = list(pixels.stream(images, EDGE, chunk=chunk, skip_broken=True, workers=workers))
    assert all(0 < len(positions) == len(rows) <= chunk for positions, rows in parts)
    assert np.array_equal(np.concatenate([positions for positions, _ in parts]), loaded.kept)
    assert np.array_equal(np.concatenate([rows for _, rows in parts]), loaded.array)
    assert all(rows.flags.writeable for _, rows in parts)


def test_stream_of_memory():
    values = np.random.default_rng(0).integers(0, 256, (10, EDGE, EDGE, 3), dtype=np.uint8)
    parts = list(pixels.stream(from_arrays(values), EDGE, chunk=4))
    assert [positions.tolist() for positions, _ in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert np.array_equal(np.concatenate([rows for _, rows in parts]), values)


def test_stream_stops_at_a_broken_picture(tmp_path):
    images = read_unlabelled(make(tmp_path / "set", 10, broken=[5]))
    parts = pixels.stream(images, EDGE, chunk=4)
    assert next(parts)[0].tolist() == [0, 1, 2, 3]
    with pytest.raises(UserError, match=r"0005\.png is a broken image: .*--skip-broken"):
        next(parts)


def test_stream_keeps_one_chunk_ahead(tmp_path, decoded):
    """What is not asked for is not decoded, and giving up ends the threads."""
    images = read_unlabelled(make(tmp_path / "set", 200))
    before = threading.active_count()
    parts = pixels.stream(images, EDGE, chunk=16, workers=2)
    next(parts)
    assert len(decoded) <= 16 * 3 + 2 * pixels.SPAN
    parts.close()
    assert threading.active_count() == before


def test_two_processes_at_once(tmp_path, cache):
    folder = make(tmp_path / "set", 60)
    script = (
        "import sys, time; from pathlib import Path; from hda.data import decode, pixels\n"
        "from hda.data.images import read_unlabelled\n"
        "folder, cache, count = Path(sys.argv[1]), sys.argv[2], 0\n"
        "def slow(data, edge, real=decode.decode):\n"
        "    global count\n"
        "    count += 1\n"
        "    time.sleep(0.02)\n"
        "    return real(data, edge)\n"
        "decode.decode = slow\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        f"array = pixels.load(read_unlabelled(folder), {EDGE}, cache=cache, workers=2).array\n"
        "print(count, array[:, 0, 0, 0].tolist())\n"
    )
    processes = [start(script, folder, cache) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    counts, arrays = zip(*(process.communicate()[0].split(" ", 1) for process in processes), strict=True)
    assert sorted(counts) == ["0", "60"]
    assert arrays[0] == arrays[1] == f"{list(range(60))}\n"


def start(script, *arguments):
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_killed_in_the_middle(tmp_path, cache):
    folder = make(tmp_path / "set", 60)
    script = (
        "import sys, time; from pathlib import Path; from hda.data import decode, pixels\n"
        "from hda.data.images import read_unlabelled\n"
        "count = 0\n"
        "def stuck(data, edge, real=decode.decode):\n"
        "    global count\n"
        "    count += 1\n"
        "    if count > 30:\n"
        "        print('stuck', flush=True)\n"
        "        time.sleep(1000)\n"
        "    return real(data, edge)\n"
        "decode.decode = stuck\n"
        f"pixels.load(read_unlabelled(Path(sys.argv[1])), {EDGE}, cache=sys.argv[2], workers=1)\n"
    )
    process = start(script, folder, cache)
    assert process.stdout.readline() == "stuck\n"
    process.kill()
    process.communicate()
    assert not stores(cache)
    assert len(list(cache.rglob("*.tmp"))) == 1
    assert numbers(pixels.load(read_unlabelled(folder), EDGE, cache=cache).array) == list(range(60))
    assert len(stores(cache)) == 1
    assert not list(cache.rglob("*.tmp"))


def test_interrupted(tmp_path, cache):
    def interrupt(done, of):
        raise KeyboardInterrupt

    images = read_unlabelled(make(tmp_path / "set", 100))
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        pixels.load(images, EDGE, cache=cache, progress=interrupt)
    assert threading.active_count() == before
    assert not list(cache.rglob("*.tmp"))
    assert numbers(pixels.load(images, EDGE, cache=cache).array) == list(range(100))
