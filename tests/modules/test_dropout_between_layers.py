"""Recurrent layers with dropout between them, as a GPU computes them."""

import pytest
import torch

from fairseq_attn_plugin.modules import rnn


@pytest.mark.parametrize("kind", rnn.KINDS)
def test_dropout_between_layers_on_a_gpu(kind, monkeypatch):
    """It is that of this package: cuDNN's has a state whose memory a CUDA graph would read after it is freed."""
    torch.manual_seed(1)
    layers = rnn.KINDS[kind](5, 7, 3, dropout=0.4, batch_first=True).double()
    x, states = torch.randn(4, 6, 5).double(), tuple(torch.randn(3, 4, 7).double() for _ in rnn.STATES[kind])
    expected = rnn.run(x, layers.eval(), states, False)
    drawn = []
    monkeypatch.setattr(rnn, "on_gpu", lambda x: True)
    monkeypatch.setattr(rnn, "dropout", lambda x, *options: drawn.append(options) or x)
    torch.testing.assert_close(rnn.run(x, layers.train(), states, True), expected)
    assert drawn == [(0.4, True)] * 2
