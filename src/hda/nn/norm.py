"""Batch statistics for each domain apart, in one forward pass over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

M = TypeVar("M", bound=nn.Module)


class Groups:
    """The groups of rows that share batch statistics: known to every batch norm of a network, set for one forward.

    >>> groups = Groups()
    >>> net = convert(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), groups)
    >>> with groups.of((2, 4)):  # two rows of the source, then four of the target
    ...     net(torch.rand(6, 3, 5, 5)).shape
    torch.Size([6, 8, 3, 3])
    """

    def __init__(self) -> None:
        self.sizes: tuple[int, ...] = ()
        self.total: Callable[[Tensor], Tensor] | None = None  # sums over the processes that share statistics, if any do

    @contextmanager
    def of(self, sizes: tuple[int, ...] | None) -> Iterator[None]:
        """Within: rows come in groups of these sizes; None or a single size is ordinary batch norm."""
        before, self.sizes = self.sizes, tuple(sizes or ())
        try:
            yield
        finally:
            self.sizes = before

    def rows(self, rows: int) -> list[int]:
        """The sizes as seen by a layer with that many rows: some networks fold positions into the rows, in order."""
        fold, rest = divmod(rows, sum(self.sizes))
        if rest or not fold:
            raise ValueError(f"groups of {self.sizes} rows do not make up a batch of {rows}")
        return [size * fold for size in self.sizes]


def convert(module: M, groups: Groups) -> M:
    """Let every batch norm in `module` normalise each of the groups with its own statistics while training.

    The result, gradients and running statistics are those of one forward through the network a group, in the groups'
    order: what the reference implementation of Heuristic Domain Adaptation (Cui et al., NeurIPS 2020) does with source
    and target. Layers change their class in place: parameters, hooks and names in the state dict stay. A subclass of
    PyTorch's batch norm with a forward of its own (timm's `BatchNormAct2d`, `SyncBatchNorm`) is called once a group.
    Evaluation is untouched, and so are frozen batch norms, which know no batch statistics.

    Args:
        module: any network; changed in place.
        groups: what will hold the sizes of the groups.

    Returns:
        The same module.
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            if not isinstance(layer, _Grouped):
                cast(Any, layer).__class__ = _grouped(cast(Any, type(layer)))
            cast(_Grouped, layer).groups = groups
    return module


