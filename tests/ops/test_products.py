"""Products by every kernel equal torch's, up to the rounding of their type."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_attn_plugin.ops import products
from fairseq_attn_plugin.ops.deferred import linear, share
from fairseq_attn_plugin.ops.precision import products_in

types = pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16), ids=str)


class Operations(TorchDispatchMode):
    """The names of torch's operations that are called, and the right operands of those of oneDNN."""

    def __init__(self):
        super().__init__()
        self.names, self.right = [], []

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        self.names.append(str(function))
        if "_linear_pointwise" in str(function):
            self.right.append(args[1 + ("binary" in str(function))])
        return function(*args, **(kwargs or {}))


def assert_rounded(found, expected, dtype):
    tolerance, largest = 4 * torch.finfo(dtype).eps, float(expected.abs().max()) if expected.numel() else 0.0
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * largest)


@pytest.fixture(params=[False, True], ids=["other", "intel"])
def intel(request, monkeypatch):
    """Whether MKL is as fast as oneDNN."""
    monkeypatch.setattr(products, "by_intel", lambda: request.param)
    return request.param


@types
@pytest.mark.parametrize("rows", [0, 1, 7, 40, 300])
def test_prepared_matrix(dtype, rows, intel):
    torch.manual_seed(0)
    matrix, x, y = (torch.randn(shape, dtype=torch.float64) for shape in ((96, 64), (rows, 64), (rows, 96)))
    prepared = products.Prepared(matrix, dtype)
    exact = [each.to(dtype).double() for each in (matrix, x, y)]
    for base in (None, torch.randn(96, dtype=torch.float64), torch.randn(rows, 96, dtype=torch.float64)):
        expected = exact[1] @ exact[0].t() + (0 if base is None else base.to(dtype).double())
        assert_rounded(prepared.linear(x, base), expected, dtype)
        assert_rounded(prepared.linear(x, base), expected, dtype)  # packed by the first call
    assert_rounded(prepared.matmul(y), exact[2] @ exact[0], dtype)
    assert_rounded(prepared.matmul(y, x), exact[2] @ exact[0] + exact[1], dtype)
    for columns in (96, 8):  # in bfloat16 narrow operands are copied
        expected = exact[2][:, :columns].t() @ exact[1]
        assert_rounded(products.outer(y[:, :columns], x, dtype), expected, dtype)


@pytest.mark.parametrize(("shape", "rows"), [((5, 60), 320), ((6, 64), 384), ((4, 64), 256), ((0, 7), 0)])
def test_tall_matrices_get_rows_of_zeros_in_bfloat16(shape, rows):
    x = torch.randn(*shape, 8).transpose(0, 1)
    found = products.tall(x, torch.bfloat16)
    assert found.shape == (rows, 8) and not found[x.numel() // 8 :].any()
    assert torch.equal(found[: x.numel() // 8], x.reshape(-1, 8).bfloat16())
    assert torch.equal(products.tall(x, torch.float32), x.reshape(-1, 8))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
def test_float32_products_are_onednns_unless_it_is_switched_off_or_mkl_is_fast(intel):
    matrix, x = torch.randn(96, 64), torch.randn(40, 64)
    with Operations() as called:
        one = products.Prepared(matrix, torch.float32).linear(x)
    assert any("mkldnn" in name for name in called.names) != intel
    with torch.backends.mkldnn.flags(enabled=False), Operations() as called:
        other = products.Prepared(matrix, torch.float32).linear(x)
    assert not any("mkldnn" in name for name in called.names)
    torch.testing.assert_close(one, other)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_onednn_gets_no_right_operand_with_gaps_between_its_rows(dtype, monkeypatch):
    """It has its slowest kernel alone for these, a thousand times slower: parts of a matrix are copied."""
    monkeypatch.setattr(products, "by_intel", lambda: False)
    if dtype == torch.bfloat16 and not products.has_bfloat16("cpu"):
        pytest.skip("NO BFLOAT16: the processor has no instructions for it")
    matrix, x, y = (torch.randn(rows, 256).to(dtype)[:, 64:192] for rows in (96, 300, 300))
    with Operations() as called:
        prepared = products.Prepared(matrix, dtype)
        prepared.linear(x, torch.randn(96))
        prepared.matmul(y[:, :96], torch.randn(128))
        products.outer(x, y, dtype)
    assert len(called.right) >= 2
    for one in called.right:
        assert one.is_mkldnn or one.is_contiguous() or one.t().is_contiguous(), (one.shape, one.stride())


@types
def test_shared_weights(dtype):
    """Values and gradients of a loop, its products in ``dtype``, against ordinary ones in float64."""
    torch.manual_seed(0)
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias, x = (torch.randn(shape, dtype=kind) / 8 for shape in ((64, 64), (64,), (9, 64)))
    results = []
    for tensors in ([weight, bias, x], [each.double() for each in (weight, bias, x)]):
        w, b, h = (each.clone().requires_grad_() for each in tensors)
        with products_in(dtype):
            shared = share(w) if tensors[0] is weight else w
            state = h
            for step in range(3):
                state = torch.tanh(linear(state, shared, b if step else state))
        assert state.dtype == tensors[0].dtype
        results.append((state, *torch.autograd.grad(state.pow(2).sum(), (w, b, h))))
    for found, expected in zip(*results):
        assert (found - expected).norm() <= 20 * torch.finfo(dtype).eps * expected.norm()


def test_precision_ends_with_its_context():
    from fairseq_attn_plugin.ops.precision import product_type

    x = torch.ones(2)
    with products_in(torch.bfloat16):
        with products_in(torch.float32):
            assert product_type(x) == torch.float32
        assert product_type(x) == torch.bfloat16 and product_type(x.double()) == torch.float64
        with torch.autocast("cpu", torch.float16):
            assert product_type(x) == torch.float16
    assert product_type(x) == torch.float32
    with pytest.raises(KeyError), products_in(torch.bfloat16):
        raise KeyError
    assert product_type(x) == torch.float32
