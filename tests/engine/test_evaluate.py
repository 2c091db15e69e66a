import warnings

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hda.data.scenario import Answers
from hda.engine.evaluate import evaluate, predicting, probabilities, score


def test_the_confusion_has_a_row_for_each_answer_and_a_column_for_each_prediction():
    found = score(predicted=np.array([0, 1, 1, 2, 0, 0]), labels=np.array([0, 0, 1, 2, 2, 2]), classes=4)
    assert found.confusion.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [2, 0, 1, 0], [0, 0, 0, 0]]
    assert found.images == 6


def test_accuracy_is_of_pictures_and_the_class_mean_of_classes_that_occur():
    found = score(predicted=np.array([0, 1, 1, 2, 0, 0]), labels=np.array([0, 0, 1, 2, 2, 2]), classes=4)
    assert found.accuracy == pytest.approx(100 * 3 / 6)
    assert found.mean_class_accuracy == pytest.approx(100 * (1 / 2 + 1 + 1 / 3) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(found.per_class, [50.0, 100.0, 100 / 3, np.nan])


def test_figures_are_those_of_a_count_one_by_one():
    random = np.random.default_rng(0)
    labels, predicted = random.integers(-1, 7, size=500), random.integers(0, 7, size=500)
    found = score(predicted, labels, 7)
    pairs = [(answer, guess) for answer, guess in zip(labels, predicted, strict=True) if answer != -1]
    assert found.images == len(pairs)
    assert found.accuracy == pytest.approx(100 * sum(answer == guess for answer, guess in pairs) / len(pairs))
    for answer in range(7):
        guesses = [guess for other, guess in pairs if other == answer]
        assert found.confusion[answer].tolist() == [guesses.count(guess) for guess in range(7)]
        assert found.per_class[answer] == pytest.approx(100 * guesses.count(answer) / len(guesses))
    assert found.mean_class_accuracy == pytest.approx(found.per_class.mean())


def test_answers_of_minus_one_are_left_out():
    predicted, answers = np.array([1, 0, 1, 0]), Answers(np.array([1, -1, 0, -1]), ("cat", "dog"))
    found = evaluate(predicted, answers)
    assert found.images == 2
    assert found.confusion.tolist() == [[0, 1], [0, 1]]
    assert found.accuracy == 50.0


class Net(nn.Module):
    """A method as far as predicting goes: (rows, 4) -> (rows, 3)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return self.layers(x)


@pytest.mark.parametrize("training", [True, False])
def test_predicting_is_in_evaluation_mode_without_gradients_and_restores_the_mode(training):
    net = Net().train(training)
    with predicting(net):
        assert not any(module.training for module in net.modules())
        assert torch.is_inference_mode_enabled()
        assert not net(torch.rand(2, 4)).requires_grad
    assert all(module.training is training for module in net.modules())
    assert not torch.is_inference_mode_enabled()


def test_an_error_while_predicting_restores_the_mode():
    net = Net()
    with pytest.raises(KeyError), predicting(net):
        raise KeyError
    assert all(module.training for module in net.modules())
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("batch", [1, 4, 10, 64])
def test_probabilities_are_the_softmax_of_every_picture_whatever_the_batch(batch):
    net = Net()
    pictures = torch.randint(256, (10, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    asked = []

    def batches(start: int, stop: int) -> Tensor:
        asked.append((start, stop))
        return pictures[start:stop]

    found = probabilities(net, batches, 10, lambda x: x / 255, batch)
    assert asked == [(start, min(10, start + batch)) for start in range(0, 10, batch)]
    assert found.shape == (10, 3)

    norm = net.layers[1]
    x = pictures.numpy() / 255
    hidden = x @ net.layers[0].weight.detach().numpy().T + net.layers[0].bias.detach().numpy()
    hidden = hidden / np.sqrt(1 + norm.eps)  # untrained: mean 0, variance 1, scale 1, shift 0
    logits = hidden @ net.layers[3].weight.detach().numpy().T + net.layers[3].bias.detach().numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


def test_probabilities_are_float32_whatever_the_method_computes_in():
    net = Net().bfloat16()
    found = probabilities(net, lambda start, stop: torch.ones(stop - start, 4), 3, lambda x: x.bfloat16(), 2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.sum(dim=1), torch.ones(3))
