"""The benchmark's section ``roofline``: counted products against torch's own count, and a quick run."""

import pytest
import torch
from benchmark.kernels import product_seconds, products
from benchmark.shares import SHARES, model_regions, shares
from benchmark.systems import MemoryTask, Sizes, Spec, System
from benchmark.work import Product, decoding_products, operations, training_products
from torch.utils.flop_counter import FlopCounterMode

from bench_report import quick_report

CPU = torch.device("cpu")


def test_operations_of_a_product():
    assert Product("x", rows=3, inputs=5, outputs=7, times=2).operations() == 2 * 2 * 3 * 5 * 7


@pytest.mark.parametrize("embed, hidden", [(12, 12), (12, 20)])
def test_products_of_a_forward_pass_are_those_that_torch_counts(embed, hidden):
    """Torch's counter does not see the encoder's fused layers, whose matrices are counted here."""
    sizes, task, length, sentences = Sizes(30, embed, hidden, 2, 0.0), MemoryTask(30), 7, 3
    model = System(Spec("lstm"), sizes, task, CPU, 1, "none").model
    words = torch.full((sentences, length), 5)
    with FlopCounterMode(display=False) as counter:
        model(words, torch.full((sentences,), length), words)
    seen = sum(counter.get_flop_counts()["LSTMModel.decoder"].values())
    matrices = sum(weight.numel() for weight in model.encoder.lstm.parameters() if weight.dim() == 2)
    found = training_products(sizes, sentences, length, length)
    of_encoder = [product for product in found if product.name.startswith("encoder")]
    assert operations(of_encoder) == 2 * matrices * sentences * length
    # stock lstm multiplies scores and contexts element by element
    others = [product for product in found if product not in of_encoder and product.name != "attention, positions"]
    assert operations(others) == seen


def test_a_beam_has_as_many_rows_as_hypotheses():
    sizes = Sizes(30, 8, 8, 1, 0.0)
    one, ten = (decoding_products(sizes, 4, beam, 5, 6) for beam in (1, 10))
    for lonely, many in zip(one, ten):
        factor = 1 if lonely.name.startswith(("encoder", "first state")) else 10
        assert many.operations() == factor * lonely.operations()


def test_kernels_compute_the_same_product():
    found = {name: run() for name, run in products(4, 64, 32, CPU)}
    assert {"float32", "bfloat16"} <= set(found)
    scale = found["float32"].abs().max()
    for name, value in found.items():
        tolerance = 1e-5 if name.startswith("float32") else 0.03
        assert (value.float() - found["float32"]).abs().max() <= tolerance * scale, name
    seconds = product_seconds(4, 64, 32, CPU, "cpu", least=1e-4)
    assert set(seconds) == set(found) and all(value > 0 for value in seconds.values())


def test_shares_find_products_and_the_search():
    weight = torch.ones(300, 300)

    class Model:
        def forward(self):
            return weight @ weight

    model = Model()

    def run():
        model.forward()
        torch.exp(torch.ones(200_000))

    with model_regions(model):
        training, searching = shares(run, CPU), shares(run, CPU, searching=True)
    for found in (training, searching):
        assert set(found) == set(SHARES) and sum(found.values()) == pytest.approx(1.0)
        assert found["products"] > 0
    assert training["element-wise"] > 0 and training["search"] == 0
    assert searching["search"] > 0.5 * training["element-wise"] and searching["element-wise"] < 0.1
    assert model.forward.__name__ == "forward", "the region is gone"


def test_quick_run():
    figures, printed = quick_report("--sections", "roofline")
    section = figures["sections"]["roofline"]
    assert section["rates"][0]["shape"] == [3, 8, 16] and section["rates"][0]["float32"] > 0
    assert section["others"]["bytes"] > 0 and section["others"]["exponentials"] > 0
    for path in ("train", "decode"):
        measured = section["paths"][path]
        assert sum(measured["parts"].values()) == pytest.approx(measured["operations"])
        limits = measured["limit_seconds"]
        assert 0 < limits["bfloat16"] <= limits["float32"]
        for system in measured["systems"].values():
            assert sum(system["shares"].values()) == pytest.approx(1.0)
    train = section["paths"]["train"]["systems"]["lstm_soft"]["shares"]
    assert train["optimizer"] > 0 and train["loss"] > 0 and train["search"] == 0
    assert section["paths"]["decode"]["systems"]["lstm"]["shares"]["search"] > 0
    assert "## Limits of the machine" in printed and "### Beam search, beam 3" in printed
