"""Digits without a download: typed ones drawn in matplotlib's fonts, handwritten ones from scikit-learn, one scanner."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from hda.data.images import Images, LabelledImages, from_arrays
from hda.data.scenario import Answers, Scenario

CLASSES = tuple("0123456789")
SHEET = 32  # edge of the black and white sheet that the scanner reads, and of the pictures it gives
CELLS = 8  # edge of what the scanner keeps
FULL = (SHEET // CELLS) ** 2  # brightest grey level: every pixel of a cell is ink

FONTS = (
    *(f"DejaVuSans{face}" for face in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{face}" for face in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{face}" for face in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{face}" for face in ("", "Bol", "Italic", "BolIta")),
    *("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
)  # matplotlib's text fonts; its symbol fonts have no digits, or other signs in their place


def digits(count: int = 4000, seed: int = 0) -> tuple[Scenario, Answers]:
    """The demo's task: typed digits are the source, handwritten ones the target, whose labels are the answers alone."""
    typed = typed_digits(count, seed)
    handwritten, labels = handwritten_digits()
    notes = (
        f"{count:,} typed digits in {len(FONTS)} fonts",
        f"{len(handwritten):,} handwritten digits (scikit-learn's)",
    )
    scenario = Scenario(sources=(typed,), target=handwritten, labelled=None, classes=CLASSES, notes=notes)
    return scenario, Answers(labels=labels, classes=CLASSES, notes=())


def typed_digits(count: int = 4000, seed: int = 0) -> LabelledImages:
    """Typed digits, every class and font equally often, each with its own size, slant, shear and position."""
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(count) % len(CLASSES))
    fonts = random.permutation(np.arange(count) // len(CLASSES) % len(FONTS))
    sheets = np.stack([_type(CLASSES[label], FONTS[font], random) for label, font in zip(labels, fonts, strict=True)])
    return from_arrays(enlarge(scan(sheets)), labels, CLASSES, name="typed")


def handwritten_digits() -> tuple[Images, NDArray[np.int64]]:
    """The 1,797 handwritten digits that scikit-learn ships, and what they read.

    They are the test part of the UCI "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998), written by
    13 people and scanned as `scan` does it.
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    return from_arrays(enlarge(data.images), name="handwritten"), data.target.astype(np.int64)


def scan(sheets: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The coarse scanner: how many of the 4x4 pixels of each cell are ink, (n, 32, 32) -> (n, 8, 8) from 0 to 16."""
    edge = SHEET // CELLS
    ink: NDArray[np.float64] = sheets.reshape(len(sheets), CELLS, edge, CELLS, edge).sum(axis=(2, 4)).astype(np.float64)
    return ink


def enlarge(scans: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Scans as pictures: (n, 8, 8) from 0 to 16 -> (n, 32, 32, 3) of 8 bits, bilinear, white ink on black."""
    # Linear interpolation along an axis is one small matrix: row i holds the weights of the cells for pixel i.
    centres = (np.arange(SHEET) + 0.5) * CELLS / SHEET - 0.5
    nearness = 1.0 - np.abs(np.clip(centres, 0, CELLS - 1)[:, None] - np.arange(CELLS))
    weights = np.maximum(nearness, 0.0)
    grey = np.rint(weights @ scans @ weights.T * (255.0 / FULL)).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=3)


def _type(digit: str, font: str, random: np.random.Generator) -> NDArray[np.bool_]:
    """One digit on a sheet: (32, 32), true where there is ink."""
    glyph = _glyph(digit, font)
    height = random.uniform(0.75, 1.0) * SHEET
    width = min(height * random.uniform(0.8, 1.2) * glyph.width / glyph.height, 0.9 * SHEET)
    slant, shear = random.normal(0.0, math.radians(6.0)), random.normal(0.0, 0.15)
    shift = random.normal(0.0, 0.04 * SHEET, size=2)
    cos, sin = math.cos(slant), math.sin(slant)
    placing = np.array([[cos, -sin], [sin, cos]]) @ np.array([[1.0, shear], [0.0, 1.0]])
    placing = placing @ np.diag([width / glyph.width, height / glyph.height])
    back = np.linalg.inv(placing)  # from the sheet to the glyph, as pillow wants it
    centre = np.array([glyph.width, glyph.height]) / 2
    offset = centre - back @ (SHEET / 2 + shift)
    placed = glyph.transform(
        (SHEET, SHEET),
        Image.Transform.AFFINE,
        (*back[0], offset[0], *back[1], offset[1]),
        resample=Image.Resampling.BILINEAR,
    )
    return np.asarray(placed) > 127


@cache
def _glyph(digit: str, font: str) -> Image.Image:
    """A digit in grey, several times as large as on the sheet, cut out along its edge."""
    import matplotlib

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{font}.ttf")
    typeface = ImageFont.truetype(str(path), size=4 * SHEET, layout_engine=ImageFont.Layout.BASIC)
    canvas = Image.new("L", (8 * SHEET, 8 * SHEET))
    ImageDraw.Draw(canvas).text((2 * SHEET, SHEET), digit, fill=255, font=typeface)
    return canvas.crop(canvas.getbbox())
