import pytest
import torch

from fairseq_attn_plugin.ops.dropout import dropout, dropout_mask


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.75])
def test_masks_have_the_probability_and_the_mean(p):
    torch.manual_seed(1)
    mask = dropout_mask(torch.ones(1), (300, 1001), p)
    kept = mask > 0
    assert torch.equal(mask[kept].unique(), mask.max()[None])
    assert abs(float(mask.max()) * (1 - p) - 1) < 1e-4
    deviation = (p * (1 - p) / mask.numel()) ** 0.5
    assert abs(float((~kept).float().mean()) - p) < 5 * deviation
    for dimension in (0, 1):  # independent of their neighbours
        both = (kept.narrow(dimension, 0, 300) & kept.roll(1, dimension).narrow(dimension, 0, 300)).float().mean()
        assert abs(float(both) - (1 - p) ** 2) < 10 * deviation


def test_seed_decides():
    x = torch.ones(7, 5)
    torch.manual_seed(3)
    one = dropout(x, 0.5)
    two = dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(one, dropout(x, 0.5)) and not torch.equal(one, two)


def test_gradient_has_the_same_mask():
    x = torch.randn(50, 3, requires_grad=True)
    y = dropout(x, 0.3)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, x * gradient)


def test_extremes():
    x = torch.randn(4, 4)
    assert dropout(x, 0.0) is x and dropout(x, 0.5, training=False) is x
    assert torch.equal(dropout(x, 1.0), torch.zeros(4, 4))
    assert dropout(x.bfloat16(), 0.5).dtype == torch.bfloat16
