import numpy as np
import torch

from hda.nn import DomainHeads, mixed


def test_every_domain_has_a_classifier_of_its_own():
    heads = DomainHeads(5, classes=3, domains=2)
    features = torch.rand(4, 5)
    logits = heads(features)
    assert logits.shape == (4, 2, 3)
    for number, head in enumerate(heads.heads):
        torch.testing.assert_close(logits[:, number], features @ head.linear.weight.T + head.linear.bias)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def test_a_mixture_is_the_weighted_mean_of_probabilities():
    random = np.random.default_rng(0)
    logits, weights = 2 * random.normal(size=(4, 3, 5)), random.uniform(size=(4, 3))
    weights[0] = [0.0, 1.0, 0.0]
    weights /= weights.sum(axis=1, keepdims=True)
    found = mixed(torch.from_numpy(logits), torch.from_numpy(weights)).softmax(dim=1)
    np.testing.assert_allclose(found.numpy(), (weights[:, :, None] * softmax(logits)).sum(axis=1), atol=1e-11)
    alike = mixed(torch.from_numpy(logits)).softmax(dim=1)
    np.testing.assert_allclose(alike.numpy(), softmax(logits).mean(axis=1), rtol=1e-12)
