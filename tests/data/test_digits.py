from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

from hda.data.digits import FONTS, digits, enlarge, handwritten_digits, scan, typed_digits
from hda.data.images import Images, LabelledImages


def pixels(images: Images) -> np.ndarray:
    return np.stack([images.array(row) for row in range(len(images))])


def bilinear(scans: np.ndarray) -> np.ndarray:
    """Scans of 8x8 from 0 to 16 as 32x32 grey levels from 0 to 255, by PyTorch."""
    grey = torch.from_numpy(scans)[:, None] * 255 / 16
    return F.interpolate(grey, scale_factor=4, mode="bilinear", align_corners=False)[:, 0].numpy()


@pytest.fixture(scope="module")
def typed() -> LabelledImages:
    return typed_digits(210, seed=3)


def test_typed_digits_are_grey_pictures_of_32_pixels(typed):
    drawn = pixels(typed.images)
    assert drawn.shape == (210, 32, 32, 3)
    assert drawn.dtype == np.uint8
    assert (drawn == drawn[..., :1]).all()
    assert typed.images.name == "typed"


def test_typed_digits_have_every_class_equally_often_in_no_order(typed):
    assert typed.classes == tuple("0123456789")
    assert np.bincount(typed.labels).tolist() == [21] * 10
    assert (np.diff(typed.labels) != 0).sum() > 150
    counts = np.bincount(typed_digits(27).labels)
    assert counts.min() == 2
    assert counts.max() == 3


def test_typed_digits_lie_on_the_sheet_with_ink_and_paper(typed):
    drawn = pixels(typed.images)[..., 0] / 255
    assert (drawn.max(axis=(1, 2)) > 0.4).all()
    assert (drawn.min(axis=(1, 2)) < 0.1).all()
    share = drawn.mean(axis=(1, 2))
    assert share.min() > 0.04
    assert share.max() < 0.7


def test_typed_digits_are_told_apart_by_their_class_means(typed):
    """Were labels and pictures not in the same order, this would be right one time in ten."""
    other = typed_digits(420, seed=4)
    train, test = (pixels(part.images)[..., 0].reshape(len(part), -1) / 255 for part in (other, typed))
    means = np.stack([train[other.labels == digit].mean(axis=0) for digit in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == typed.labels).mean() > 0.6


def test_typed_digits_depend_on_the_seed_alone(typed):
    again, other = typed_digits(210, seed=3), typed_digits(210, seed=4)
    np.testing.assert_array_equal(pixels(again.images), pixels(typed.images))
    np.testing.assert_array_equal(again.labels, typed.labels)
    assert not (other.labels == typed.labels).all()
    assert not np.array_equal(pixels(other.images), pixels(typed.images))
    assert len({part.images.fingerprint() for part in (typed, again, other)}) == 2


def test_no_two_typed_digits_are_the_same_picture(typed):
    assert len({picture.tobytes() for picture in pixels(typed.images)}) == len(typed)


def test_every_font_occurs_and_is_matplotlib_s():
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    assert len(set(FONTS)) == len(FONTS)
    assert all((folder / f"{font}.ttf").is_file() for font in FONTS)


def test_the_scanner_counts_the_ink_of_each_cell():
    sheets = np.random.default_rng(0).random((3, 32, 32)) < 0.4
    expected = np.zeros((3, 8, 8))
    for sheet in range(3):
        for row in range(32):
            for column in range(32):
                expected[sheet, row // 4, column // 4] += sheets[sheet, row, column]
    np.testing.assert_array_equal(scan(sheets), expected)
    assert scan(np.ones((1, 32, 32), bool)).tolist() == [[[16.0] * 8] * 8]


def test_enlarging_is_bilinear():
    scans = np.random.default_rng(0).integers(17, size=(20, 8, 8)).astype(np.float64)
    enlarged = enlarge(scans)
    assert enlarged.shape == (20, 32, 32, 3)
    assert enlarged.dtype == np.uint8
    assert np.abs(enlarged - bilinear(scans)[..., None]).max() <= 0.5 + 1e-9  # rounded to the nearest
    assert enlarge(np.full((1, 8, 8), 16.0)).min() == 255
    assert enlarge(np.zeros((1, 8, 8))).max() == 0


def test_handwritten_digits_are_scikit_learn_s_enlarged():
    images, labels = handwritten_digits()
    data = load_digits()
    assert len(images) == 1797
    np.testing.assert_array_equal(labels, data.target)
    drawn = pixels(images)
    assert drawn.shape == (1797, 32, 32, 3)
    assert np.abs(drawn - bilinear(data.images)[..., None]).max() <= 0.5 + 1e-9


def test_the_task_hands_out_the_target_without_labels_and_the_answers_apart():
    scenario, answers = digits(30, seed=1)
    assert type(scenario.target) is Images
    assert scenario.labelled is None
    assert (scenario.setting, scenario.domains, scenario.name) == ("uda", 2, "typed->handwritten")
    assert scenario.classes == answers.classes == tuple("0123456789")
    assert len(scenario.sources[0]) == 30
    np.testing.assert_array_equal(answers.labels, load_digits().target)
    assert scenario.notes == ("30 typed digits in 21 fonts", "1,797 handwritten digits (scikit-learn's)")
