import numpy as np
import pytest
import torch

from hda.losses import margin_disparity

LABELLED, TARGET = slice(0, 3), slice(3, 8)


def by_hand(logits: np.ndarray, auxiliary: np.ndarray, margin: float) -> float:
    p = np.exp(auxiliary) / np.exp(auxiliary).sum(axis=1, keepdims=True)
    of_decision = p[np.arange(len(p)), logits.argmax(axis=1)]
    return margin * -np.log(of_decision[LABELLED]).mean() - np.log(1 - of_decision[TARGET]).mean()


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("margin", [1.0, 4.0])
def test_it_is_agreement_on_the_labelled_rows_and_disagreement_on_the_target(classes, margin, numeric_gradient):
    random = np.random.default_rng(classes)
    logits, auxiliary = random.normal(size=(2, 8, classes))
    x, main = torch.from_numpy(auxiliary).requires_grad_(), torch.from_numpy(logits).requires_grad_()
    got = margin_disparity(main, x, LABELLED, TARGET, margin)
    assert got.item() == pytest.approx(by_hand(logits, auxiliary, margin), rel=1e-12)
    got.backward()
    expected = numeric_gradient(lambda values: by_hand(logits, values, margin), auxiliary)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6, atol=1e-8)
    assert main.grad is None


def test_a_sure_auxiliary_leaves_value_and_gradient_finite():
    auxiliary = torch.tensor([[200.0, 0.0, 0.0]] * 8, requires_grad=True)
    loss = margin_disparity(auxiliary.detach(), auxiliary, LABELLED, TARGET, 2.0)
    loss.backward()
    assert loss.item() == pytest.approx(200.0 - np.log(2), rel=1e-6)  # 1 - p is 2 exp(-200), less than float32 knows
    np.testing.assert_allclose(auxiliary.grad[3].numpy(), np.array([1.0, -0.5, -0.5]) / 5, rtol=1e-5)


def test_agreeing_on_the_labelled_rows_alone_costs_least():
    logits = torch.eye(4).repeat(2, 1) * 9
    agree, disagree = logits, logits.roll(1, dims=1)

    def loss(labelled: torch.Tensor, target: torch.Tensor) -> float:
        return margin_disparity(logits, torch.cat([labelled[:4], target[4:]]), slice(0, 4), slice(4, 8), 2.0).item()

    assert loss(agree, disagree) < min(loss(agree, agree), loss(disagree, disagree))
