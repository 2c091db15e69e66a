"""Pictures varied on the device, against torchvision's functions picture by picture with the same parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from hda.backbones import IMAGENET
from hda.data import augment
from hda.data.augment import KINDS, Affine, Augmentation, Centre, Colour, CropFlip, ResizedCrop
from hda.errors import UserError

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
CPU = torch.device("cpu")
STORED, SIZE, ROWS = 64, 56, 12
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
RAW = ((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255))  # normalising with these leaves grey levels
LAST = 1 - 2**-24  # the largest number that a float32 draw can be

pytestmark = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def _exact():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def pictures(rows: int = ROWS, edge: int = STORED, smooth: bool = False) -> torch.Tensor:
    """uint8 (rows, edge, edge, 3): noise, or gradients with noise as photographs have them."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randint(0, 256, (rows, 3, 6, 6), generator=generator, dtype=torch.uint8)
    if smooth:
        coarse = tv.resize(coarse, [edge, edge], InterpolationMode.BILINEAR, antialias=True)
        return coarse.permute(0, 2, 3, 1).contiguous()
    return torch.randint(0, 256, (rows, edge, edge, 3), generator=generator, dtype=torch.uint8)


def made(name: str, device: str, seed: int = 0, rows: int = ROWS) -> tuple[Augmentation, augment.Drawn]:
    """An augmentation to grey levels, and parameters that it drew on the CPU, on the device."""
    torch.manual_seed(seed)
    augmentation = KINDS[name](SIZE, *RAW)
    return augmentation, moved(augmentation.draw(rows, CPU), device)


def moved(drawn: augment.Drawn, device: str) -> augment.Drawn:
    return {key: value.to(device) for key, value in drawn.items()}


def planes(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 3, 1, 2)


def crop_by_hand(picture: torch.Tensor, drawn: augment.Drawn, row: int) -> torch.Tensor:
    """torchvision's crop and flip of one picture (3, height, width)."""
    room = picture.shape[1] - SIZE + 1
    top, left = (int(drawn[key][row].item() * room) for key in ("top", "left"))
    out = tv.crop(picture, top, left, SIZE, SIZE)
    return tv.horizontal_flip(out) if drawn["flip"][row] else out


# What each augmentation computes


def test_crop_flip_is_torchvisions(device):
    augmentation, drawn = made("crop-flip", device)
    x = pictures()
    expected = torch.stack([crop_by_hand(one, drawn, row) for row, one in enumerate(planes(x))])
    crops = augmentation.crop(x.to(device), drawn)
    assert crops.dtype == torch.uint8
    torch.testing.assert_close(planes(crops).cpu(), expected, rtol=0, atol=0)
    torch.testing.assert_close(augmentation.apply(x.to(device), drawn).cpu(), expected.float(), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("place", "start"), [(0.0, 0), (LAST, STORED - SIZE), (0.5, 4)])
def test_a_crop_reaches_from_the_first_to_the_last_pixel(device, place, start):
    x = pictures(1).to(device)
    place = torch.tensor([place], device=device)
    drawn = {"top": place, "left": place, "flip": torch.tensor([False], device=device)}
    crop = CropFlip(SIZE, *RAW).crop(x, drawn)
    torch.testing.assert_close(crop, x[:, start : start + SIZE, start : start + SIZE], rtol=0, atol=0)


@pytest.mark.parametrize("edge", [*range(1, 70), 224, 255, 256, 257, 1000])
def test_the_largest_draw_is_the_last_place_whatever_the_room(device, edge):
    place = torch.full((1,), LAST, device=device)
    assert int((place * edge).long()) == edge - 1
    start, length = augment._whole(place, torch.tensor([1 / edge], device=device), edge)
    assert (int(start), int(length)) == (edge - 1, 1)


