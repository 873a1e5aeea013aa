"""``--embed-init-range``: how large the embeddings of a new model are."""

import math

import pytest
import torch
from models_for_tests import build

from fairseq_attn_plugin.errors import OptionError


@pytest.mark.parametrize("arch", ["attn_lstm", "lstm_latent_small"])
def test_new_embeddings_alone_are_larger(arch):
    models = []
    for bound in (0.1, 1.0):
        torch.manual_seed(1)
        models.append(build(arch, embed_init_range=bound))
    small, large = models
    for name, value in large.named_parameters():
        ratio = 10 if name.endswith("embed_tokens.weight") else 1
        torch.testing.assert_close(value, ratio * small.get_parameter(name), msg=name)
    for part in (large.encoder, large.decoder):
        weight = part.embed_tokens.weight
        assert 0.9 < weight.abs().max() <= 1
        assert (weight[part.embed_tokens.padding_idx] == 0).all()


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_that_is_none(bound):
    with pytest.raises(OptionError, match="^--embed-init-range .*: must be more than 0, as in --embed-init-range 1$"):
        build("attn_lstm", embed_init_range=bound)


@pytest.mark.parametrize(("bound", "own", "common"), [(0.1, 0.018, 0.114), (1.0, 0.112, 0.121)])
def test_how_much_words_change_new_encodings(bound, own, common):
    """The figures of docs/results/start.md: root mean squares over sentences of one length."""
    torch.manual_seed(1)
    sizes = dict.fromkeys(("encoder_embed_dim", "encoder_hidden_size", "decoder_embed_dim", "decoder_hidden_size"), 256)
    model = build("lstm_soft", embed_init_range=bound, **sizes).eval()
    tokens = torch.randint(4, 14, (64, 15))
    tokens[:, -1] = 2
    with torch.no_grad():
        encodings = model.encoder(tokens, src_lengths=torch.full((64,), 15))["encodings"]
    mean = encodings.mean(0, keepdim=True)
    found = [part.square().mean().sqrt().item() for part in (encodings - mean, mean)]
    assert found == pytest.approx([own, common], abs=2e-3)
