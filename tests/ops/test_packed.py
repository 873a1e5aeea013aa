"""Products with packed weights against torch's own."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_attn_plugin.decoding.options import PRECISIONS
from fairseq_attn_plugin.ops import packed as products
from fairseq_attn_plugin.ops.packed import FixedWeights, Product, pack

# Roundings of W and x: 8 significant bits; 127 steps of the greatest weight and 255 of the range of x, or half as many.
TOLERANCES = {"float32": 1e-6, "bfloat16": 2**-8, "int8": 1 / 100 if torch.cpu._is_vnni_supported() else 2.1 / 100}
SIZES = [(1, 512, 1100), (2, 512, 1100), (40, 33, 17), (1, 5, 3), (7, 512, 1100), (70, 200, 4100)]


def factors(rows, inputs, outputs, dtype=torch.float32):
    torch.manual_seed(1)
    return torch.randn(rows, inputs).to(dtype), torch.randn(outputs, inputs).to(dtype), torch.randn(outputs).to(dtype)


def error(y, x, weight, bias):
    """The greatest error of y, in units of |x| |W| / sqrt(inputs)."""
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    unit = x.norm(dim=1, keepdim=True).double() * weight.norm(dim=1).double() / weight.size(1) ** 0.5
    return float(((y - exact).abs() / unit).max())


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_packed_product_is_the_product(precision, size, biased):
    x, weight, bias = factors(*size)
    bias = bias if biased else None
    y = pack(weight, bias, precision)(x)
    assert y.dtype == torch.float32
    assert error(y, x, weight, bias) < 8 * TOLERANCES[precision]


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_without_packed_products_the_rounding_is_the_same(precision, monkeypatch):
    """What torch lacks is replaced; W has the same roundings, and x with int8 none."""
    x, weight, bias = factors(9, 256, 300)
    expected = pack(weight, bias, precision)(x)
    monkeypatch.setattr(products, "_packed", lambda weight: None)
    monkeypatch.setattr(products, "_packed_integers", lambda *_: None)
    replaced = pack(weight, bias, precision)
    assert replaced.packed is None
    assert error(replaced(x), x, weight, bias) < 8 * TOLERANCES[precision]
    assert float((replaced(x) - expected).abs().max()) < 50 * TOLERANCES[precision]
    if precision != "float32":
        assert not torch.equal(replaced.weight.float(), weight)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("rows", [8, 400])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_some_outputs_are_the_product_of_these(precision, rows):
    x, weight, bias = factors(rows, 256, 900)
    outputs = torch.arange(3, 900, 5)
    whole = FixedWeights([weight, bias], precision)
    confined = whole.confined_to(outputs, (weight, bias), rows)
    found = confined.product(*confined.vocabulary)
    assert type(found) is type(pack(weight, bias, precision))
    assert confined.places(outputs[[4, 2]]).tolist() == [4, 2] and whole.places(outputs) is outputs
    assert error(found(x), x, weight[outputs], bias[outputs]) < 8 * TOLERANCES[precision]
    few = whole.confined_to(torch.tensor([1]), (weight, bias), 7)
    assert type(few.product(*few.vocabulary)) is Product
    assert confined.product(weight, bias) is whole.product(weight, bias)
    assert confined.product(weight.clone()) is None  # which may be anywhere


def test_a_missing_product_is_said_once(monkeypatch, caplog):
    products.say_once.cache_clear()
    monkeypatch.setattr(products, "has_bfloat16", lambda device: False)
    x, weight, bias = factors(4, 256, 300)
    for _ in range(2):
        product = pack(weight, bias, "bfloat16")
    assert torch.equal(product(x), pack(weight, bias)(x))
    assert [record.message.split(":")[0] for record in caplog.records] == ["--decoding-precision bfloat16"]


def test_without_vnni_inputs_have_seven_bits(monkeypatch):
    products.say_once.cache_clear()
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    x, weight, bias = factors(9, 256, 300)
    product = pack(weight, bias, "int8")
    assert product.seven_bits
    assert error(product(x), x, weight, bias) < 0.1


def test_float64_stays_float64():
    x, weight, bias = factors(4, 600, 2000, torch.float64)
    torch.testing.assert_close(pack(weight, bias)(x), F.linear(x, weight, bias), rtol=1e-12, atol=1e-12)


def test_zero_rows_of_int8_weights_stay_zero():
    weight = torch.ones(3, 4)
    weight[1] = 0
    y = pack(weight, None, "int8")(torch.ones(2, 4))
    torch.testing.assert_close(y, torch.tensor([[4.0, 0.0, 4.0]] * 2), rtol=0.02, atol=0)
