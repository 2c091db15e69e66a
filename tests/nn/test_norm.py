import copy

import numpy as np
import pytest
import torch
from timm.layers import BatchNormAct2d
from torch import nn

from hda.nn.norm import Groups, batch_norm_of_equal_groups, convert, synchronisable


def flat() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 4), nn.BatchNorm1d(4))


def convolutions() -> nn.Module:
    norms = nn.BatchNorm2d(5), nn.BatchNorm2d(4, momentum=0.3, eps=1e-3)
    return nn.Sequential(nn.Conv2d(3, 5, 3), norms[0], nn.ReLU(), nn.Conv2d(5, 4, 1), norms[1], nn.Flatten())


def timm_convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, 3), BatchNormAct2d(5, act_layer=nn.SiLU), nn.Conv2d(5, 4, 1), nn.Flatten())


def cumulative() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, momentum=None))


def untracked() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, affine=False, track_running_stats=False))


NETS = [flat, convolutions, timm_convolutions, cumulative, untracked]


def build(make) -> tuple[nn.Module, nn.Module, Groups]:
    """A network in float64 with scales, shifts and statistics of its own, the same converted, and its groups."""
    torch.manual_seed(0)
    net = make().double()
    for layer in net.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            for value in (layer.weight, layer.bias, layer.running_mean):
                if value is not None:
                    nn.init.normal_(value)
            if layer.running_var is not None:
                nn.init.uniform_(layer.running_var, 0.5, 2.0)
    groups = Groups()
    return net, convert(copy.deepcopy(net), groups), groups


def rows(net: nn.Module, count: int) -> torch.Tensor:
    shape = (6,) if isinstance(net[0], nn.Linear) else (3, 6, 6)
    return torch.randn(count, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (2, 6, 4), (8,)])
