"""Maximum mean discrepancy: how far apart two domains lie in the space of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hda.losses.kernels import gaussian_kernels, squared_distances, squared_distances_of_products

LABEL_BANDWIDTH = 1.68  # of the kernel of class probabilities in JAN's published code


def mmd(source: Tensor, target: Tensor, kernels: int = 5, factor: float = 2.0) -> Tensor:
    """Maximum mean discrepancy of multiple kernels (Long et al., ICML 2015), squared, without bias.

    Args:
        source: (source rows, width).
        target: (target rows, width).
        kernels: how many Gaussians are summed, the middle one as wide as two rows are apart on average.
        factor: how much wider each is than the one before.
    """
    distances = squared_distances(torch.cat([source, target]))
    return mean_discrepancy(gaussian_kernels(distances, kernels, factor), len(source))


def joint_mmd(
    source: Sequence[Tensor],
    target: Sequence[Tensor],
    kernels: int = 5,
    factor: float = 2.0,
    label_bandwidth: float = LABEL_BANDWIDTH,
) -> Tensor:
    """Joint maximum mean discrepancy (Long et al., ICML 2017): the kernel is the product of the layers' kernels.

    Args:
        source: the layers' outputs, (source rows, width) each; the last one is of class probabilities.
        target: likewise, (target rows, width) each.
        kernels: Gaussians of every layer but the last.
        factor: how much wider each is than the one before.
        label_bandwidth: of the last layer's one Gaussian.
    """
    *layers, labels = (torch.cat(pair) for pair in zip(source, target, strict=True))
    joint = gaussian_kernels(squared_distances(labels), 1, bandwidth=label_bandwidth)
    for layer in layers:
        joint = joint * gaussian_kernels(squared_distances(layer), kernels, factor)
    return mean_discrepancy(joint, len(source[0]))


def tensor_mmd(source: Sequence[Tensor], target: Sequence[Tensor], kernels: int = 5, factor: float = 2.0) -> Tensor:
    """Maximum mean discrepancy of the tensor product of several layers (Long et al., NeurIPS 2016).

    Args:
        source: the layers' outputs, (source rows, width) each.
        target: likewise, (target rows, width) each.
        kernels: how many Gaussians are summed.
        factor: how much wider each is than the one before.
    """
    layers = [torch.cat(pair) for pair in zip(source, target, strict=True)]
    return mean_discrepancy(gaussian_kernels(squared_distances_of_products(*layers), kernels, factor), len(source[0]))


def mean_discrepancy(kernel: Tensor, source: int) -> Tensor:
    """The unbiased estimate from a kernel matrix: mean within the source, plus within the target, minus twice between.

    A domain of a single row has no two rows to compare: its mean is zero.

    Args:
        kernel: (rows, rows), the source's first.
        source: how many rows are the source's.
    """
    within = _mean_of_pairs(kernel[:source, :source]) + _mean_of_pairs(kernel[source:, source:])
    return within - 2.0 * kernel[:source, source:].mean()


def _mean_of_pairs(kernel: Tensor) -> Tensor:
    rows = len(kernel)
    return (kernel.sum() - kernel.diagonal().sum()) / max(rows * (rows - 1), 1)
