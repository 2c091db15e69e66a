import base64
import io
import itertools
import re
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from PIL import Image

from hda.analysis.calibration import reliability
from hda.analysis.curves import Band, Curve, band
from hda.analysis.embedding import Embedding
from hda.report import draw


def line(values, start=1):
    return Curve(np.arange(start, start + len(values)), np.array(values, dtype=np.float64))


def plane(n=6, m=5):
    random = np.random.default_rng(0)
    points = [random.normal(size=(count, 2)).astype(np.float32) for count in (n, m)]
    return Embedding(*points, np.arange(n) * 2, np.arange(m) * 3)


def opened(image):
    data = base64.b64decode(re.search(r"base64,([^\"]+)", image)[1])
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


def is_svg(drawn):
    assert drawn.startswith("<svg role=")
    assert drawn.endswith("</svg>")
    assert "http" not in drawn
    assert "<metadata" not in drawn
    assert "<style" not in drawn
    return True


def test_samples_lie_row_by_row_unchanged(checked):
    pictures = np.random.default_rng(0).integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)
    image = draw.samples(pictures, 3, title='some "samples"')
    assert 'alt="some &quot;samples&quot;"' in image
    assert "pixelated" in image
    sheet = opened(image)
    assert sheet.shape == (2 * 8 + draw.GAP, 3 * 6 + 2 * draw.GAP, 3)
    for index, picture in enumerate(pictures):
        top, left = index // 3 * (8 + draw.GAP), index % 3 * (6 + draw.GAP)
        np.testing.assert_array_equal(sheet[top : top + 8, left : left + 6], picture)
    assert (sheet[8 + draw.GAP :, 2 * (6 + draw.GAP) :] == 255).all()


def test_large_samples_are_shrunk_in_their_proportions():
    image = draw.samples(np.full((2, 100, 400, 3), 7, dtype=np.uint8), 8)
    assert opened(image).shape == (24, 2 * 96 + draw.GAP, 3)
    assert "pixelated" not in image


def test_no_samples_say_so():
    assert "no pictures" in draw.samples(np.zeros((0, 8, 8, 3), dtype=np.uint8), 4)


def test_curves_tell_their_ends_in_words_and_name_their_lines():
    drawn = draw.curves({"one": line([3.0, 2.0, 0.5]), "two": band([line([1, 2, 3]), line([2, 3, 5])])}, "loss")
    assert is_svg(drawn)
    assert "one: from 3 at 1 to 0.5 at 3; two: from 1.5 at 1 to 4 at 3" in drawn
    assert ">one</text>" in drawn
    assert ">two</text>" in drawn


def test_a_band_is_drawn_only_where_there_is_a_deviation():
    steps, mean = np.arange(1, 31), np.linspace(0, 1, 30)
    flat = draw.curves({"x": Band(steps, mean, np.zeros(30))}, "y")
    wide = draw.curves({"x": Band(steps, mean, np.full(30, 0.1))}, "y")
    assert "opacity: 0.18" not in flat
    assert "opacity: 0.18" in wide


LONG = ("hdan, Art->Clipart", "hdan, Art,Product->Clipart", "hdan, Art->Clipart with 8 labelled", "dann, Art->Clipart")


@pytest.mark.parametrize("names", [LONG, tuple("abcdefgh"), ("hdan", "source-only", "dann", "hdan-mmd", "mcd", "safn")])
def test_a_legend_of_any_length_is_whole_and_leaves_room_for_the_lines(names):
    rates = reliability(np.linspace(0.1, 0.9, 20), np.arange(20) % 2)
    for drawn in (
        draw.curves({name: line([1, 2, 3]) for name in names}, "loss", floor=0, size=(4.2, 2.9)),
        draw.reliability(dict.fromkeys(names, rates), title="calibration"),
        draw.columns({"one": dict.fromkeys(names, (1.0, 0.0))}, "y"),
    ):
        sheet = drawn.sheet
        (legend,), (axes,) = sheet.legends, sheet.axes
        assert [text.get_text() for text in legend.get_texts()] == list(names)
        box, whole = legend.get_window_extent(), sheet.bbox
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1
        assert axes.get_window_extent().y1 <= box.y0 < box.y1 <= whole.y1
        assert axes.get_window_extent().width > 0.7 * whole.width


