import numpy as np
import pytest
import torch

from hda.losses import cross_entropy


def test_it_is_the_mean_of_each_rows_cross_entropy(numeric_gradient):
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(6, 4)), np.array([0, 3, 1, 1, 2, 0])

    def expected(values):
        return np.mean([np.log(np.exp(row).sum()) - row[label] for row, label in zip(values, labels, strict=True)])

    x = torch.from_numpy(logits).requires_grad_()
    loss = cross_entropy(x, torch.from_numpy(labels))
    loss.backward()
    assert loss.item() == pytest.approx(expected(logits), rel=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), numeric_gradient(expected, logits), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32])
def test_it_is_computed_in_float32(kind):
    logits = torch.randn(8, 5, generator=torch.Generator().manual_seed(0)).to(kind)
    loss = cross_entropy(logits, torch.arange(8) % 5)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, cross_entropy(logits.float(), torch.arange(8) % 5))
