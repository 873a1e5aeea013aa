"""lstm_soft computes the same function as stock fairseq's ``lstm`` when it is given the same parameters."""

import pytest
import torch
from models_for_tests import build, fake_task, pad_batch


def copy_from_stock(ours, stock):
    """Gives ``ours`` the parameters of ``stock``: the same matrices, differently stored."""
    own, other = ours.state_dict(), stock.state_dict()
    for key in own:
        if key.startswith("encoder.") or key.startswith("decoder.fc_out") or key.startswith("decoder.embed"):
            own[key].copy_(other[key])
    for layer in range(stock.decoder.num_layers):
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            own[f"decoder.lstm.{part}_l{layer}"].copy_(other[f"decoder.layers.{layer}.{part}"])
    for part in ("weight", "bias"):
        if f"decoder.hidden_projection.{part}" in own:
            own[f"decoder.hidden_projection.{part}"].copy_(other[f"decoder.encoder_hidden_proj.{part}"])
            own[f"decoder.cell_projection.{part}"].copy_(other[f"decoder.encoder_cell_proj.{part}"])
        if f"decoder.additional_fc.{part}" in own:
            own[f"decoder.additional_fc.{part}"].copy_(other[f"decoder.additional_fc.{part}"])
    # stock: (W s) . h; here: s . (W h)
    own["decoder.attention.score.projection.weight"].copy_(other["decoder.attention.input_proj.weight"].t())
    own["decoder.output_projection.weight"].copy_(other["decoder.attention.output_proj.weight"])
    ours.load_state_dict(own)


@pytest.mark.parametrize(
    "options", [{}, {"decoder_hidden_size": 16}, {"decoder_out_embed_dim": 9}, {"encoder_bidirectional": False}]
)
def test_same_function_and_gradients(options):
    torch.manual_seed(3)
    task = fake_task()
    stock = build("lstm", task, **options).double()
    ours = build("lstm_soft", task, **options).double()
    copy_from_stock(ours, stock)
    source = pad_batch([6, 6, 4, 2], "left")  # stock wants sources sorted by length
    target = pad_batch([5, 3, 5, 4], "right", symbols=15, seed=1)
    lengths = source.ne(1).sum(1)

    theirs, _ = stock(source, lengths, target)
    logits, extra = ours(source, lengths, target)
    torch.testing.assert_close(logits, theirs, rtol=1e-10, atol=1e-12)

    weight = torch.randn_like(theirs)
    (theirs * weight).sum().backward()
    (logits * weight).sum().backward()
    torch.testing.assert_close(ours.encoder.embed_tokens.weight.grad, stock.encoder.embed_tokens.weight.grad)
    torch.testing.assert_close(ours.encoder.lstm.weight_hh_l0.grad, stock.encoder.lstm.weight_hh_l0.grad)
    torch.testing.assert_close(ours.decoder.embed_tokens.weight.grad, stock.decoder.embed_tokens.weight.grad)
    torch.testing.assert_close(ours.decoder.lstm.weight_ih_l0.grad, stock.decoder.layers[0].weight_ih.grad)
    torch.testing.assert_close(ours.decoder.lstm.weight_hh_l1.grad, stock.decoder.layers[1].weight_hh.grad)
    torch.testing.assert_close(ours.decoder.lstm.bias_ih_l1.grad, stock.decoder.layers[1].bias_ih.grad)
    torch.testing.assert_close(
        ours.decoder.attention.score.projection.weight.grad.t(), stock.decoder.attention.input_proj.weight.grad
    )
    torch.testing.assert_close(
        ours.decoder.output_projection.weight.grad, stock.decoder.attention.output_proj.weight.grad
    )


def test_same_number_of_parameters():
    stock, soft = build("lstm"), build("lstm_soft", output_layer="tanh", attention_score_gain=False)
    assert sum(p.numel() for p in stock.parameters()) == sum(p.numel() for p in soft.parameters())