def test_names_under_bars_do_not_run_into_each_other():
    sheet = draw.columns({name: {"H": (1.0, 0.0)} for name in LONG}, "y").sheet
    boxes = [label.get_window_extent() for label in sheet.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
    assert all(sheet.bbox.x0 <= box.x0 and box.x1 <= sheet.bbox.x1 and box.y0 >= sheet.bbox.y0 for box in boxes)


def test_a_floor_leaves_room_above_the_highest_point():
    low, high = draw.curves({"x": line([1.0, 0.95, 0.9])}, "cosine", floor=0).sheet.axes[0].get_ylim()
    assert (low, high) == pytest.approx((0, 1.05))


@pytest.mark.parametrize("lines", [{}, {"x": line([])}, {"x": Band(*[np.array([])] * 3)}])
def test_nothing_measured_is_said(lines):
    drawn = draw.curves(lines, "accuracy")
    assert is_svg(drawn)
    assert "not measured" in drawn


def test_one_point_has_one_tick_for_its_iteration():
    drawn = draw.curves({"x": line([0.5], start=3), "nothing": line([])}, "y")
    assert re.findall(r">([234])</text>", drawn) == ["2", "3", "4"]
    assert "nothing" not in drawn


def test_the_plane_is_blue_and_red():
    drawn = draw.plane(plane())
    assert is_svg(drawn)
    assert draw.SOURCE in drawn
    assert draw.TARGET in drawn
    assert "6 source points in blue and 5 target points in red" in drawn


def test_labels_of_the_plane_are_those_of_the_rows_embedded():
    source = np.full(12, 9)
    source[::2] = [0, 0, 0, 1, 1, 1]
    target = np.full(15, 9)
    target[::3] = [0, 1, 1, -1, 0]
    drawn = draw.plane(plane(), (source, target), classes=("ant", "bee"))
    assert is_svg(drawn)
    assert ">ant</text>" in drawn
    assert ">bee</text>" in drawn


@pytest.mark.parametrize("classes", [1, 3, 10, 65])
def test_confusion_is_in_percent_of_the_row(classes):
    names = [f"class_{index}" for index in range(classes)]
    drawn = draw.confusion(np.eye(classes, dtype=np.int64) * 7, names)
    assert is_svg(drawn)
    assert all(f">{name}</text>" in drawn for name in names)
    assert len(re.findall(">100</text>", drawn)) == (classes + 1 if classes <= 20 else 1)  # cells, and the scale's end


@pytest.mark.parametrize("classes", [3, 65])
@pytest.mark.parametrize("name", ["c{}", "a rather long name of class {}"])
def test_confusion_is_a_png_of_sane_size(tmp_path, classes, name):
    path = tmp_path / "confusion.png"
    matrix = np.random.default_rng(0).integers(0, 9, (classes, classes))
    draw.write_confusion(path, matrix, [name.format(index) for index in range(classes)])
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        width, height = picture.size
    assert 300 < height <= 2200
    assert 350 < width <= 2400
    assert 0.6 < width / height < 2.5
    assert [file.name for file in tmp_path.iterdir()] == ["confusion.png"]


def test_a_failed_confusion_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path = tmp_path / "confusion.png"
    path.write_bytes(b"before")

    def fail(self, draft, **how):
        Path(draft).write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="full"):
        draw.write_confusion(path, np.eye(2), ["a", "b"])
    assert path.read_bytes() == b"before"
    assert len(list(tmp_path.iterdir())) == 1


def test_classes_without_pictures_are_no_trouble():
    assert is_svg(draw.confusion(np.zeros((3, 3), dtype=np.int64), ["a", "b", "c"]))
    assert is_svg(draw.bars({"a": 0}, "pictures"))
    assert "no classes" in draw.bars({}, "pictures")


@pytest.mark.parametrize("name", ["<script>", "$x_1$", "a & b", 'q"uote', "\u72ac", "caf\udce9"])
def test_any_name_of_a_class_can_be_drawn(checked, name):
    names = [name, "other"]
    for drawn in (
        draw.confusion(np.eye(2), names),
        draw.bars({name: 3, "other": 4}, name),
        draw.curves({name: line([1, 2]), "other": line([1, 2])}, name),
        draw.plane(plane(), (np.arange(12) % 2, np.arange(15) % 2), classes=names, title=name),
    ):
        assert is_svg(drawn)
        assert "<script" not in drawn
        assert (
            name.encode("utf-8", "replace").decode() in checked(f"<!DOCTYPE html><title></title><h1></h1>{drawn}").text
        )


def test_drawing_twice_gives_the_same_text_and_changes_no_setting():
    before = dict(matplotlib.rcParams)
    first, second = (draw.curves({"x": line([1, 2, 3])}, "y") for _ in range(2))
    assert first == second
    assert dict(matplotlib.rcParams) == before


def test_the_users_own_looks_do_not_matter():
    plain = draw.curves({"x": line([1, 2, 3])}, "y")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "svg.fonttype": "path"}):
        assert draw.curves({"x": line([1, 2, 3])}, "y") == plain


def test_pyplot_is_not_needed():
    import subprocess

    code = "import sys, numpy; from hda.report import draw; draw.bars({'a': 1}, 'b'); print('matplotlib.pyplot' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
