"""Beam search over models with first-order alignments: the forward variable is part of the state of a hypothesis."""

import pytest
import torch
from models_for_tests import build
from test_search import assert_same, both, sharpened
from test_search import sample as to_translate

ARCH, PAD = "lstm_latent_first_order_small", 1


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("feeding", ["context", "none"])
def test_search_is_fairseqs_and_its_scores_are_forced_scores(monotonic, feeding):
    """The forward variable follows its hypothesis, through finished sentences too."""
    model = sharpened(build(ARCH, jump_monotonic=monotonic, input_feeding=feeding).double().eval())
    model.decoder.jumps.data = torch.linspace(-2, 2, 11, dtype=torch.float64)
    found, expected = both([model], beam=4, max_len_b=6)
    assert_same(found, expected)
    source = to_translate()["net_input"]["src_tokens"]
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            words = one["tokens"].unsqueeze(0)
            previous = torch.cat([words.new_full((1, 1), 2), words[:, :-1]], 1)
            tokens = source[row : row + 1]
            with torch.no_grad():
                log_probs, extra = model(tokens, tokens.ne(PAD).sum(1), previous)
            gold = log_probs.gather(-1, words.unsqueeze(-1))[0, :, 0]
            torch.testing.assert_close(one["positional_scores"].double(), gold, rtol=1e-4, atol=1e-5)
