"""Digits: MNIST, USPS, SVHN and MNIST-M, in the formats they are published in or as pictures."""

from __future__ import annotations

import bz2
import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hda.data import lists
from hda.data.datasets.base import Dataset, Domain, Part
from hda.data.images import Images, LabelledImages, Location, from_arrays, read_labelled
from hda.errors import UserError

Arrays = tuple[
    NDArray[np.uint8], NDArray[np.int64]
]  # pictures (n, height, width) or (n, height, width, 3), digits (n,)


class Digits(Dataset):
    """Four sets of digits with official training and test parts.

    The folder has one folder a domain. Read in it, or further down, for the training and test part each:
    `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, `t10k-...` (MNIST; `.gz` or not); `usps` and `usps.t`
    (USPS in LIBSVM's format; `.bz2` or not); `train_32x32.mat` and `test_32x32.mat` (SVHN); `mnist_m_train` with
    `mnist_m_train_labels.txt`, `mnist_m_test` likewise (MNIST-M). Or, for any of them, pictures in
    `train/<digit>/` and `test/<digit>/`.
    """

    name = "digits"
    title = "Digits"
    classes = tuple("0123456789")
    domains = (
        Domain("MNIST", "M", train=60000, test=10000),
        Domain("MNIST-M", "MM", train=59001, test=9001),
        Domain("SVHN", "S", train=73257, test=26032),
        Domain("USPS", "U", train=7291, test=2007),
    )
    parts = True
    citation = (
        "LeCun, Bottou, Bengio and Haffner: Gradient-based Learning Applied to Document Recognition, 1998 (MNIST); "
        "Hull: A Database for Handwritten Text Recognition Research, 1994 (USPS); Netzer et al.: Reading Digits in "
        "Natural Images with Unsupervised Feature Learning, 2011 (SVHN); Ganin et al.: Domain-Adversarial Training of "
        "Neural Networks, 2016 (MNIST-M)"
    )
    licence = "SVHN and MNIST-M for research, not commercial; MNIST CC BY-SA 3.0; USPS published without a licence"
    homepage = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps"

    def read(self, domain: Domain, part: Part = "all", lists_in: Location | None = None) -> LabelledImages:
        path = self.where(domain)
        if path is None or not path.is_dir():
            raise UserError(f"{self.root} has no folder {domain.name} of {self.title}: {self.advice(domain)}")
        if part == "all":
            raise ValueError("digits have a training and a test part: give one of them")
        pictures = self._folders(path, part) or self._files(domain, path, part)
        return LabelledImages(_renamed(pictures.images, domain.name), pictures.labels, pictures.classes)

    def part_list(self, domain: Domain, part: Part, lists_in: Location | None = None) -> Path:
        raise UserError(f"{self.title} has no lists: its parts are files, `hda data list digits` says which")

    def _folders(self, path: Path, part: Part) -> LabelledImages | None:
        """Pictures in class folders."""
        folder = path / part
        if not folder.is_dir():
            return None
        pictures = read_labelled(folder, complete=False)
        strange = sorted(set(pictures.classes) - set(self.classes))
        if strange:
            raise UserError(f"{folder} has the class folder {strange[0]!r}: name its folders 0 to 9")
        return pictures.renumbered(self.classes)

    def _files(self, domain: Domain, path: Path, part: Part) -> LabelledImages:
        if domain.name == "MNIST-M":
            name = f"mnist_m_{part}"
            folder = _find(path, name, part)
            return lists.read_numbered(_find(path, f"{name}_labels.txt", part), folder, self.classes)
        try:
            pictures, digits = READERS[domain.name](path, part)
        except UserError:
            raise
        except Exception as error:  # the formats' readers raise whatever the bytes lead them to
            raise UserError(f"the {part} part of {domain.name} in {path} is damaged ({error}): get it anew") from None
        if len(pictures) != len(digits) or not len(digits) or digits.min() < 0 or digits.max() > 9:
            raise UserError(f"the {part} part of {domain.name} in {path} is damaged: get its files anew")
        if pictures.ndim == 3:
            pictures = np.repeat(pictures[..., None], 3, axis=3)
        return from_arrays(np.ascontiguousarray(pictures), digits, self.classes, name=domain.name)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array in MNIST's format: two zeros, the type (8: bytes), the number of axes, each axis' length, the bytes."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read()
    zeros, kind, axes = struct.unpack_from(">HBB", data)
    shape = struct.unpack_from(f">{axes}I", data, 4)
    if zeros or kind != 8 or len(data) != 4 + 4 * axes + np.prod(shape):
        raise ValueError(f"{path.name} is no whole array of bytes")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _mnist(path: Path, part: Part) -> Arrays:
    name = {"train": "train", "test": "t10k"}[part]
    images, labels = (_find(path, f"{name}-{kind}-ubyte", part) for kind in ("images-idx3", "labels-idx1"))
    return read_idx(images), read_idx(labels).astype(np.int64)


def _usps(path: Path, part: Part) -> Arrays:
    """LIBSVM's lines: the digit plus one, then `pixel:value` from 1 to 256 and from -1 to 1."""
    file = _find(path, {"train": "usps", "test": "usps.t"}[part], part)
    with bz2.open(file, "rt") if file.suffix == ".bz2" else file.open() as lines:
        rows = [line.split() for line in lines if line.strip()]
    values = np.array([[float(value.partition(":")[2]) for value in row[1:]] for row in rows])
    digits = np.array([int(row[0]) - 1 for row in rows], dtype=np.int64)
    return np.rint((values.reshape(-1, 16, 16) + 1) * 127.5).astype(np.uint8), digits


def _svhn(path: Path, part: Part) -> Arrays:
    """MATLAB's file: X is (32, 32, 3, n), y is (n, 1) with 10 for a nought."""
    from scipy.io import loadmat

    data = loadmat(_find(path, f"{part}_32x32.mat", part))
    return data["X"].transpose(3, 0, 1, 2), data["y"].ravel().astype(np.int64) % 10


READERS: dict[str, Callable[[Path, Part], Arrays]] = {"MNIST": _mnist, "USPS": _usps, "SVHN": _svhn}


def _find(path: Path, name: str, part: Part) -> Path:
    """A file or folder of that name, packed or not, at most two folders down."""
    dotted = name.replace("-idx", ".idx")  # some copies are unpacked so
    wanted = [f"{word}{end}" for word in (name, dotted) for end in ("", ".gz", ".bz2")]
    for pattern in ("", "*/", "*/*/"):
        for file in wanted:
            for found in sorted(path.glob(pattern + file)):
                return found
    raise UserError(
        f"{path} has neither {name} nor {part}/0 to {part}/9: `hda data prepare digits` gets the former, pictures in "
        "folders will do too"
    )


def _renamed(images: Images, name: str) -> Images:
    return Images(images.storage, images.names, images.origin, name)