def test_pictures_with_nothing_to_crop_are_whole(device):
    x = pictures(4, SIZE).to(device)
    _, drawn = made("crop-flip", device, rows=4)
    crop = CropFlip(SIZE, *RAW).crop(x, drawn)
    expected = torch.where(drawn["flip"][:, None, None, None], x.flip(2), x)
    torch.testing.assert_close(crop, expected, rtol=0, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_resized_crop_is_torchvisions(device, seed):
    augmentation, drawn = made("resized-crop", device, seed)
    x = pictures()
    got = augmentation.apply(x.to(device), drawn).cpu()
    for row, one in enumerate(planes(x).float()):
        width, height = (max(1, round(drawn[key][row].item() * STORED)) for key in ("width", "height"))
        top = int(drawn["top"][row].item() * (STORED - height + 1))
        left = int(drawn["left"][row].item() * (STORED - width + 1))
        box = (top, left, height, width)
        expected = tv.resized_crop(one, *box, [SIZE, SIZE], InterpolationMode.BILINEAR, antialias=True)
        expected = tv.horizontal_flip(expected) if drawn["flip"][row] else expected
        torch.testing.assert_close(got[row], expected, rtol=0, atol=0.02)
        rounded = tv.resized_crop(planes(x)[row], *box, [SIZE, SIZE], InterpolationMode.BILINEAR, antialias=True)
        rounded = tv.horizontal_flip(rounded) if drawn["flip"][row] else rounded
        torch.testing.assert_close(got[row], rounded.float(), rtol=0, atol=1.01)


@pytest.mark.parametrize(
    "box", [(0, 0, 64, 64), (63, 63, 1, 1), (3, 60, 20, 4), (0, 7, 64, 57), (8, 8, 56, 56), (1, 2, 9, 60)]
)
@pytest.mark.parametrize("size", [7, 56, 100])
def test_resampling_of_any_stretch_is_torchvisions(device, box, size):
    x = pictures(1)
    top, left, height, width = (torch.tensor([float(value)], device=device) for value in box)
    down = augment.resampling(top, height, STORED, size)
    across = augment.resampling(left, width, STORED, size)
    got = torch.einsum("rih,rchw,rjw->rcij", down, planes(x).float().to(device), across).cpu()
    expected = tv.resized_crop(planes(x).float(), *box, [size, size], InterpolationMode.BILINEAR, antialias=True)
    torch.testing.assert_close(got, expected, rtol=0, atol=0.02)
    torch.testing.assert_close(down.sum(dim=2).cpu(), torch.ones(1, size))


def test_colour_is_torchvisions_in_the_documented_order(device):
    augmentation, drawn = made("colour", device)
    assert isinstance(augmentation, Colour)
    for x in (pictures(), pictures(smooth=True)):
        got = augmentation.apply(x.to(device), drawn).cpu() / 255.0
        for row, one in enumerate(planes(x).float() / 255.0):
            expected = crop_by_hand(one, drawn, row)
            expected = tv.adjust_brightness(expected, drawn["brightness"][row].item())
            expected = tv.adjust_contrast(expected, drawn["contrast"][row].item())
            expected = tv.adjust_saturation(expected, drawn["saturation"][row].item())
            expected = tv.adjust_hue(expected, drawn["hue"][row].item())
            torch.testing.assert_close(got[row], expected, rtol=0, atol=2e-5)


def test_colour_of_grey_black_and_white_pictures_is_finite_and_grey(device):
    augmentation, drawn = made("colour", device, rows=3)
    levels = torch.tensor([0, 128, 255], dtype=torch.uint8, device=device)
    got = augmentation.apply(levels.view(3, 1, 1, 1).expand(3, STORED, STORED, 3), drawn)
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got.amax(dim=1), got.amin(dim=1), rtol=0, atol=1e-3)
    assert got[0].abs().max() == 0


@pytest.mark.parametrize("turn", [-0.5, -0.1, -1e-9, 0.0, 1 / 6, 1 / 3, 0.5])
def test_turning_hues_is_torchvisions(device, turn):
    steps = torch.linspace(0, 1, 6)
    corners = torch.cartesian_prod(steps, steps, steps).T.reshape(1, 3, 6, 36)  # with all ties and grey levels
    got = augment.turn_hue(corners.to(device), torch.tensor([turn], device=device)).cpu()
    torch.testing.assert_close(got, tv.adjust_hue(corners, turn), rtol=0, atol=2e-5)


def test_affine_is_torchvisions(device):
    augmentation, drawn = made("affine", device)
    x = pictures(edge=SIZE)
    got = augmentation.apply(x.to(device), drawn).cpu()
    for row, one in enumerate(planes(x).float()):
        value = {key: tensor[row].item() for key, tensor in drawn.items()}
        expected = tv.affine(
            one,
            angle=value["angle"],
            translate=[value["x"] * SIZE, value["y"] * SIZE],
            scale=value["scale"],
            shear=[value["shear"], 0.0],
            interpolation=InterpolationMode.BILINEAR,
        )
        torch.testing.assert_close(got[row], expected, rtol=0, atol=0.05)


