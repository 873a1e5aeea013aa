"""lstm_soft computes the same function as stock fairseq's ``lstm`` with the same parameters, and a gain of 1."""

import pytest
import torch
from models_for_tests import build, fake_task, pad_batch

# ours: stock's, where names differ; stock has (W s) . h, we have s . (W h)
NAMES = {"decoder.attention.score.projection": "decoder.attention.input_proj"}
NAMES |= {"decoder.output_projection": "decoder.attention.output_proj"}
NAMES |= {f"decoder.{part}_projection": f"decoder.encoder_{part}_proj" for part in ("hidden", "cell")}


def pairs(ours, stock):
    """The names and values of our parameters, and stock's, as views of the same form."""
    for name, value in ours.named_parameters():
        if name == "decoder.attention.score.gain":
            continue
        module, _, kind = name.rpartition(".")
        if module == "decoder.lstm":
            weight, layer = kind.rsplit("_l", 1)
            other = stock.get_parameter(f"decoder.layers.{layer}.{weight}")
        else:
            other = stock.get_parameter(f"{NAMES.get(module, module)}.{kind}")
        yield name, value, other, "score" in name


@pytest.mark.parametrize(
    "options", [{}, {"decoder_hidden_size": 16}, {"decoder_out_embed_dim": 9}, {"encoder_bidirectional": False}]
)
def test_same_function_and_gradients(options):
    torch.manual_seed(3)
    task = fake_task()
    stock, ours = (build(arch, task, **options).double() for arch in ("lstm", "lstm_soft"))
    with torch.no_grad():
        for _, value, other, transposed in pairs(ours, stock):
            value.copy_(other.t() if transposed else other)
    source = pad_batch([6, 6, 4, 2], "left")  # stock wants sources sorted by length
    target = pad_batch([5, 3, 5, 4], "right", symbols=15, seed=1)
    theirs, _ = stock(source, source.ne(1).sum(1), target)
    logits, _ = ours(source, source.ne(1).sum(1), target)
    torch.testing.assert_close(logits, theirs, rtol=1e-10, atol=1e-12)
    weight = torch.randn_like(theirs)
    for result in (theirs, logits):
        (result * weight).sum().backward()
    for name, value, other, transposed in pairs(ours, stock):
        torch.testing.assert_close(value.grad, other.grad.t() if transposed else other.grad, msg=name)
