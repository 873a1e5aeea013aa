"""The check of encoders accepts those of this package and of fairseq, and names the rule that a wrong one breaks."""

import pytest
import torch
from models_for_tests import dictionary
from torch import nn

from fairseq_attn_plugin.modules.encoders.encoder import LSTMEncoder
from fairseq_attn_plugin.testing import check_encoder


@pytest.fixture
def parts():
    words = dictionary()
    return words, nn.Embedding(len(words), 8, words.pad())


@pytest.mark.parametrize("rnn", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_our_encoders(parts, rnn, bidirectional):
    encoder = LSTMEncoder(*parts, 6, num_layers=2, bidirectional=bidirectional, rnn=rnn)
    check_encoder(encoder)
    assert encoder.training


def broken(change):
    """An encoder whose result is changed; the function gets the result and the words."""

    class Broken(LSTMEncoder):
        def forward(self, src_tokens, **options):
            out = super().forward(src_tokens, **options)
            return {**out, **change(out, src_tokens)}

    return Broken


def shifted(out, tokens):
    """As stock fairseq's: left padding is moved to the right, and stays there."""
    moved = [torch.cat([row[row.abs().sum(1) > 0], row[row.abs().sum(1) == 0]]) for row in out["encodings"]]
    return {"encodings": torch.stack(moved)}


class Nameless(LSTMEncoder):
    def forward(self, src_tokens, **options):
        out = super().forward(src_tokens, **options)
        return {name: value for name, value in out.items() if name != "tokens"}


class PerRow(LSTMEncoder):
    def reorder_encoder_out(self, encoder_out, new_order):
        return {name: None if one is None else one.index_select(0, new_order) for name, one in encoder_out.items()}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (broken(shifted), "encodings must be exactly zero on padding"),
        (
            broken(lambda out, tokens: {"encodings": out["encodings"] * len(tokens)}),
            "encodings must not depend on padding and on other sentences",
        ),
        (
            broken(lambda out, tokens: {"hidden": torch.cat([out["hidden"], out["hidden"]], -1)}),
            r"hidden must be of shape \(4, 1, 6\), is of \(4, 1, 12\)",
        ),
        (Nameless, "the result must have .*, tokens; has"),
        (PerRow, "reorder_encoder_out must keep one entry per sentence"),
        (
            broken(lambda out, tokens: {"encodings": out["encodings"].detach().requires_grad_()}),
            "gradients must reach the embeddings",
        ),
    ],
)
def test_a_wrong_encoder_is_found(parts, wrong, rule):
    with pytest.raises(AssertionError, match=rule):
        check_encoder(wrong(*parts, 6))


def test_one_vector_for_a_sentence_is_not_enough(parts):
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.dictionary, self.embed_tokens = parts

        def forward(self, src_tokens, src_lengths):
            return {"encoder_out": self.embed_tokens(src_tokens).mean(1)}

    with pytest.raises(ValueError, match="not a vector for every source position"):
        check_encoder(Bag())
