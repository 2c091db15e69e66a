"""The bytes of one picture become a square of 8-bit RGB.

JPEGs are read by torchvision's decoder where it is there, everything else and every JPEG it will not take by Pillow;
both use libjpeg-turbo. Resizing is torch's: Pillow's arithmetic to within one grey level, four times as fast.
"""

from __future__ import annotations

import io
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
import PIL
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

Picture = NDArray[np.uint8]

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
LIMIT = 2**30 // 12  # pixels above which Pillow, too, suspects a decompression bomb
NEAR = 4  # JPEGs are decoded reduced where this many times the wanted edge remains: close to the whole
WHITE = (255, 255, 255, 255)
RGB = 3  # torchvision's number for this mode


# The first word stands for what this file does; it changes when other pixels come of it.
DECODER = f"v1, Pillow {PIL.__version__}, torch {torch.__version__}, torchvision {version('torchvision')}"


class Broken(ValueError):  # noqa: N818
    """The bytes are no whole picture; the message says why in a few words."""


def decode(data: bytes, edge: int) -> Picture:
    """One encoded picture as (edge, edge, 3), its aspect ratio not kept.

    The EXIF orientation is applied. Transparent parts become white, as on a page. Of an animation the first frame
    counts. 16-bit grey is scaled to 8 bits; CMYK is converted without a colour profile. A picture that is edge x edge
    already is not resampled.

    Raises:
        Broken: the bytes are cut short, damaged, too large, or not of a known format.
    """
    if not data:
        raise Broken("empty file")
    whole = _fast(data, edge)
    return resize(_careful(data, edge) if whole is None else whole, edge)


def resize(picture: Picture, edge: int) -> Picture:
    """A picture, (height, width, 3), as (edge, edge, 3): bilinear with antialiasing, as Pillow does it."""
    if picture.shape[:2] == (edge, edge):
        return picture
    # Permuting after the batch dimension is there lets torch see the memory for what it is: channels last, no copy.
    batch = torch.from_numpy(picture)[None].permute(0, 3, 1, 2)
    small = torch.nn.functional.interpolate(batch, (edge, edge), mode="bilinear", antialias=True)
    return np.ascontiguousarray(small[0].permute(1, 2, 0).numpy())


def _fast(data: bytes, edge: int) -> Picture | None:
    """A common JPEG, decoded; None for whatever else there is, Pillow then finds what is wrong with it, if anything."""
    frame, operator = _jpeg_frame(data), _operator()
    if operator is None or frame is None:
        return None
    height, width, channels = frame
    if channels not in (1, 3) or height * width > LIMIT or min(height, width) >= 2 * NEAR * edge:
        return None
    try:
        planes = operator(torch.frombuffer(bytearray(data), dtype=torch.uint8), RGB, True)
    except RuntimeError:
        return None
    picture: Picture = np.ascontiguousarray(planes.permute(1, 2, 0).numpy())
    return picture


@cache
def _operator() -> Any:
    """Torchvision's decoder, imported when it is needed, since that takes a second; None where it is not there.

    The public function around it warns that it is to go one day, and warnings cannot be silenced for one thread alone.
    Until it has gone it is the fastest there is; then Pillow takes over.
    """
    import torchvision  # noqa: F401 - registers the operator

    return getattr(torch.ops.image, "decode_jpeg", None)


def _jpeg_frame(data: bytes) -> tuple[int, int, int] | None:
    """Height, width and channels as a JPEG's frame header gives them."""
    if not data.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 10 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in (0xC0, 0xC1, 0xC2):  # the frames that libjpeg decodes
            height, width, channels = struct.unpack_from(">HHB", data, at + 5)
            return (height, width, channels) if height and width else None
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _careful(data: bytes, edge: int) -> Picture:
    with _strictly():
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                if image.width * image.height > LIMIT:
                    raise Broken(f"{image.width} x {image.height} pixels, too many to be a photo")
                image.draft(None, (NEAR * edge, NEAR * edge))  # only JPEGs heed it
                image.load()
                return np.array(_rgb(_upright(image)))
        except (Broken, MemoryError):
            raise
        except UnidentifiedImageError:
            raise Broken("not an image of a known format") from None
        except Exception as error:  # Pillow's readers raise whatever the bytes lead them to
            raise Broken(_reason(error)) from None


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data beside a whole picture
        return image


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_integers(np.asarray(image))
    if image.mode == "F":
        raise Broken("floating-point values, whose range is unknown")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, WHITE), image).convert("RGB")
    return image.convert("RGB")


def _from_integers(grey: NDArray[np.integer]) -> Image.Image:
    """The high byte of 16-bit grey, which is what Pillow takes of 16-bit colours."""
    if grey.min() < 0 or grey.max() > 0xFFFF:
        raise Broken("32-bit values, whose range is unknown")
    return Image.fromarray((grey >> 8).astype(np.uint8)).convert("RGB")


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:100] if text else type(error).__name__


_entered = 0
_entry = threading.Lock()
_saved: tuple[bool, warnings.catch_warnings[None]]


@contextmanager
def _strictly() -> Iterator[None]:
    """Let Pillow neither warn nor load what is cut short, whatever other libraries have set.

    Both are settings of the whole process, so the first thread to come makes them and the last to go restores them.
    """
    global _entered, _saved
    with _entry:
        if _entered == 0:
            quiet = warnings.catch_warnings()
            quiet.__enter__()
            warnings.filterwarnings("ignore", module=r"PIL\.")
            _saved = (ImageFile.LOAD_TRUNCATED_IMAGES, quiet)
            ImageFile.LOAD_TRUNCATED_IMAGES = False
        _entered += 1
    try:
        yield
    finally:
        with _entry:
            _entered -= 1
            if _entered == 0:
                ImageFile.LOAD_TRUNCATED_IMAGES, quiet = _saved
                quiet.__exit__(None, None, None)
