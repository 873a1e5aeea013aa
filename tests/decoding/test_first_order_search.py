"""Beam search over models with first-order alignments: the forward variable is part of the state of a hypothesis."""

import pytest
import torch
from models_for_tests import build
from test_search import assert_forced_scores, assert_same, both, sharpened

ARCH = "lstm_latent_first_order_small"


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("feeding", ["context", "none"])
def test_search_is_fairseqs_and_its_scores_are_forced_scores(monotonic, feeding):
    """The forward variable follows its hypothesis, through finished sentences too."""
    model = sharpened(build(ARCH, jump_monotonic=monotonic, input_feeding=feeding).double().eval())
    model.decoder.jumps.data = torch.linspace(-2, 2, 11, dtype=torch.float64)
    found, expected = both([model], beam=4, max_len_b=6)
    assert_same(found, expected)
    assert_forced_scores(model, found, rtol=1e-4, atol=1e-5, check_dtype=False)
