"""Varying pictures on the device they lie on: each row with parameters of its own, from the device's random state.

Every augmentation draws first (`draw`: parameters for a number of rows) and applies then (`apply`: a pure function), so
that the parameters can be looked at, given, and drawn alike by several processes. Nothing waits for the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from hda.errors import unknown

Drawn = dict[str, Tensor]  # parameters by name, each with a row for every picture

MARGIN = 256 / 224  # edge that is stored over edge that is cropped: the paper's


class Augmentation:
    """uint8 (rows, edge, edge, 3) -> float32 (rows, 3, size, size), normalised, channels last. This one only normalises.

    Args:
        size: edge of the result.
        mean: of the three channels, in 0..1.
        std: likewise.
    """

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "pictures as they are"
    margin: ClassVar[float] = 1.0  # edge of the pictures that are stored, over size

    def __init__(self, size: int, mean: Sequence[float], std: Sequence[float]) -> None:
        self.size, self.mean, self.std = size, tuple(mean), tuple(std)
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def __call__(self, pictures: Tensor) -> Tensor:
        return self.apply(pictures, self.draw(len(pictures), pictures.device))

    def draw(self, rows: int, device: torch.device) -> Drawn:
        """Random parameters for that many pictures."""
        return {}

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        """The pictures varied with those parameters, normalised."""
        return self.normalise(_planes(pictures))

    def normalise(self, planes: Tensor) -> Tensor:
        """Grey levels from 0 to 255, (rows, 3, height, width), to mean 0 and deviation 1 in the backbone's sense."""
        scale, shift = self.normalising(planes.device)
        # Not `addcmul`, which a CPU does not vectorise where its arguments are broadcast.
        return torch.mul(planes, scale).add_(shift).contiguous(memory_format=torch.channels_last)

    def normalising(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """What grey levels from 0 to 255 are multiplied with, and what is added then: (1, 3, 1, 1) each."""
        if device not in self._constants:  # made once: a tensor made from numbers waits for the host
            mean, std = (torch.tensor(x, device=device).view(1, 3, 1, 1) for x in (self.mean, self.std))
            self._constants[device] = 1.0 / (255.0 * std), -mean / std
        return self._constants[device]


class CropFlip(Augmentation):
    """A crop at a random place and a flip from left to right of every other picture: the paper's."""

    name = "crop-flip"
    summary = "random crop (224 of 256) and flip: the paper's"
    margin = MARGIN

    def draw(self, rows: int, device: torch.device) -> Drawn:
        top, left, flip = torch.rand(3, rows, device=device)
        return {"top": top, "left": left, "flip": flip < 0.5}

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        return self.normalise(_planes(self.crop(pictures, drawn)))

    def crop(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        """The crops, still uint8: `top` and `left` are parts, from 0 to 1, of the room that there is."""
        room = pictures.shape[1] - self.size + 1
        along = torch.arange(self.size, device=pictures.device)
        y = (drawn["top"] * room).long()[:, None] + along
        x = (drawn["left"] * room).long()[:, None] + torch.where(drawn["flip"][:, None], self.size - 1 - along, along)
        rows = torch.arange(len(pictures), device=pictures.device)
        return pictures[rows[:, None, None], y[:, :, None], x[:, None, :]]


class Colour(CropFlip):
    """Crop and flip, then brightness, contrast, saturation and hue, in this order."""

    name = "colour"
    summary = "crop-flip, then brightness, contrast, saturation and hue"
    strength: ClassVar[float] = 0.4
    hue: ClassVar[float] = 0.1

    def draw(self, rows: int, device: torch.device) -> Drawn:
        drawn = super().draw(rows, device)
        factors = 1.0 + self.strength * (2.0 * torch.rand(3, rows, device=device) - 1.0)
        drawn |= dict(zip(("brightness", "contrast", "saturation"), factors, strict=True))
        drawn["hue"] = self.hue * (2.0 * torch.rand(rows, device=device) - 1.0)
        return drawn

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        x = _planes(self.crop(pictures, drawn)) / 255.0
        brightness, contrast, saturation = (
            drawn[name].view(-1, 1, 1, 1) for name in ("brightness", "contrast", "saturation")
        )
        x = (x * brightness).clamp(0.0, 1.0)
        mean = grey(x).mean(dim=(1, 2, 3), keepdim=True)
        x = (mean + (x - mean) * contrast).clamp(0.0, 1.0)
        shades = grey(x)
        x = (shades + (x - shades) * saturation).clamp(0.0, 1.0)
        return self.normalise(255.0 * turn_hue(x, drawn["hue"]))


class ResizedCrop(Augmentation):
    """A crop of random area and shape, resized, and a flip: torchvision's RandomResizedCrop and its defaults."""

    name = "resized-crop"
    summary = "random crop of 8 to 100 % of the area, resized, and flip"
    margin = MARGIN
    area: ClassVar[tuple[float, float]] = (0.08, 1.0)
    ratio: ClassVar[tuple[float, float]] = (3 / 4, 4 / 3)
    tries: ClassVar[int] = 10

    def draw(self, rows: int, device: torch.device) -> Drawn:
        area = self.area[0] + (self.area[1] - self.area[0]) * torch.rand(rows, self.tries, device=device)
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        ratio = torch.exp(low + (high - low) * torch.rand(rows, self.tries, device=device))
        width, height = (area * ratio).sqrt(), (area / ratio).sqrt()
        fits = (width <= 1.0) & (height <= 1.0)
        first = fits.int().argmax(dim=1, keepdim=True)  # of those that fit; none of ten: the whole picture
        whole = ~fits.any(dim=1)
        width, height = (edge.gather(1, first)[:, 0].masked_fill(whole, 1.0) for edge in (width, height))
        top, left, flip = torch.rand(3, rows, device=device)
        return {"width": width, "height": height, "top": top, "left": left, "flip": flip < 0.5}

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        edge = pictures.shape[1]
        top, height = _whole(drawn["top"], drawn["height"], edge)
        left, width = _whole(drawn["left"], drawn["width"], edge)
        down, across = resampling(top, height, edge, self.size), resampling(left, width, edge, self.size)
        across = torch.where(drawn["flip"][:, None, None], across.flip(1), across)
        x = _planes(pictures)
        x = torch.einsum("rih,rchw,rjw->rcij", down, x, across)
        return self.normalise(x)


class Affine(Augmentation):
    """A small turn, shift, scaling and shear: for digits and signs, which a flip would spoil."""

    name = "affine"
    summary = "small rotation, shift, scaling and shear; no flip"
    degrees: ClassVar[float] = 10.0
    shift: ClassVar[float] = 0.08
    scale: ClassVar[float] = 0.1
    shear: ClassVar[float] = 10.0

    def draw(self, rows: int, device: torch.device) -> Drawn:
        angle, x, y, scale, shear = 2.0 * torch.rand(5, rows, device=device) - 1.0
        return {
            "angle": self.degrees * angle,
            "x": self.shift * x,
            "y": self.shift * y,
            "scale": 1.0 + self.scale * scale,
            "shear": self.shear * shear,
        }

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        x = _planes(pictures)
        return self.normalise(F.grid_sample(x, _grid(_backward(drawn), x.shape[-1]), align_corners=False))


KINDS: dict[str, type[Augmentation]] = {
    kind.name: kind for kind in (CropFlip, ResizedCrop, Colour, Affine, Augmentation)
}


class Centre(Augmentation):
    """The crop in the middle: how pictures are seen when they are predicted."""

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        start = round((pictures.shape[1] - self.size) / 2)
        stop = start + self.size
        return self.normalise(_planes(pictures[:, start:stop, start:stop]))


def training(name: str, size: int, mean: Sequence[float], std: Sequence[float]) -> Augmentation:
    """How training pictures are varied."""
    return _kind(name)(size, mean, std)


def evaluation(name: str, size: int, mean: Sequence[float], std: Sequence[float]) -> Augmentation:
    """How pictures are seen by a network that was trained with that augmentation."""
    return (Augmentation if _kind(name).margin == 1.0 else Centre)(size, mean, std)


def store_size(name: str, size: int) -> int:
    """The edge at which pictures are kept for an augmentation to pictures of that size."""
    return round(size * _kind(name).margin)


def turn_hue(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the hue of each picture: (rows, 3, height, width) in 0..1, (rows,) in whole turns."""
    red, green, blue = x.unbind(dim=1)
    most, least = x.amax(dim=1), x.amin(dim=1)
    spread = most - least
    by = torch.where(spread == 0, torch.ones_like(spread), spread)
    sector = torch.where(
        most == red,
        (green - blue) / by,
        torch.where(most == green, 2.0 + (blue - red) / by, 4.0 + (red - green) / by),
    )
    hue = 6.0 * ((sector / 6.0 + turns.view(-1, 1, 1)) % 1.0)
    # Of a colour with that hue, the channel n is the most less the spread times a trapezium around its own hue.
    planes = []
    for n in (5.0, 3.0, 1.0):
        k = (n + hue) % 6.0
        planes.append(most - spread * torch.minimum(k, 4.0 - k).clamp(0.0, 1.0))
    return torch.stack(planes, dim=1)


def resampling(start: Tensor, length: Tensor, edge: int, size: int) -> Tensor:
    """Matrices that resize a stretch of a line, bilinear with antialiasing: (rows,) starts and lengths in pixels.

    Returns:
        (rows, size, edge): row i holds the weights of the line's pixels for the result's pixel i.
    """
    scale = (length / size)[:, None, None]
    reach = scale.clamp_min(1.0)
    wanted = (torch.arange(size, device=start.device) + 0.5)[None, :, None] * scale
    there = (torch.arange(edge, device=start.device) + 0.5)[None, None, :] - start[:, None, None]
    inside = (there > 0) & (there < length[:, None, None])
    weights = (1.0 - (there - wanted).abs() / reach).clamp_min(0.0) * inside
    return weights / weights.sum(dim=2, keepdim=True)


def _kind(name: str) -> type[Augmentation]:
    if name not in KINDS:
        raise unknown("augmentation", name, KINDS)
    return KINDS[name]


def _planes(pictures: Tensor) -> Tensor:
    """(rows, height, width, 3) of any type -> float32 (rows, 3, height, width), channels last in memory."""
    return pictures.permute(0, 3, 1, 2).float()


def grey(x: Tensor) -> Tensor:
    """How bright each pixel is: (rows, 3, height, width) -> (rows, 1, height, width)."""
    return 0.2989 * x[:, 0:1] + 0.587 * x[:, 1:2] + 0.114 * x[:, 2:3]


def _whole(place: Tensor, part: Tensor, edge: int) -> tuple[Tensor, Tensor]:
    """Start and length in whole pixels of a stretch that is `part` of the edge, at `place` of the room left."""
    length = (part * edge).round().clamp(1, edge)
    return (place * (edge - length + 1)).floor(), length


def _backward(drawn: Drawn) -> Tensor:
    """(rows, 2, 3) matrices from the result's coordinates to the picture's: the inverse of turn * shear * scale, shift."""
    angle, shear = torch.deg2rad(drawn["angle"]), torch.deg2rad(drawn["shear"])
    cos, sin, tan = torch.cos(angle), torch.sin(angle), torch.tan(shear)
    # forward = scale * [[cos, -sin], [sin, cos]] @ [[1, -tan], [0, 1]]; its inverse, written out:
    a, b, c, d = (v / drawn["scale"] for v in (cos - tan * sin, sin + tan * cos, -sin, cos))
    x, y = 2.0 * drawn["x"], 2.0 * drawn["y"]
    return torch.stack([a, b, -(a * x + b * y), c, d, -(c * x + d * y)], dim=1).view(-1, 2, 3)


def _grid(matrices: Tensor, edge: int) -> Tensor:
    """Where each of edge x edge pixels comes from, (rows, edge, edge, 2): `F.affine_grid`, at a tenth of its time on a CPU.

    That multiplies many small matrices. A point is a part for its column plus a part for its row, and few pixels share
    neither.
    """
    centres = (2.0 * torch.arange(edge, device=matrices.device) + 1.0) / edge - 1.0
    x, y, shift = (part[..., None] for part in matrices.unbind(dim=2))  # (rows, 2, 1): of both coordinates
    grid = (x * centres)[:, :, None, :] + torch.addcmul(shift, y, centres)[:, :, :, None]
    return grid.permute(0, 2, 3, 1)
