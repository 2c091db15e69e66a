import copy

import numpy as np
import pytest
import torch
from torch import nn

from hda.backbones import Backbone
from hda.nn import Averaged


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()


def values(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy().copy() for name, value in module.named_parameters()}


def test_every_parameter_follows_as_an_exponential_moving_average():
    student = network()
    teacher = Averaged(student)
    expected = values(student)
    random = np.random.default_rng(0)
    for momentum in (0.99, 0.9, 0.5, 0.99):
        for parameter in student.parameters():
            parameter.data += torch.from_numpy(random.normal(size=parameter.shape))
        teacher.follow(student, momentum)
        now = values(student)
        expected = {name: momentum * expected[name] + (1 - momentum) * now[name] for name in now}
    got = values(teacher.module)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-12)


@pytest.mark.parametrize(("momentum", "follows"), [(0.0, True), (1.0, False)])
def test_a_momentum_of_zero_copies_and_of_one_stays(momentum, follows):
    student = network()
    teacher = Averaged(student)
    before = values(student)
    for parameter in student.parameters():
        parameter.data.add_(1.0)
    teacher.follow(student, momentum)
    for name, value in values(teacher.module).items():
        np.testing.assert_allclose(value, (values(student) if follows else before)[name], rtol=1e-12)


def test_it_starts_equal_and_moves_only_when_told():
    student = network().eval()
    teacher = Averaged(student).eval()
    x = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    before = teacher(x)
    assert torch.equal(before, student(x))
    for parameter in student.parameters():
        parameter.data.add_(1.0)
    assert torch.equal(teacher(x), before)
    teacher.follow(student, 0.5)
    assert not torch.equal(teacher(x), before)


def test_it_is_never_trained_and_lets_no_gradient_through():
    teacher = Averaged(network())
    assert list(teacher.parameters())
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    assert not teacher(x).requires_grad


def test_following_leaves_the_student_as_it_is():
    student = network()
    teacher = Averaged(student)
    for parameter in teacher.parameters():
        parameter.data.add_(1.0)
    before = copy.deepcopy(student.state_dict())
    teacher.follow(student, 0.9)
    torch.testing.assert_close(student.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in student.parameters())


def test_batch_norms_keep_the_statistics_of_what_the_copy_has_seen():
    student = network()
    teacher = Averaged(student)
    x = 3 + torch.randn(50, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    student(-x)
    teacher.follow(student, 0.0)
    assert teacher.module[1].running_mean.abs().max() == 0  # the student's, after one batch, are elsewhere
    teacher(x)
    seen = teacher.module[0](x).detach().numpy()
    np.testing.assert_allclose(teacher.module[1].running_mean.numpy(), 0.1 * seen.mean(axis=0), rtol=1e-10)


def test_a_copied_backbone_has_groups_of_its_own(backbone: Backbone):
    teacher = Averaged(backbone)
    seen = []
    for name, net in (("student", backbone), ("teacher", teacher.module)):
        norm = next(layer for layer in net.modules() if isinstance(layer, nn.BatchNorm2d))
        norm.register_forward_pre_hook(lambda layer, given, name=name: seen.append((name, layer.groups.sizes)))
    pictures = torch.rand(5, 3, 16, 16)
    backbone(pictures, (2, 3))
    teacher(pictures)
    teacher(pictures, (1, 4))
    assert seen == [("student", (2, 3)), ("teacher", ()), ("teacher", (1, 4))]