@pytest.mark.parametrize("make", NETS)
def test_one_forward_in_groups_is_one_forward_a_group(make, sizes):
    plain, converted, groups = build(make)
    x = rows(plain, sum(sizes))
    x_plain, x_converted = x.clone().requires_grad_(), x.clone().requires_grad_()

    expected = torch.cat([plain(part) for part in x_plain.split(sizes)])
    with groups.of(sizes):
        got = converted(x_converted)
    slope = torch.randn(expected.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    expected.backward(slope)
    got.backward(slope)

    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(x_converted.grad, x_plain.grad)
    for (name, one), (other_name, other) in zip(plain.named_parameters(), converted.named_parameters(), strict=True):
        assert name == other_name
        torch.testing.assert_close(other.grad, one.grad)
    torch.testing.assert_close(dict(converted.named_buffers()), dict(plain.named_buffers()))
    for layer in converted.modules():
        if getattr(layer, "num_batches_tracked", None) is not None:
            assert layer.num_batches_tracked.item() == len(sizes)


@pytest.mark.parametrize("make", NETS)
def test_groups_differ_from_a_forward_over_all_rows(make):
    plain, converted, groups = build(make)
    x = rows(plain, 8)
    x[4:] += 2.0
    with groups.of((4, 4)):
        assert (converted(x) - plain(x)).abs().max() > 0.1


@pytest.mark.parametrize("sizes", [None, (), (8,)])
@pytest.mark.parametrize("make", NETS)
def test_without_groups_or_with_a_single_one_it_is_ordinary_batch_norm(make, sizes):
    plain, converted, groups = build(make)
    x = rows(plain, 8)
    with groups.of(sizes):
        torch.testing.assert_close(converted(x), plain(x), rtol=0, atol=0)
    torch.testing.assert_close(converted.state_dict(), plain.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("make", [flat, convolutions, timm_convolutions])
def test_evaluation_is_untouched(make):
    plain, converted, groups = build(make)
    before = copy.deepcopy(plain.state_dict())
    x = rows(plain, 7)
    plain.eval()
    converted.eval()
    with groups.of((3, 4)):
        torch.testing.assert_close(converted(x), plain(x), rtol=0, atol=0)
        converted(rows(plain, 5))  # any number of rows
    torch.testing.assert_close(dict(converted.state_dict()), dict(before), rtol=0, atol=0)


def test_a_batch_norm_that_is_frozen_inside_a_training_network_is_untouched():
    plain, converted, groups = build(convolutions)
    for net in (plain, converted):
        net[1].eval()
        net[4].eval()
    x = rows(plain, 8)
    with groups.of((3, 5)):
        torch.testing.assert_close(converted(x), plain(x), rtol=0, atol=0)


@pytest.mark.parametrize("make", NETS)
def test_parameters_hooks_and_names_stay(make):
    torch.manual_seed(0)
    net = make()
    parameters = dict(net.named_parameters())
    names = list(net.state_dict())
    seen = []
    net[1].register_forward_hook(lambda layer, given, result: seen.append(len(result)))
    kind = type(net[1])
    groups = Groups()
    assert convert(net, groups) is net
    assert list(net.state_dict()) == names
    assert all(value is parameters[name] for name, value in net.named_parameters())
    assert isinstance(net[1], kind)
    with groups.of((2, 4)):
        net(rows(net, 6).float())
    assert seen == [6]  # one forward over all rows


def test_converting_again_changes_the_groups_alone():
    torch.manual_seed(0)
    net = nn.BatchNorm1d(5)
    kind = type(convert(net, Groups()))
    groups = Groups()
    assert type(convert(net, groups)) is kind
    assert net.groups is groups


def test_other_layers_stay_as_they_are():
    net = nn.Sequential(nn.Linear(3, 3), nn.GroupNorm(1, 3), nn.LayerNorm(3), nn.InstanceNorm1d(3))
    kinds = [type(layer) for layer in net]
    convert(net, Groups())
    assert [type(layer) for layer in net] == kinds


def test_groups_end_with_their_block_even_after_an_error():
    groups = Groups()
    with groups.of((1, 2)):
        assert groups.sizes == (1, 2)
        with pytest.raises(RuntimeError), groups.of((3, 4)):
            raise RuntimeError
        assert groups.sizes == (1, 2)
        with groups.of(None):
            assert groups.sizes == ()
    assert groups.sizes == ()


def test_positions_that_a_network_folds_into_the_rows_belong_to_their_groups():
    groups = Groups()
    with groups.of((2, 4)):
        assert groups.rows(6) == [2, 4]
        assert groups.rows(18) == [6, 12]
        for count in (7, 5, 3):
            with pytest.raises(ValueError, match="do not make up a batch"):
                groups.rows(count)


def test_folded_rows_are_normalised_group_by_group():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(5)
    plain = copy.deepcopy(norm)
    groups = Groups()
    x = torch.randn(6, 3, 5)
    with groups.of((2, 4)):
        got = convert(norm, groups)(x.flatten(0, 1)).unflatten(0, (6, 3))
    expected = torch.cat([plain(part.flatten(0, 1)).unflatten(0, (-1, 3)) for part in (x[:2], x[2:])])
    torch.testing.assert_close(got, expected)


def test_a_batch_that_does_not_fit_the_groups_is_an_error():
    _, converted, groups = build(flat)
    with groups.of((3, 4)), pytest.raises(ValueError, match=r"groups of \(3, 4\) rows do not make up a batch of 8"):
        converted(rows(converted, 8))


# The form for compilers


@pytest.mark.parametrize("shape", [(12, 4), (12, 4, 7), (12, 4, 5, 3)])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_equal_groups_are_normalised_as_numpy_does_it(shape, groups):
    random = np.random.default_rng(0)
    x = random.normal(size=shape) * 3 + 1
    weight, bias, mean, var = random.normal(size=(4, 4)) ** 2 + 0.1
    momentum, eps = 0.2, 1e-3

    expected = np.empty_like(x)
    expected_mean, expected_var = mean.copy(), var.copy()
    size = 12 // groups
    for group in range(groups):
        part = x[group * size : (group + 1) * size]
        for channel in range(4):
            values = part[:, channel]
            centred = values - values.mean()
            scaled = centred / np.sqrt((centred**2).mean() + eps)
            expected[group * size : (group + 1) * size, channel] = scaled * weight[channel] + bias[channel]
            expected_mean[channel] = (1 - momentum) * expected_mean[channel] + momentum * values.mean()
            unbiased = (centred**2).sum() / (values.size - 1)
            expected_var[channel] = (1 - momentum) * expected_var[channel] + momentum * unbiased

    tensors = [torch.from_numpy(value) for value in (weight, bias, mean.copy(), var.copy())]
    got = batch_norm_of_equal_groups(torch.from_numpy(x), groups, *tensors, momentum, eps)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(tensors[2].numpy(), expected_mean, rtol=1e-9)
    np.testing.assert_allclose(tensors[3].numpy(), expected_var, rtol=1e-9)


def test_equal_groups_without_scale_shift_and_statistics():
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    got = batch_norm_of_equal_groups(x, 2, None, None, None, None, 0.1, 0.0).numpy().reshape(2, 3, 3)
    np.testing.assert_allclose(got.mean(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(got.std(axis=1), 1.0, rtol=1e-12)


def test_equal_groups_in_half_precision_have_statistics_in_float32():
    exact = torch.randn(8, 3, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 30.0
    half = exact.to(torch.bfloat16)
    mean, var = torch.zeros(3), torch.ones(3)
    got = batch_norm_of_equal_groups(half, 2, None, None, mean, var, 0.1, 1e-5)
    assert got.dtype == torch.bfloat16
    expected = batch_norm_of_equal_groups(half.double(), 2, None, None, None, None, 0.1, 1e-5)
    torch.testing.assert_close(got, expected.to(torch.bfloat16), rtol=0.01, atol=0.01)
    numbers = half.double().numpy()
    first, second = (part.mean(axis=(0, 2, 3)) for part in (numbers[:4], numbers[4:]))
    np.testing.assert_allclose(mean.numpy(), 0.9 * 0.1 * first + 0.1 * second, rtol=1e-5)


def test_equal_groups_of_one_value_a_channel_are_an_error():
    with pytest.raises(ValueError, match="expected more than one value per channel and group"):
        batch_norm_of_equal_groups(torch.zeros(2, 3), 2, None, None, None, None, 0.1, 1e-5)


@pytest.mark.parametrize("make", [flat, convolutions, timm_convolutions, untracked])
def test_the_form_for_compilers_is_the_ordinary_one(make):
    plain, converted, _ = build(make)
    norm, grouped = plain[1], converted[1]
    shape = (8, 5) if isinstance(norm, nn.BatchNorm1d) else (8, 5, 4, 4)
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert grouped.fusible
    torch.testing.assert_close(grouped._fused(x, 2), torch.cat([norm(part) for part in x.split(4)]))
    torch.testing.assert_close(dict(grouped.named_buffers()), dict(norm.named_buffers()))


def test_a_subclass_with_a_forward_of_its_own_is_called_once_a_group():
    class Doubled(nn.BatchNorm1d):
        def forward(self, x):
            return 2 * super().forward(x)

    plain = Doubled(3)
    groups = Groups()
    converted = convert(copy.deepcopy(plain), groups)
    assert not converted.fusible
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    with groups.of((3, 3)):
        torch.testing.assert_close(converted(x), torch.cat([plain(x[:3]), plain(x[3:])]))


def test_a_compiler_is_handed_one_reduction_of_all_groups():
    plain, converted, groups = build(convolutions)
    x = rows(plain, 8)
    traced = []

    def backend(graph, inputs):
        traced.extend(node.target for node in graph.graph.nodes)
        return graph

    with groups.of((4, 4)):
        got = torch.compile(converted, backend=backend, fullgraph=True)(x)
    assert traced.count(torch.var_mean) == 2  # one a layer
    torch.testing.assert_close(got, torch.cat([plain(part) for part in x.split(4)]))
    torch.testing.assert_close(dict(converted.named_buffers()), dict(plain.named_buffers()))


# With the rows of several processes


def norms(net: nn.Module) -> list[nn.Module]:
    return [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (2, 6, 4), (8,), ()])
@pytest.mark.parametrize("make", [flat, convolutions, timm_convolutions, untracked])
def test_synchronised_with_nobody_it_is_what_it_was(make, sizes):
    _, apart, groups = build(make)
    _, together, others = build(make)
    others.total = lambda x: 1.0 * x
    x = rows(apart, sum(sizes) or 5)
    found = []
    for net, mine in ((apart, groups), (together, others)):
        given = x.clone().requires_grad_()
        with mine.of(sizes):
            out = net(given)
        out.backward(torch.sin(out.detach()))
        found.append([out, given.grad, *(p.grad for p in net.parameters()), *net.buffers()])
    torch.testing.assert_close(found[1], found[0])


def test_statistics_are_those_of_all_rows_wherever_they_lie():
    _, net, groups = build(lambda: nn.Sequential(nn.Identity(), nn.BatchNorm1d(3, affine=False)))
    random = np.random.default_rng(0)
    ours, theirs = random.normal(2, 3, (4, 3)), random.normal(-1, 2, (6, 3))
    whole = np.concatenate([ours, theirs])
    rest = iter(
        [
            np.concatenate([theirs.sum(0), [6]])[None],  # what the other process adds: sums and rows, then squares
            ((theirs - whole.mean(0)) ** 2).sum(0)[None],
        ]
    )
    groups.total = lambda x: x + torch.from_numpy(next(rest))
    before = net[1].running_var.numpy().copy()
    got = net(torch.from_numpy(ours))
    np.testing.assert_allclose(got, (ours - whole.mean(0)) / np.sqrt(whole.var(0) + 1e-5))
    np.testing.assert_allclose(net[1].running_var, 0.9 * before + 0.1 * whole.var(0, ddof=1))


def test_what_normalises_otherwise_cannot_be_synchronised():
    assert all(synchronisable(layer) for make in (flat, timm_convolutions) for layer in norms(build(make)[1]))
    assert not any(synchronisable(layer) for layer in norms(build(cumulative)[1]))
    assert not any(synchronisable(layer) for layer in norms(flat()))