def batch_norm_of_equal_groups(
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch norm of `groups` equally many rows each, written so that a compiler makes one reduction of all groups.

    Statistics are taken in float32 at least, whatever the type of `x`, which is also the result's.

    Args:
        x: (rows, channels, ...), the groups one after the other.
        groups: how many; divides the rows.
        weight: (channels,) scale, or None; likewise `bias`.
        bias: (channels,) shift, or None.
        running_mean: (channels,), updated group after group; None keeps no running statistics.
        running_var: (channels,), likewise.
        momentum: how much of the running statistics a group's replace.
        eps: added to the variance.

    Returns:
        The normalised rows, shaped as `x`.
    """
    parts = torch.unflatten(x, 0, (groups, -1)).to(torch.promote_types(x.dtype, torch.float32))
    around = [1, *range(3, parts.dim())]
    count = parts[0].numel() // parts.shape[2]
    if count < 2:
        raise ValueError(f"expected more than one value per channel and group to train on, got {tuple(x.shape)}")
    var, mean = torch.var_mean(parts, around, correction=0, keepdim=True)
    if running_mean is not None and running_var is not None:
        unbiased = var.detach().reshape(groups, -1) * (count / (count - 1))
        _follow(running_mean, running_var, mean.reshape(groups, -1), unbiased, momentum)
    channels = [1, 1, -1] + [1] * (parts.dim() - 3)
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight.view(channels)
    out = (parts - mean) * scale
    if bias is not None:
        out = out + bias.view(channels)
    return out.flatten(0, 1).to(x.dtype)


def synchronised_batch_norm(
    x: Tensor,
    sizes: Sequence[int],
    total: Callable[[Tensor], Tensor],
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Tensor:
    """Batch norm of groups whose rows lie on several processes, each group with the statistics of all its rows.

    PyTorch's `SyncBatchNorm` knows no groups and runs on GPUs alone.

    Args:
        x: (rows, channels, ...), our rows of each group, one group after the other.
        sizes: how many rows of each are ours; other processes may have more or fewer, but as many groups.
        total: the sum of a tensor over all processes, through which gradients pass.
        weight: (channels,) scale, or None; likewise `bias`.
        bias: (channels,) shift, or None.
        running_mean: (channels,), updated group after group; None keeps no running statistics.
        running_var: (channels,), likewise.
        momentum: how much of the running statistics a group's replace.
        eps: added to the variance.

    Returns:
        Our rows, normalised, shaped as `x`.
    """
    parts = [part.transpose(0, 1).flatten(1) for part in torch.split(_at_least_float32(x), list(sizes))]
    places = x.new_tensor([part.shape[1] for part in parts], dtype=parts[0].dtype)[:, None]
    sums = total(torch.cat([torch.stack([part.sum(1) for part in parts]), places], dim=1))  # (groups, channels + 1)
    count = sums[:, -1:].detach()
    mean = sums[:, :-1] / count
    apart = [part - centre[:, None] for part, centre in zip(parts, mean, strict=True)]
    var = total(torch.stack([part.square().sum(1) for part in apart])) / count
    if running_mean is not None and running_var is not None:
        _follow(running_mean, running_var, mean, var.detach() * (count / (count - 1)), momentum)
    scale = torch.rsqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    out = torch.cat([part * factor[:, None] for part, factor in zip(apart, scale, strict=True)], dim=1)
    if bias is not None:
        out = out + bias[:, None]
    return torch.unflatten(out, 1, (x.shape[0], *x.shape[2:])).transpose(0, 1).to(x.dtype)


def _follow(running_mean: Tensor, running_var: Tensor, means: Tensor, variances: Tensor, momentum: float) -> None:
    """Move the running statistics towards those of each group in turn: (channels,) each, (groups, channels)."""
    with torch.no_grad():
        for mean, var in zip(means, variances, strict=True):
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_(var.to(running_var.dtype), momentum)


def synchronisable(layer: _BatchNorm) -> bool:
    """Whether `convert` has made of a batch norm one that can share its statistics with other processes."""
    return isinstance(layer, _Grouped) and layer.fusible and layer.momentum is not None


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


if TYPE_CHECKING:
    _Base = _BatchNorm
else:
    _Base = object


class _Grouped(_Base):
    """What `convert` mixes into a class of batch norms."""

    groups: Groups
    fusible: bool  # the forward is known to be normalisation, then `drop` and `act` if there are any

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.groups.total is not None:
            return self._synchronised(x, self.groups.total)
        if not self.training or len(self.groups.sizes) < 2:
            return super().forward(x)
        sizes = self.groups.rows(x.shape[0])
        if self.fusible and self.momentum is not None and len(set(sizes)) == 1 and torch.compiler.is_compiling():
            return self._fused(x, len(sizes))
        one = super().forward
        return torch.cat([one(part) for part in torch.split(x, sizes)])

    def _fused(self, x: Tensor, groups: int) -> Tensor:
        """The same, in the form that a compiler fuses."""
        return self._then(batch_norm_of_equal_groups(x, groups, *self._parts(groups)))

    def _synchronised(self, x: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
        """The same, with the statistics of the rows of all processes."""
        sizes = self.groups.rows(x.shape[0]) if self.groups.sizes else [x.shape[0]]
        return self._then(synchronised_batch_norm(x, sizes, total, *self._parts(len(sizes))))

    def _parts(self, groups: int) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None, float, float]:
        """What a batch norm of that many groups works with."""
        assert self.momentum is not None
        tracked = self.track_running_stats
        if tracked and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(groups)
        running = (self.running_mean, self.running_var) if tracked else (None, None)
        return self.weight, self.bias, *running, self.momentum, self.eps

    def _then(self, x: Tensor) -> Tensor:
        for then in ("drop", "act"):
            if hasattr(self, then):
                x = getattr(self, then)(x)
        return x


@cache
def _grouped(kind: type[_BatchNorm]) -> type[_BatchNorm]:
    plain = kind.forward is _BatchNorm.forward and not hasattr(kind, "drop") and not hasattr(kind, "act")
    normalise_and_act = kind.__name__ == "BatchNormAct2d" and kind.__module__.startswith("timm.")
    return type(f"Grouped{kind.__name__}", (_Grouped, kind), {"fusible": plain or normalise_and_act})
