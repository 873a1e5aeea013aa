"""``--forget-bias``: what the forget gates of a new model start with."""

import math

import pytest
import torch
from models_for_tests import build
from test_init_dropout import check_training

from fairseq_attn_plugin.errors import OptionError


@pytest.mark.parametrize("arch", ["attn_lstm", "lstm_latent_small"])
def test_both_biases_of_torch_sum_to_the_value(arch):
    models = []
    for value in (None, 1.0):
        torch.manual_seed(1)
        models.append(build(arch, forget_bias=value))
    drawn, model = models
    theirs = dict(drawn.named_parameters())
    for lstm in (model.encoder.lstm, model.decoder.lstm):
        for name, bias in lstm.named_parameters():
            if name.startswith("bias_ih"):
                both = (bias + getattr(lstm, name.replace("_ih_", "_hh_"))).chunk(4)
                assert torch.equal(both[1], torch.ones_like(both[1])), "forget is the second of torch's four gates"
                assert all((other.abs() < 0.2).all() for other in (both[0], *both[2:]))
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, theirs[name])}
    layers = {"encoder.lstm": ("l0", "l0_reverse", "l1", "l1_reverse"), "decoder.lstm": ("l0", "l1")}
    biases = {f"{lstm}.bias_{kind}_{name}" for lstm in layers for name in layers[lstm] for kind in ("ih", "hh")}
    assert changed == biases, "everything else is drawn as without the option"


def test_cells_remember():
    """A cell with a bias of 20 and no input keeps its state."""
    lstm = build("attn_lstm", forget_bias=20.0, decoder_layers=1).decoder.lstm
    hidden, cell = torch.zeros(1, 1, 14), torch.full((1, 1, 14), 5.0)
    _, (_, after) = lstm(torch.zeros(1, 1, lstm.input_size), (hidden, cell))
    torch.testing.assert_close(after, cell, rtol=0, atol=0.1)


def test_a_bias_that_is_no_number():
    with pytest.raises(OptionError, match="^--forget-bias nan: must be a number, as in --forget-bias 1$"):
        build("attn_lstm", forget_bias=math.nan)


def test_a_model_without_forget_gates():
    with pytest.raises(OptionError, match="^--forget-bias 2.0: has no effect without an LSTM; leave one of them out$"):
        check_training("lstm_adm", rnn="gru", forget_bias=2.0)
    check_training("lstm_adm", rnn="gru")  # the architecture's own does not need to be turned off
    check_training("lstm_adm", encoder_rnn="gru", forget_bias=2.0)
    build("lstm_adm", rnn="gru")
