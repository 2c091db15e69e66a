"""Strong variation, for views that a network should call what it calls the same picture varied weakly."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from hda.data.augment import Augmentation, Drawn, grey

COLOURS = ("brightness", "saturation", "contrast", "sharpness")
MOVES = ("rotate", "shear-x", "shear-y", "translate-x", "translate-y")
OPERATIONS = ("identity", *COLOURS, "autocontrast", "posterize", "solarize", *MOVES)


class Strong(Augmentation):
    """Another variation, then two random operations a picture and a grey square: RandAugment and Cutout as in FixMatch.

    Operations and their ranges are those of Sohn et al. (NeurIPS 2020), but equalising; how strong each is, is drawn for
    each picture. The square has half the edge, and may reach over the border.

    Args:
        base: what varies the picture first.
    """

    name = "strong"
    summary = "a variation, then two operations of RandAugment, and Cutout"
    count: ClassVar[int] = 2

    def __init__(self, base: Augmentation) -> None:
        super().__init__(base.size, base.mean, base.std)
        self.base = base

    def draw(self, rows: int, device: torch.device) -> Drawn:
        drawn = self.base.draw(rows, device)
        drawn["operation"] = torch.randint(len(OPERATIONS), (rows, self.count), device=device)
        drawn["strength"] = torch.rand(rows, self.count, device=device)  # of its range
        drawn["negative"] = torch.rand(rows, self.count, device=device) < 0.5
        drawn["square"] = torch.rand(rows, 2, device=device)  # its middle: down and across
        return drawn

    def apply(self, pictures: Tensor, drawn: Drawn) -> Tensor:
        x = self._levels(self.base.apply(pictures, drawn))
        for k in range(self.count):
            operation, strength = drawn["operation"][:, k], drawn["strength"][:, k]
            sign = torch.where(drawn["negative"][:, k], -1.0, 1.0)
            x = moved(recoloured(x, operation, strength), operation, sign * strength)
        return self.normalise(255.0 * cut_out(x, drawn["square"]))

    def _levels(self, x: Tensor) -> Tensor:
        """Normalised pictures back from 0 to 1."""
        scale, shift = self.normalising(x.device)
        return ((x - shift) / (255.0 * scale)).clamp(0.0, 1.0)


def recoloured(x: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Pictures with other colours, where the operation is one of these.

    Args:
        x: (rows, 3, height, width) from 0 to 1.
        operation: (rows,) numbers of `OPERATIONS`.
        strength: (rows,) from 0 to 1.
    """

    def chosen(name: str) -> Tensor:
        return (operation == OPERATIONS.index(name)).view(-1, 1, 1, 1)

    strength = strength.view(-1, 1, 1, 1)
    shades = grey(x)
    without = {  # what is left of a picture where none of it is kept
        "brightness": torch.zeros_like(x),
        "saturation": shades.expand_as(x),
        "contrast": shades.mean(dim=(2, 3), keepdim=True).expand_as(x),
        "sharpness": smoothed(x),
    }
    out = x
    for name, nothing in without.items():
        out = torch.where(chosen(name), torch.lerp(nothing, x, 0.05 + 0.9 * strength), out)
    low, high = x.amin(dim=(2, 3), keepdim=True), x.amax(dim=(2, 3), keepdim=True)
    stretched = torch.where(high > low, (x - low) / (high - low).clamp_min(1e-6), x)
    step = torch.exp2(4.0 - (4.0 * strength).round())  # of grey levels: 4 to 8 bits are kept
    posterized = (255.0 * x / step).floor() * step / 255.0
    out = torch.where(chosen("autocontrast"), stretched, out)
    out = torch.where(chosen("posterize"), posterized, out)
    return torch.where(chosen("solarize") & (x >= strength), 1.0 - x, out)


def moved(x: Tensor, operation: Tensor, strength: Tensor) -> Tensor:
    """Pictures turned by up to 30 degrees, sheared or shifted by up to 0.3, where the operation is one of these.

    What comes in from outside is grey.

    Args:
        x: (rows, 3, height, width) from 0 to 1.
        operation: (rows,) numbers of `OPERATIONS`.
        strength: (rows,) from -1 to 1.
    """

    def amount(name: str, most: float) -> Tensor:
        return torch.where(operation == OPERATIONS.index(name), most * strength, 0.0)

    angle = torch.deg2rad(amount("rotate", 30.0))
    cos, sin = angle.cos(), angle.sin()
    across = [cos, amount("shear-x", 0.3) - sin, amount("translate-x", 0.6)]  # the edge is 2 long
    down = [amount("shear-y", 0.3) + sin, cos, amount("translate-y", 0.6)]
    backward = torch.stack([torch.stack(across, dim=1), torch.stack(down, dim=1)], dim=1)
    grid = F.affine_grid(backward, list(x.shape), align_corners=False)
    out = F.grid_sample(x - 0.5, grid, align_corners=False) + 0.5
    moves = operation >= OPERATIONS.index(MOVES[0])
    return torch.where(moves.view(-1, 1, 1, 1), out, x)


def smoothed(x: Tensor) -> Tensor:
    """Means over 3 x 3 pixels of which the middle counts five times; the border is as it was."""
    kernel = x.new_ones(3, 3)
    kernel[1, 1] = 5.0
    inner = F.conv2d(x, (kernel / 13.0).expand(3, 1, 3, 3), groups=3)
    out = x.clone()
    out[:, :, 1:-1, 1:-1] = inner
    return out


def cut_out(x: Tensor, middle: Tensor) -> Tensor:
    """Pictures with a grey square of half the edge.

    Args:
        x: (rows, 3, edge, edge) from 0 to 1.
        middle: (rows, 2) of the square, down and across, in parts of the edge.
    """
    edge = x.shape[2]
    along = (torch.arange(edge, device=x.device) + 0.5) / edge
    near = (along - middle[:, :, None]).abs() < 0.25
    inside = near[:, 0, :, None] & near[:, 1, None, :]
    return torch.where(inside[:, None], 0.5, x)
