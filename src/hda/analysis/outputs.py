"""What a trained method makes of pictures of both domains: features, G, and, where the head has them, F and each H^k."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hda import backbones
from hda.data import augment, pixels
from hda.data.images import Images
from hda.engine.device import choose_device, choose_precision, set_arithmetic
from hda.engine.evaluate import predicting
from hda.engine.run import Run
from hda.methods.base import Method
from hda.nn import HeuristicHead


@dataclass(frozen=True, eq=False)
class Outputs:
    """Of one domain, a row a picture."""

    features: NDArray[np.float32]  # (rows, width)
    g: NDArray[np.float32]  # (rows, classes): predictions come from it
    f: NDArray[np.float32] | None = None  # (rows, classes), the fundament
    h: NDArray[np.float32] | None = None  # (rows, M, classes), the heuristics one by one

    @property
    def heuristic(self) -> NDArray[np.float32]:
        """H, the sum of all heuristics: (rows, classes)."""
        assert self.h is not None
        whole: NDArray[np.float32] = self.h.sum(axis=1)
        return whole


class Domains(NamedTuple):
    """Of source and target."""

    source: Outputs
    target: Outputs

    @property
    def heuristics(self) -> int:
        """M, the number of heuristics; 0 where the method has none."""
        return 0 if self.source.h is None else self.source.h.shape[1]

    @property
    def g(self) -> NDArray[np.float32]:
        """Of both domains, the source's rows first."""
        return np.concatenate([part.g for part in self])

    @property
    def h(self) -> NDArray[np.float32]:
        """Of both domains, the source's rows first: (rows, M, classes)."""
        return np.concatenate([part.h for part in self if part.h is not None])


class Pictures(NamedTuple):
    """Some pictures of both domains, decoded, (rows, edge, edge, 3) each, and which of all pictures they are."""

    source: NDArray[np.uint8]
    target: NDArray[np.uint8]
    source_rows: NDArray[np.int64]  # of all sources, one after the other
    target_rows: NDArray[np.int64]

    def thinned(self, limit: int) -> Pictures:
        """At most so many of each, evenly."""
        one, other = (-(-len(part) // limit) for part in (self.source, self.target))
        return Pictures(self.source[::one], self.target[::other], self.source_rows[::one], self.target_rows[::other])


class Sight:
    """A run's way of looking at pictures: its device, its arithmetic, its view of a picture.

    Args:
        run: whose.
        device: auto, cpu, cuda or cuda:N; the run's own if not given.
    """

    def __init__(self, run: Run, device: str | None = None) -> None:
        self.run, fit = run, run.settings.fit
        self.device = choose_device(device or fit.device, fall_back=device is None)
        self.precision = choose_precision(fit.precision, self.device)
        set_arithmetic(self.precision)
        self.batch = 256 if self.device.type == "cuda" else 64

    def read(self, sources: Sequence[Images], target: Images, limit: int, skip_broken: bool = False) -> Pictures:
        """At most `limit` pictures of the sources together and of the target, evenly at random and always the same ones.

        Raises:
            UserError: one cannot be read.
        """
        size = self.run.method().backbone.size
        edge = augment.store_size(self.run.settings.fit.augment, size)
        parts, rows, first = [], [], 0
        for images, chosen in zip(sources, _thinned([len(images) for images in sources], limit), strict=True):
            if len(chosen):
                read, kept = _decoded(images, chosen, edge, skip_broken)
                parts.append(read)
                rows.append(first + kept)
            first += len(images)
        of_target, target_rows = _decoded(target, _thinned([len(target)], limit)[0], edge, skip_broken)
        return Pictures(np.concatenate(parts), of_target, np.concatenate(rows), target_rows)

    def look(self, pictures: Pictures, checkpoint: str | Path = "last") -> Domains:
        """What the run makes of them, as its last checkpoint or another one has it."""
        method = self.run.method(checkpoint).to(self.device)
        backbones.use_precision(method, self.precision)
        return Domains(self._outputs(method, pictures.source), self._outputs(method, pictures.target))

    def _outputs(self, method: Method, pictures: NDArray[np.uint8]) -> Outputs:
        backbone = method.backbone
        view = augment.evaluation(self.run.settings.fit.augment, backbone.size, backbone.mean, backbone.std)
        parts = []
        for start in range(0, len(pictures), self.batch):
            rows = torch.from_numpy(pictures[start : start + self.batch]).to(self.device)
            parts.append(outputs(method, view(rows)))
        features, g, f, h = (_joined(column) for column in zip(*parts, strict=True))
        assert features is not None
        assert g is not None
        return Outputs(features, g, f, h)


def outputs(method: Method, images: torch.Tensor) -> tuple[NDArray[np.float32] | None, ...]:
    """Features, G, F and H^k of (rows, 3, height, width) pictures; F and H^k are None where the method has none."""
    head = getattr(method, "head", None)
    with predicting(method):
        features = method.features(images).float()
        found: list[torch.Tensor | None] = [features, method.classify(features).float(), None, None]
        if isinstance(head, HeuristicHead) and head.count:
            found[2:] = [head.fundament(features), head.parts(features)]
    return tuple(None if tensor is None else tensor.cpu().numpy() for tensor in found)


def _thinned(counts: Sequence[int], limit: int) -> list[NDArray[np.int64]]:
    """Rows of each set, at most `limit` of all together."""
    kept = np.sort(np.random.default_rng(0).permutation(sum(counts))[:limit])
    ends = np.cumsum([0, *counts])
    return [kept[(kept >= low) & (kept < high)] - low for low, high in itertools.pairwise(ends)]


def _decoded(
    images: Images, rows: NDArray[np.int64], edge: int, skip_broken: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Those pictures, and the rows of those that could be read."""
    read = list(pixels.stream(images.select(rows), edge, skip_broken=skip_broken))
    return np.concatenate([chunk for _, chunk in read]), rows[np.concatenate([kept for kept, _ in read])]


def _joined(parts: tuple[NDArray[np.float32] | None, ...]) -> NDArray[np.float32] | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None
