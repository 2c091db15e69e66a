import io
import struct
import subprocess
import sys
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from hda.data import decode
from hda.data.decode import Broken

EDGE = 32


def gradient(width=90, height=60):
    """A smooth colour picture without symmetry: right, down and diagonally something else grows."""
    y, x = np.mgrid[0:height, 0:width]
    picture = np.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x + 2 * y) * 255 // (width + 2 * height)], -1)
    return picture.astype(np.uint8)


def encoded(picture, kind, **options):
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def shrunk(picture, edge=EDGE):
    """What Pillow makes of it, resizing whole RGB pictures as torchvision's Resize does."""
    return np.asarray(Image.fromarray(picture).resize((edge, edge), Image.Resampling.BILINEAR))


def distance(one, other):
    assert one.shape == other.shape
    assert one.dtype == other.dtype == np.uint8
    return np.abs(one.astype(int) - other.astype(int)).max()


def png(depth, colour, rows, *chunks):
    """A PNG written by hand, for what Pillow does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = rows.shape[:2]
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [chunk(b"IHDR", header), *chunks, chunk(b"IDAT", zlib.compress(data)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("BMP", {}),
        ("PPM", {}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw"}),
    ],
)
def test_lossless_formats(kind, options):
    picture = gradient()
    assert distance(decode.decode(encoded(picture, kind, **options), EDGE), shrunk(picture)) <= 1


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 2}])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (500, 375), (33, 32)])
def test_jpeg_is_what_pillow_makes_of_it(size, options):
    data = encoded(gradient(*size), "JPEG", quality=90, **options)
    assert distance(decode.decode(data, EDGE), shrunk(np.asarray(Image.open(io.BytesIO(data))))) <= 1


def test_jpeg_without_the_fast_decoder(monkeypatch):
    data = encoded(gradient(200, 150), "JPEG")
    fast = decode.decode(data, EDGE)
    monkeypatch.setattr(decode, "_operator", lambda: None)
    assert distance(decode.decode(data, EDGE), fast) <= 1


def test_large_jpeg_is_decoded_reduced_and_close():
    picture = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(picture).resize((1200, 900)))
    data = encoded(picture, "JPEG", quality=90)
    assert distance(decode.decode(data, EDGE), shrunk(np.asarray(Image.open(io.BytesIO(data))))) <= 2


def test_enlarging():
    picture = gradient(12, 10)
    assert distance(decode.decode(encoded(picture, "PNG"), EDGE), shrunk(picture)) <= 1


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_of_the_right_size_is_left_alone(kind):
    data = encoded(np.random.default_rng(0).integers(0, 256, (EDGE, EDGE, 3), dtype=np.uint8), kind)
    assert np.array_equal(decode.decode(data, EDGE), np.asarray(Image.open(io.BytesIO(data))))


def test_what_comes_is_contiguous_and_writable():
    for data in (encoded(gradient(), "PNG"), encoded(gradient(), "JPEG"), encoded(gradient(EDGE, EDGE), "JPEG")):
        picture = decode.decode(data, EDGE)
        assert picture.flags.c_contiguous
        assert picture.flags.writeable


def test_gif_is_its_first_frame():
    frames = [Image.new("RGB", (50, 40), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert (decode.decode(data, EDGE) == [255, 0, 0]).all()


def test_animated_webp_and_png_are_their_first_frame():
    frames = [Image.new("RGB", (50, 40), colour) for colour in ("red", "blue")]
    for kind, options in (("WEBP", {"lossless": True}), ("PNG", {})):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert (decode.decode(data, EDGE) == [255, 0, 0]).all()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "BMP", "PPM"])
def test_grey(kind):
    grey = gradient()[..., 0]
    want = shrunk(np.repeat(grey[..., None], 3, axis=2))
    assert distance(decode.decode(encoded(grey, kind), EDGE), want) <= (1 if kind != "JPEG" else 4)


def test_one_bit():
    bits = gradient()[..., 0] > 100
    want = shrunk(np.repeat(bits[..., None] * np.uint8(255), 3, axis=2))
    assert distance(decode.decode(encoded(Image.fromarray(bits), "PNG"), EDGE), want) <= 1


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_16_bit_grey_is_scaled(kind):
    values = np.arange(EDGE * EDGE, dtype=np.uint16).reshape(EDGE, EDGE) * 64
    picture = decode.decode(encoded(Image.fromarray(values), kind), EDGE)
    assert np.array_equal(picture, np.repeat((values // 256).astype(np.uint8)[..., None], 3, axis=2))


def test_16_bit_pgm_is_scaled():
    values = np.arange(EDGE * EDGE, dtype=np.uint16).reshape(EDGE, EDGE) * 64
    data = b"P5 %d %d 65535\n" % (EDGE, EDGE) + values.astype(">u2").tobytes()
    assert np.array_equal(decode.decode(data, EDGE)[..., 0], (values // 256).astype(np.uint8))


def test_16_bit_grey_and_colour_agree():
    grey = (np.arange(EDGE * EDGE).reshape(EDGE, EDGE) * 63).astype(">u2")
    colour = np.repeat(grey[..., None], 3, axis=2)
    one, other = (decode.decode(png(16, kind, rows), EDGE) for kind, rows in ((0, grey), (2, colour)))
    assert np.array_equal(one, other)
    assert np.array_equal(one[..., 0], (grey // 256).astype(np.uint8))


@pytest.mark.parametrize("mode", ["F", "I"])
def test_values_without_a_range_are_refused(mode):
    image = Image.fromarray(np.linspace(0, 1e6, EDGE * EDGE).reshape(EDGE, EDGE).astype("f4" if mode == "F" else "i4"))
    with pytest.raises(Broken, match="range is unknown"):
        decode.decode(encoded(image, "TIFF"), EDGE)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF"])
def test_palette(kind):
    image = Image.fromarray(gradient(EDGE, EDGE)).quantize(32)
    assert np.array_equal(decode.decode(encoded(image, kind), EDGE), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("alpha", [0, bytes([0, 128, 255])])
def test_transparent_palette_is_laid_on_white(alpha):
    """One transparent colour, or an opacity for each: Pillow warns of the latter when it is converted carelessly."""
    image = Image.new("P", (EDGE, EDGE), 0)
    image.putpalette([200, 0, 0, 0, 100, 0, 0, 0, 50])
    image.paste(1, (0, 0, EDGE, 10))
    image.paste(2, (0, 10, EDGE, 20))
    picture = decode.decode(encoded(image, "PNG", transparency=alpha), EDGE)
    half = [127, 177, 127] if isinstance(alpha, bytes) else [0, 100, 0]
    assert distance(picture[0, 0], np.array(half, dtype=np.uint8)) <= 1
    assert picture[15, 0].tolist() == [0, 0, 50]
    assert picture[-1, 0].tolist() == [255, 255, 255]


def test_transparent_gif_is_laid_on_white():
    image = Image.new("P", (EDGE, EDGE), 1)
    image.putpalette([9, 9, 9, 0, 100, 0])
    image.paste(0, (0, 0, EDGE, 10))
    picture = decode.decode(encoded(image, "GIF", transparency=0), EDGE)
    assert picture[0, 0].tolist() == [255, 255, 255]
    assert picture[-1, 0].tolist() == [0, 100, 0]


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_alpha_is_laid_on_white(kind):
    colours = gradient(EDGE, EDGE)
    alpha = gradient(EDGE, EDGE)[..., 2:]
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    data = encoded(np.concatenate([colours, alpha], axis=2), kind, **options)
    want = (colours * (alpha / 255.0) + 255.0 * (1 - alpha / 255.0)).round().astype(np.uint8)
    assert distance(decode.decode(data, EDGE), want) <= 1


def test_grey_with_alpha():
    grey = np.full((EDGE, EDGE), 40, dtype=np.uint8)
    alpha = np.full((EDGE, EDGE), 102, dtype=np.uint8)
    data = encoded(Image.merge("LA", [Image.fromarray(grey), Image.fromarray(alpha)]), "PNG")
    assert distance(decode.decode(data, EDGE), np.full((EDGE, EDGE, 3), 169, dtype=np.uint8)) <= 1


def test_one_transparent_colour_without_a_palette():
    picture = np.zeros((EDGE, EDGE, 3), dtype=np.uint8)
    picture[:10] = (10, 20, 30)
    out = decode.decode(encoded(picture, "PNG", transparency=(10, 20, 30)), EDGE)
    assert (out[:10] == 255).all()
    assert (out[10:] == 0).all()


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind):
    """Pillow writes JPEGs of it as Adobe does, inverted."""
    cyan, magenta, yellow, black = 200, 30, 90, 51
    data = encoded(Image.new("CMYK", (50, 40), (cyan, magenta, yellow, black)), kind)
    assert (b"Adobe" in data) == (kind == "JPEG")
    want = [(255 - ink) * (255 - black) / 255 for ink in (cyan, magenta, yellow)]
    assert np.abs(decode.decode(data, EDGE) - np.array(want)).max() <= 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(gradient(), kind, exif=exif, **({"quality": 95} if kind == "JPEG" else {}))
    stored = gradient()
    turned = {  # by the meaning of each number: where the stored first row and first column are to be seen
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: np.rot90(stored, -1),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(stored),
    }[orientation]
    near = {"JPEG": 8, "WEBP": 14}.get(kind, 1)
    assert distance(decode.decode(data, EDGE), shrunk(np.ascontiguousarray(turned))) <= near


def test_orientation_of_a_large_jpeg():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(gradient(900, 600), "JPEG", exif=exif)
    want = shrunk(np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))))
    assert distance(decode.decode(data, EDGE), want) <= 2


def test_damaged_exif_does_not_matter():
    data = encoded(gradient(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + bytes(20))
    clean = encoded(gradient(), "JPEG")
    assert distance(decode.decode(data, EDGE), decode.decode(clean, EDGE)) <= 1
    data = encoded(gradient(), "PNG", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01\x03\0\x01")
    assert distance(decode.decode(data, EDGE), shrunk(gradient())) <= 1


NOISE = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
WHOLE = {
    "jpeg": encoded(NOISE, "JPEG"),
    "progressive": encoded(NOISE, "JPEG", progressive=True),
    "cmyk": encoded(Image.fromarray(NOISE).convert("CMYK"), "JPEG"),
    "png": encoded(NOISE, "PNG"),
    "webp": encoded(NOISE, "WEBP"),
    "bmp": encoded(NOISE, "BMP"),
    "gif": encoded(NOISE, "GIF"),
    "tiff": encoded(NOISE, "TIFF"),
    "lzw": encoded(NOISE, "TIFF", compression="tiff_lzw"),
    "ppm": encoded(NOISE, "PPM"),
}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9, 0.97])
def test_cut_short(kind, share):
    data = WHOLE[kind]
    with pytest.raises(Broken, match=r"^[^\n]{3,100}$"):
        decode.decode(data[: int(len(data) * share)], EDGE)


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_cut_short_even_where_others_load_such_files(kind, monkeypatch):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    monkeypatch.setattr(decode, "_operator", lambda: None)
    with pytest.raises(Broken):
        decode.decode(WHOLE[kind][: len(WHOLE[kind]) // 2], EDGE)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is True


def test_damaged_png():
    data = bytearray(WHOLE["png"])
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(Broken):
        decode.decode(bytes(data), EDGE)


@pytest.mark.parametrize("data", [b"", b"hello", b"\xff\xd8\xff\xe0", bytes(1000), b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_no_image(data):
    with pytest.raises(Broken):
        decode.decode(data, EDGE)


@pytest.mark.parametrize("size", [(10_000, 10_000), (20_000, 20_000)])
@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_bomb(kind, size):
    """Pillow warns of the first size and refuses the second."""
    if kind == "png":
        data = png(8, 0, np.zeros((1, 1), np.uint8))
        header = b"IHDR" + struct.pack(">II", *size) + data[24:29]
        data = data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]
    else:
        frame = WHOLE["jpeg"].index(b"\xff\xc0") + 5
        data = WHOLE["jpeg"][:frame] + struct.pack(">HH", *size) + WHOLE["jpeg"][frame + 4 :]
    with pytest.raises(Broken, match="pixels"):
        decode.decode(data, EDGE)


def test_no_warning_whatever_the_bytes():
    """Cut and damaged at many places, in many threads: a picture or `Broken`, and no warning is heard."""
    random = np.random.default_rng(0)
    cases = [data[: int(cut)] for data in WHOLE.values() for cut in random.integers(0, len(data), 30)]
    for data in WHOLE.values():
        for at in random.integers(0, len(data), 30):
            cases.append(data[:at] + bytes(random.integers(0, 256, 3, dtype=np.uint8)) + data[at + 3 :])
    unexpected = []

    def work(cases):
        for data in cases:
            try:
                decode.decode(data, EDGE)
            except Broken:
                pass
            except BaseException as error:
                unexpected.append(error)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=work, args=(cases[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not unexpected
    assert [str(one.message) for one in heard] == []


def test_settings_of_the_process_are_left_as_they_were():
    filters = list(warnings.filters)
    decode.decode(WHOLE["png"], EDGE)
    with pytest.raises(Broken):
        decode.decode(WHOLE["tiff"][:50], EDGE)
    assert list(warnings.filters) == filters
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


def test_resize_keeps_what_has_the_size():
    picture = gradient(EDGE, EDGE)
    assert decode.resize(picture, EDGE) is picture
    assert distance(decode.resize(gradient(), EDGE), shrunk(gradient())) <= 1


def test_decoder_is_named_with_its_version():
    import PIL

    assert f"Pillow {PIL.__version__}" in decode.DECODER


def test_importing_warns_of_nothing():
    subprocess.run([sys.executable, "-W", "error", "-c", "import hda.data.pixels"], check=True)


def test_torchvision_is_not_imported_before_a_picture_is_read():
    script = "import sys, hda.data.pixels; sys.exit('torchvision' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
