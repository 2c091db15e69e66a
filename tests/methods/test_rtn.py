import numpy as np
import pytest
import torch

from hda.batch import Progress
from hda.errors import UserError
from hda.methods.rtn import RTN

PROGRESS = Progress(torch.tensor(300.0), 1000)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: torch.Tensor) -> np.ndarray:
    return -np.log(softmax(logits)[np.arange(len(labels)), labels.numpy()])


def discrepancy(x: np.ndarray, n: int) -> float:
    """Unbiased maximum mean discrepancy of five kernels."""
    d = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    mean = d.sum() / (len(x) * (len(x) - 1))
    k = sum(np.exp(-d / (mean * t)) for t in (0.25, 0.5, 1, 2, 4))
    own, other = ~np.eye(n, dtype=bool), ~np.eye(len(x) - n, dtype=bool)
    return k[:n, :n][own].mean() + k[n:, n:][other].mean() - 2 * k[:n, n:].mean()


def residual(method: RTN, x: np.ndarray) -> np.ndarray:
    """x + W2 relu(W1 x + b1) + b2."""
    w1, b1, w2, b2 = (p.detach().double().numpy() for p in method.residual.parameters())
    return x + np.maximum(x @ w1.T + b1, 0) @ w2.T + b2


@pytest.mark.parametrize("setting", ["uda", "msda", "ssda"])
def test_the_source_learns_through_the_residual_and_the_target_without(setting, make_method, make_batch, outputs):
    method, batch = make_method("rtn", setting), make_batch(setting)
    with torch.no_grad():
        random = torch.Generator().manual_seed(1)
        for part, scale in ((method.residual, 0.5), (method.head, 0.1)):
            for parameter in part.parameters():
                parameter.copy_(scale * torch.randn(parameter.shape, generator=random))
    seen = outputs(method.head)
    losses = method.losses(batch, PROGRESS)
    logits, features = (x.detach().double().numpy() for x in seen[0])
    n, m = batch.layout.source, batch.layout.labelled
    each = np.concatenate(
        [
            cross_entropy(residual(method, logits[:n]), batch.labels[:n]),
            cross_entropy(logits[n:m], batch.labels[n:]),
        ]
    )
    p = softmax(logits[m:])
    entropy = -(p * np.log(p + 1e-5)).sum(axis=1).mean()
    products = np.stack([np.outer(f, g).ravel() for f, g in zip(features, logits, strict=True)])
    assert losses["classification"].item() == pytest.approx(each.mean(), rel=1e-5)
    strength = 2 / (1 + np.exp(-10 * 300 / 2000)) - 1
    assert losses["entropy"].item() == pytest.approx(0.1 * strength * entropy, rel=1e-5)
    assert losses["transfer"].item() == pytest.approx(discrepancy(products, m), rel=1e-4, abs=1e-6)
    assert len(losses) == 3


def test_predictions_come_from_the_targets_classifier(make_method, make_batch):
    method, images = make_method("rtn").eval(), make_batch().images[0]
    assert torch.equal(method(images), method.head(method.backbone(images)).logits)


def test_at_the_start_both_classifiers_nearly_agree(make_method):
    method = make_method("rtn")
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert 0 < (method.residual(logits) - logits).abs().max() < 0.01


def test_the_residual_learns_from_the_source_alone(make_method, make_batch):
    method, batch = make_method("rtn"), make_batch()
    losses = method.losses(batch, PROGRESS)
    parameters = list(method.residual.parameters())
    assert any(g.any() for g in torch.autograd.grad(losses["classification"], parameters, retain_graph=True))
    for name in ("transfer", "entropy"):
        found = torch.autograd.grad(losses[name], parameters, retain_graph=True, allow_unused=True)
        assert found == (None,) * 4


def test_settings_that_make_no_sense_are_refused():
    for wrong in (
        {"bottleneck": 0},
        {"mmd_weight": -1.0},
        {"entropy_weight": -1.0},
        {"entropy_horizon": 0.0},
        {"kernels": 0},
        {"kernel_factor": 0.5},
    ):
        with pytest.raises(UserError, match=next(iter(wrong))):
            RTN.Settings(**wrong)
