"""The encoder with packed layers against that without."""

import pytest
import torch
from models_for_tests import pad_batch
from test_stepper import make

from fairseq_attn_plugin.modules.encoders import encoder as encoders
from fairseq_attn_plugin.ops.packed import FixedWeights
from fairseq_attn_plugin.ops.precision import with_fixed


@torch.no_grad()
def packed(encoder, tokens):
    with with_fixed(FixedWeights(encoder.parameters())):
        return encoder(tokens)


DEEP = {"encoder_layers": 3, "encoder_bidirectional": False, "encoder_hidden_size": 5}


@pytest.mark.parametrize("options", [{}, {"encoder_layers": 1}, DEEP, {"rnn": "gru"}, {"rnn": "gru", **DEEP}], ids=str)
@pytest.mark.parametrize(
    ("lengths", "side"), [([3, 6, 1, 4], "left"), ([3, 6, 0, 4], "right"), ([5, 5], "left"), ([1], "left")], ids=str
)
@pytest.mark.parametrize("fused", [True, False])
def test_same_encodings_and_states(options, lengths, side, fused, monkeypatch):
    if not fused:  # as a torch without oneDNN's layers

        def missing(*parts):
            raise AttributeError

        monkeypatch.setattr(encoders, "packed_lstm", missing)
    encoder, tokens = make(**options).encoder, pad_batch(lengths, side)
    with torch.no_grad():
        expected, found = encoder(tokens), packed(encoder, tokens)
    for one in (expected, found):
        none = [name for name, value in one.items() if value is None]
        assert ("cell" in none) == (encoder.kind == "gru")
        for name in none:
            del one[name]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