def test_affine_maps_back_as_numpy_does(device):
    augmentation, drawn = made("affine", device)
    x = pictures(edge=SIZE, smooth=True)
    got = augmentation.apply(x.to(device), drawn).cpu().numpy()
    middle = (SIZE - 1) / 2
    for row in range(ROWS):
        value = {key: tensor[row].item() for key, tensor in drawn.items()}
        angle, shear = math.radians(value["angle"]), math.radians(value["shear"])
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        forward = value["scale"] * turn @ np.array([[1.0, -math.tan(shear)], [0.0, 1.0]])
        at = np.stack(np.meshgrid(np.arange(SIZE), np.arange(SIZE)))  # x, then y
        shift = SIZE * np.array([value["x"], value["y"]])
        there = np.einsum("ij,jhw->ihw", np.linalg.inv(forward), at - middle - shift[:, None, None]) + middle
        inside = ((there >= 0) & (there <= SIZE - 1)).all(axis=0)
        assert inside.mean() > 0.5
        low = np.clip(np.floor(there).astype(int), 0, SIZE - 2)
        (fx, fy), (left, top) = there - low, low
        source = x[row].numpy().astype(float)
        upper = source[top, left] * (1 - fx)[..., None] + source[top, left + 1] * fx[..., None]
        lower = source[top + 1, left] * (1 - fx)[..., None] + source[top + 1, left + 1] * fx[..., None]
        expected = upper * (1 - fy)[..., None] + lower * fy[..., None]
        np.testing.assert_allclose(got[row].transpose(1, 2, 0)[inside], expected[inside], atol=0.05)


def test_affine_without_any_change_is_the_picture(device):
    x = pictures(2, SIZE).to(device)
    still = {key: torch.zeros(2, device=device) for key in ("angle", "x", "y", "shear")}
    got = Affine(SIZE, *RAW).apply(x, still | {"scale": torch.ones(2, device=device)})
    torch.testing.assert_close(got, planes(x).float(), rtol=0, atol=0.02)


