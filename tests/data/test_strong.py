"""Strong variation against torchvision's functions, picture by picture with the same parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from hda.data.augment import Affine, Augmentation, CropFlip
from hda.data.strong import OPERATIONS, Strong, cut_out, moved, recoloured

ROWS, EDGE = 6, 16


def pictures() -> torch.Tensor:
    """(rows, 3, edge, edge) from 0 to 1: whole grey levels, smooth as photographs are."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randint(10, 246, (ROWS, 3, 5, 5), generator=generator).float()
    return tv.resize(coarse, [EDGE, EDGE], InterpolationMode.BILINEAR).round() / 255


def number(name: str) -> torch.Tensor:
    return torch.full((ROWS,), OPERATIONS.index(name))


STRENGTH = torch.linspace(0.02, 0.98, ROWS)
FACTOR = 0.05 + 0.9 * STRENGTH


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("identity", lambda x, k: x),
        ("brightness", lambda x, k: tv.adjust_brightness(x, FACTOR[k].item())),
        ("saturation", lambda x, k: tv.adjust_saturation(x, FACTOR[k].item())),
        ("contrast", lambda x, k: tv.adjust_contrast(x, FACTOR[k].item())),
        ("sharpness", lambda x, k: tv.adjust_sharpness(x, FACTOR[k].item())),
        ("autocontrast", lambda x, k: tv.autocontrast(x)),
        ("solarize", lambda x, k: tv.solarize(x, STRENGTH[k].item())),
    ],
)
def test_colours_are_changed_as_torchvision_does(name, expected):
    x = pictures()
    found = recoloured(x, number(name), STRENGTH)
    wanted = torch.stack([expected(one, k) for k, one in enumerate(x)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-4)  # its greys have other digits


def test_posterizing_keeps_four_to_eight_bits():
    x = pictures()
    levels = (255 * x).round().to(torch.uint8)
    found = recoloured(levels / 255, number("posterize"), STRENGTH)
    for k, one in enumerate(levels):
        bits = 4 + round(4 * STRENGTH[k].item())
        assert torch.equal((255 * found[k]).round().to(torch.uint8), tv.posterize(one, bits))


@pytest.mark.parametrize("name", ["rotate", "shear-x", "shear-y"])
def test_pictures_are_turned_and_sheared_as_torchvision_does(name):
    x, strength = pictures(), torch.linspace(-1, 1, ROWS)
    found = moved(x, number(name), strength)
    for k, s in enumerate(strength.tolist()):
        angle = -30.0 * s if name == "rotate" else 0.0
        degrees = [float(np.degrees(np.arctan(0.3 * s))) if name == f"shear-{axis}" else 0.0 for axis in "xy"]
        wanted = tv.affine(x[k], angle, [0.0, 0.0], 1.0, degrees, interpolation=InterpolationMode.BILINEAR)
        inner = (slice(None), slice(4, -4), slice(4, -4))  # where nothing comes in from outside
        torch.testing.assert_close(found[k][inner], wanted[inner], rtol=0, atol=1e-4)


@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_shift_brings_in_grey(axis):
    x = pictures()[:1]
    found = moved(x, number(f"translate-{axis}")[:1], torch.tensor([4 / (0.3 * EDGE)]))  # by four pixels
    if axis == "y":
        x, found = x.mT, found.mT
    torch.testing.assert_close(found[..., :-4], x[..., 4:], rtol=0, atol=1e-4)
    torch.testing.assert_close(found[..., -4:], torch.full((1, 3, EDGE, 4), 0.5), rtol=0, atol=1e-5)


def test_other_operations_leave_a_picture_alone():
    x = pictures()
    for name in OPERATIONS[: OPERATIONS.index("rotate")]:
        assert torch.equal(moved(x, number(name), STRENGTH), x)
    for name in ("identity", *OPERATIONS[OPERATIONS.index("rotate") :]):
        assert torch.equal(recoloured(x, number(name), STRENGTH), x)


def test_a_grey_square_of_half_the_edge_is_cut_out():
    x = torch.zeros(2, 3, EDGE, EDGE)
    found = cut_out(x, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))
    expected = torch.zeros_like(x)
    expected[0, :, 4:12, 4:12] = 0.5
    expected[1, :, :4, 12:] = 0.5
    assert torch.equal(found, expected)


@pytest.mark.parametrize("base", [Augmentation, Affine, CropFlip])
def test_a_picture_is_varied_as_the_base_does_then_distorted(base):
    base = base(EDGE, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    edge = EDGE + 2 if isinstance(base, CropFlip) else EDGE
    levels = torch.randint(256, (ROWS, edge, edge, 3), dtype=torch.uint8)
    strong = Strong(base)
    drawn = strong.draw(ROWS, levels.device)
    assert all(len(value) == ROWS for value in drawn.values())
    drawn["operation"].zero_()
    drawn["square"].fill_(9.0)  # far outside
    torch.testing.assert_close(strong.apply(levels, drawn), base.apply(levels, drawn), rtol=0, atol=1e-4)
    varied = strong(levels)
    assert varied.shape == (ROWS, 3, EDGE, EDGE)
    assert torch.isfinite(varied).all()


def test_every_operation_is_drawn_and_differs_by_picture():
    strong = Strong(Augmentation(EDGE, (0.5,) * 3, (0.5,) * 3))
    drawn = strong.draw(500, torch.device("cpu"))
    assert set(drawn["operation"].flatten().tolist()) == set(range(len(OPERATIONS)))
    assert 0 <= drawn["strength"].min() < 0.05
    assert 0.95 < drawn["strength"].max() < 1
    assert 0.4 < drawn["negative"].float().mean() < 0.6
