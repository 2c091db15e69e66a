"""Digits in each of the formats that they are published in, written here from the formats' own descriptions."""

from __future__ import annotations

import bz2
import gzip
import struct

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from hda.data.datasets.digits import Digits
from hda.data.tasks import read_task
from hda.errors import UserError

RANDOM = np.random.default_rng(0)
LABELS = [3, 0, 9, 1]


def idx(path, array, packed):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = (
        bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )
    path.write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_mnist_is_read_from_idx_files(tmp_path, folder, packed):
    pixels, end = RANDOM.integers(0, 256, (4, 28, 28)), ".gz" if packed else ""
    for name in ("train", "t10k"):
        idx(tmp_path / folder / f"{name}-images-idx3-ubyte{end}", pixels, packed)
        idx(tmp_path / folder / f"{name}-labels-idx1-ubyte{end}", np.array(LABELS), packed)
    digits = Digits(tmp_path)
    for part in ("train", "test"):
        pictures = digits.read(digits.domain("M"), part)
        assert (pictures.images.name, pictures.labels.tolist()) == ("MNIST", LABELS)
        for row in range(4):
            for channel in range(3):
                np.testing.assert_array_equal(pictures.images.array(row)[..., channel], pixels[row])


def test_usps_is_read_from_libsvm_s_lines(tmp_path):
    values = np.round(RANDOM.uniform(-1, 1, (4, 256)), 4)
    lines = "".join(
        f"{label + 1} " + " ".join(f"{i + 1}:{value}" for i, value in enumerate(row)) + " \n"
        for label, row in zip(LABELS, values, strict=True)
    )
    (tmp_path / "USPS").mkdir()
    (tmp_path / "USPS" / "usps.bz2").write_bytes(bz2.compress(lines.encode()))
    (tmp_path / "USPS" / "usps.t").write_text(lines)
    digits = Digits(tmp_path)
    for part in ("train", "test"):
        pictures = digits.read(digits.domain("USPS"), part)
        assert pictures.labels.tolist() == LABELS
        expected = (values[2].reshape(16, 16) + 1) / 2 * 255
        assert np.abs(pictures.images.array(2)[..., 1] - expected).max() <= 0.5


def test_svhn_is_read_from_matlab_s_files(tmp_path):
    pixels = RANDOM.integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
    (tmp_path / "svhn").mkdir()
    labels = np.array([[label or 10] for label in LABELS], np.uint8)  # a nought is 10 there
    for part in ("train", "test"):
        savemat(tmp_path / "svhn" / f"{part}_32x32.mat", {"X": pixels.transpose(1, 2, 3, 0), "y": labels})
    digits = Digits(tmp_path)
    pictures = digits.read(digits.domain("S"), "test")
    assert pictures.labels.tolist() == LABELS
    np.testing.assert_array_equal(pictures.images.array(1), pixels[1])


def test_mnist_m_is_read_by_its_lists(tmp_path, plant):
    for part in ("train", "test"):
        plant(tmp_path / "mnist_m" / f"mnist_m_{part}", ["00000001.png", "00000000.png"])
        (tmp_path / "mnist_m" / f"mnist_m_{part}_labels.txt").write_text("00000001.png 8\n00000000.png 5\n")
    digits = Digits(tmp_path)
    pictures = digits.read(digits.domain("MNIST-M"), "train")
    assert (pictures.images.names, pictures.labels.tolist()) == (("00000000.png", "00000001.png"), [5, 8])


def test_pictures_in_folders_will_do_for_any_and_a_task_is_between_training_parts(tmp_path):
    for domain, part, count in (("mnist", "train", 3), ("mnist", "test", 1), ("usps", "train", 2), ("usps", "test", 2)):
        for digit in range(10):
            folder = tmp_path / domain / part / str(digit)
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("L", (4, 4), 10 * digit).save(folder / f"{number}.png")
    scenario, answers = read_task("digits:M->U", tmp_path)
    assert scenario.classes == tuple("0123456789")
    assert (len(scenario.sources[0]), len(scenario.target), len(answers)) == (30, 20, 20)
    assert answers.images.origin == tmp_path / "usps" / "test"
    (tmp_path / "usps" / "train" / "nine").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "usps" / "train" / "nine" / "1.png")
    with pytest.raises(UserError, match="has the class folder 'nine': name its folders 0 to 9"):
        read_task("digits:M->U", tmp_path)


@pytest.mark.parametrize("spoil", ["short", "type", "fewer", "empty"])
def test_damaged_files_are_told(tmp_path, spoil):
    images, labels = tmp_path / "mnist/train-images-idx3-ubyte", tmp_path / "mnist/train-labels-idx1-ubyte"
    idx(images, RANDOM.integers(0, 256, (4, 28, 28)), packed=False)
    idx(labels, np.array(LABELS), packed=False)
    match spoil:
        case "short":
            images.write_bytes(images.read_bytes()[:-1])
        case "type":
            images.write_bytes(b"\0\0\x0d" + images.read_bytes()[3:])
        case "fewer":
            idx(labels, np.array(LABELS[:3]), packed=False)
        case "empty":
            labels.write_bytes(b"")
    digits = Digits(tmp_path)
    with pytest.raises(UserError, match=r"the train part of MNIST in .* is damaged.*: get .* anew"):
        digits.read(digits.domain("M"), "train")


def test_a_part_that_is_not_there_is_told(tmp_path, plant):
    plant(tmp_path / "svhn", ["notes.txt"])
    digits = Digits(tmp_path)
    with pytest.raises(
        UserError, match=r"has neither train_32x32.mat nor train/0 to train/9: `hda data prepare digits`"
    ):
        digits.read(digits.domain("SVHN"), "train")