@pytest.mark.parametrize("statistics", [IMAGENET, HALF])
def test_none_is_torchvisions_normalisation(device, statistics):
    x = pictures(edge=SIZE)
    got = Augmentation(SIZE, *statistics)(x.to(device)).cpu()
    expected = tv.normalize(planes(x).float() / 255.0, *(list(values) for values in statistics))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_every_augmentation_normalises_last(device, name):
    grey, drawn = made(name, device)
    x = pictures(edge=augment.store_size(name, SIZE)).to(device)
    expected = tv.normalize(grey.apply(x, drawn) / 255.0, *(list(values) for values in IMAGENET))
    torch.testing.assert_close(KINDS[name](SIZE, *IMAGENET).apply(x, drawn), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edge", [56, 57, 59, 64, 65, 100])
def test_evaluation_is_torchvisions_centre_crop(device, edge):
    x = pictures(3, edge)
    got = augment.evaluation("crop-flip", SIZE, *IMAGENET)(x.to(device)).cpu()
    expected = tv.normalize(tv.center_crop(planes(x), [SIZE, SIZE]).float() / 255.0, *map(list, IMAGENET))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


# What is drawn


@pytest.mark.parametrize("name", KINDS)
def test_calling_is_drawing_and_applying(device, name):
    x = pictures(edge=augment.store_size(name, SIZE)).to(device)
    augmentation = KINDS[name](SIZE, *IMAGENET)
    torch.manual_seed(5)
    at_once = augmentation(x)
    torch.manual_seed(5)
    drawn = augmentation.draw(ROWS, x.device)
    state = torch.get_rng_state()
    torch.testing.assert_close(augmentation.apply(x, drawn), at_once, rtol=0, atol=0)
    torch.testing.assert_close(augmentation.apply(x, drawn), at_once, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)  # applying draws nothing


@pytest.mark.parametrize("name", KINDS)
def test_a_seed_is_a_draw(device, name):
    augmentation = KINDS[name](SIZE, *IMAGENET)
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(augmentation.draw(ROWS, torch.device(device)))
    first, same, other = draws
    assert first.keys() == same.keys() == other.keys()
    assert bool(first) == (name != "none")
    for key, value in first.items():
        assert value.shape == (ROWS,)
        assert value.device.type == device
        assert torch.equal(value, same[key])
        assert not torch.equal(value, other[key])
        assert len(value.unique()) > 1  # each row its own
    values = [value for value in first.values() if value.dtype != torch.bool]
    assert all(not torch.equal(a, b) for i, a in enumerate(values) for b in values[:i])  # each parameter its own


@pytest.mark.parametrize("name", KINDS)
def test_a_row_is_varied_the_same_among_any_others(device, name):
    augmentation, drawn = made(name, device)
    x = pictures(edge=augment.store_size(name, SIZE)).to(device)
    whole = augmentation.apply(x, drawn)
    for rows in (slice(0, 1), slice(3, 9)):
        part = augmentation.apply(x[rows], {key: value[rows] for key, value in drawn.items()})
        torch.testing.assert_close(part, whole[rows], rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", ["crop-flip", "resized-crop", "colour"])
def test_about_half_is_flipped(device, name):
    torch.manual_seed(0)
    flip = KINDS[name](SIZE, *HALF).draw(10_000, torch.device(device))["flip"]
    assert flip.dtype == torch.bool
    assert abs(flip.float().mean().item() - 0.5) < 0.03  # six standard deviations


def test_every_place_is_cropped_and_about_as_often(device):
    torch.manual_seed(0)
    rows, room = 9_000, STORED - SIZE + 1
    drawn = CropFlip(SIZE, *RAW).draw(rows, torch.device(device))
    ramp = torch.arange(STORED, dtype=torch.uint8, device=device)
    x = torch.stack([ramp[:, None].expand(-1, STORED), ramp.expand(STORED, -1), ramp.expand(STORED, -1)], dim=2)
    corner = CropFlip(SIZE, *RAW).crop(x.expand(rows, -1, -1, -1), drawn)[:, 0]
    top, left = corner[:, 0, 0].long(), corner[:, :, 1].amin(dim=1).long()
    for places in (top, left):
        count = torch.bincount(places, minlength=room)
        assert len(count) == room
        assert (count - rows / room).abs().max() < 6 * math.sqrt(rows / room)
    assert len((room * top + left).unique()) == room**2  # one does not follow from the other


def test_the_boxes_of_resized_crops_are_within_bounds(device):
    torch.manual_seed(0)
    drawn = ResizedCrop(SIZE, *HALF).draw(10_000, torch.device(device))
    width, height = drawn["width"], drawn["height"]
    area, ratio = width * height, width / height
    assert width.max() <= 1
    assert height.max() <= 1
    assert area.min() >= 0.08 - 1e-6
    assert 0.08 < area.min() < 0.09
    assert area.max() > 0.95
    assert ratio.min() >= 3 / 4 - 1e-5
    assert ratio.max() <= 4 / 3 + 1e-5
    assert (ratio.min(), ratio.max()) == (pytest.approx(3 / 4, abs=0.01), pytest.approx(4 / 3, abs=0.01))
    assert abs(ratio.log().mean().item()) < 0.02  # as often wide as high
    for part in (width, height):
        for place in (drawn["top"], drawn["left"]):
            start, length = augment._whole(place, part, STORED)
            assert start.min() == 0
            assert (start + length).max() == STORED
            assert length.min() >= 1


def test_the_boxes_of_resized_crops_are_spread_as_torchvisions(device):
    from torchvision.transforms.v2 import RandomResizedCrop

    torch.manual_seed(0)
    rows, edge = 3_000, 256
    transform, blank = RandomResizedCrop(224), torch.zeros(3, edge, edge)
    boxes = [transform.make_params([blank]) for _ in range(rows)]
    drawn = ResizedCrop(224, *HALF).draw(rows, torch.device(device))
    for place, part in (("top", "height"), ("left", "width")):
        start, length = (values.cpu().numpy() for values in augment._whole(drawn[place], drawn[part], edge))
        for ours, theirs in ((start, [box[place] for box in boxes]), (length, [box[part] for box in boxes])):
            quantiles = np.linspace(0.05, 0.95, 10)
            np.testing.assert_allclose(np.quantile(ours, quantiles), np.quantile(theirs, quantiles), atol=0.04 * edge)


def test_where_no_box_fits_the_whole_picture_is_taken(device):
    class Wide(ResizedCrop):
        area, ratio = (1.0, 1.0), (2.0, 3.0)

    torch.manual_seed(0)
    augmentation = Wide(SIZE, *RAW)
    drawn = augmentation.draw(4, torch.device(device))
    assert drawn["width"].tolist() == drawn["height"].tolist() == [1.0] * 4
    x = pictures(4)
    whole = tv.resize(planes(x).float(), [SIZE, SIZE], InterpolationMode.BILINEAR, antialias=True)
    expected = torch.where(drawn["flip"].cpu()[:, None, None, None], whole.flip(3), whole)
    torch.testing.assert_close(augmentation.apply(x.to(device), drawn).cpu(), expected, rtol=0, atol=0.02)


def test_a_box_that_does_not_fit_is_drawn_again(device):
    class Large(ResizedCrop):
        area = (0.95, 1.0)

    torch.manual_seed(0)
    drawn = Large(SIZE, *HALF).draw(2_000, torch.device(device))
    area = drawn["width"] * drawn["height"]
    assert ((area >= 0.95 - 1e-5) & (area <= 1 + 1e-6)).all()
    whole = (drawn["width"] == 1) & (drawn["height"] == 1)
    assert 0 < whole.float().mean() < 0.9


def test_colour_and_affine_draw_all_of_their_ranges(device):
    torch.manual_seed(0)
    rows = 5_000
    colour = Colour(SIZE, *HALF).draw(rows, torch.device(device))
    affine = Affine(SIZE, *HALF).draw(rows, torch.device(device))
    ranges = {
        **dict.fromkeys(("brightness", "contrast", "saturation"), (0.6, 1.4)),
        "hue": (-0.1, 0.1),
        "angle": (-10.0, 10.0),
        "x": (-0.08, 0.08),
        "y": (-0.08, 0.08),
        "scale": (0.9, 1.1),
        "shear": (-10.0, 10.0),
    }
    drawn = {**colour, **affine}
    for key, (low, high) in ranges.items():
        slack = 0.01 * (high - low)
        assert low - 1e-6 <= drawn[key].min().item() < low + slack
        assert high - slack < drawn[key].max().item() <= high + 1e-6
        assert abs(drawn[key].mean().item() - (low + high) / 2) < 3 * slack
    assert drawn.keys() == ranges.keys() | {"top", "left", "flip"}


# Around them


@pytest.mark.parametrize("seen", [augment.training, augment.evaluation])
@pytest.mark.parametrize("name", KINDS)
def test_results_are_float32_and_channels_last(device, name, seen):
    stored = pictures(5, augment.store_size(name, SIZE)).to(device)
    before = stored.clone()
    got = seen(name, SIZE, *IMAGENET)(stored)
    assert got.shape == (5, 3, SIZE, SIZE)
    assert got.dtype == torch.float32
    assert got.device.type == device
    assert got.is_contiguous(memory_format=torch.channels_last)
    assert not got.requires_grad
    assert torch.equal(stored, before)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_seen_when_predicting_draws_nothing(device, name):
    augmentation = augment.evaluation(name, SIZE, *IMAGENET)
    assert augmentation.draw(3, torch.device(device)) == {}
    assert type(augmentation) is (Augmentation if name in ("none", "affine") else Centre)
    assert type(augment.training(name, SIZE, *IMAGENET)) is KINDS[name]


def test_the_edge_that_is_stored(device):
    assert [augment.store_size(name, 224) for name in ("crop-flip", "resized-crop", "colour")] == [256] * 3
    assert [augment.store_size(name, 224) for name in ("affine", "none")] == [224] * 2
    assert augment.store_size("crop-flip", 384) == 439
    assert augment.store_size("crop-flip", 32) == 37


def test_augmentations_are_named_and_told_of(device):
    assert all(kind.name == name and kind.summary for name, kind in KINDS.items())
    assert list(KINDS) == ["crop-flip", "resized-crop", "colour", "affine", "none"]
    assert len({kind.summary for kind in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("ask", [augment.training, augment.evaluation])
def test_an_unknown_name_is_an_error_with_the_nearest(device, ask):
    with pytest.raises(UserError, match="unknown augmentation 'crop-flop': did you mean 'crop-flip'"):
        ask("crop-flop", 224, *IMAGENET)


def test_the_edge_stored_for_an_unknown_name_is_an_error(device):
    with pytest.raises(UserError, match=r"unknown augmentation 'rotate'.*known: affine, colour, crop-flip, none"):
        augment.store_size("rotate", 224)
