"""Attention density matrices over keys, centred or not, and over encodings: widths, parameters, checkpoints."""

import pytest
import torch
from omegaconf import OmegaConf

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.density_matrix import centred
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMConfig
from fairseq_attn_plugin.options import earlier_values
from fairseq_attn_plugin.patches.trained_models import as_written

import oracles

QUERY, MEMORY = 3, 5


def build(name, **options):
    torch.manual_seed(3)
    options = {"nodes": 28, **options} if name == "aqt" else options
    module = build_attention(name, query_dim=QUERY, memory_dim=MEMORY, **options).double()
    for parameter in module.parameters():
        torch.nn.init.uniform_(parameter, -1.0, 1.0)
    return module


@pytest.mark.parametrize("score", ["general", "additive"])
@pytest.mark.parametrize("pairs", ["centred-keys", "encodings", "keys"])
@pytest.mark.parametrize("name", ["mqt", "aqt"])
def test_states_and_encodings_of_different_widths(name, pairs, score):
    module = build(name, pairs=pairs, score=score)
    query, encodings = torch.randn(1, 2, QUERY).double(), torch.randn(1, 6, MEMORY).double()
    weights = module.step(query, module.precompute(encodings)).weights
    torch.testing.assert_close(weights[0], oracles.sequence(name, module, query[0], encodings[0]))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mqt", {"score.projection.weight": (QUERY, MEMORY), "pair_weight": ()}),
        (
            "aqt",
            {
                "score.query_projection.weight": (QUERY, QUERY),
                "score.memory_projection.weight": (QUERY, MEMORY),
                "score.memory_projection.bias": (QUERY,),
                "score.vector": (QUERY,),
                "projection.weight": (QUERY, MEMORY),
                "pair_vector": (QUERY,),
            },
        ),
    ],
)
def test_parameters_of_checkpoints_over_keys(name, shapes):
    for pairs in ("keys", "centred-keys"):
        assert {key: tuple(value.shape) for key, value in build(name, pairs=pairs).state_dict().items()} == shapes


def test_a_checkpoint_without_the_option_is_over_keys():
    assert earlier_values(AttnLSTMConfig) == {
        "adm_pairs": "keys",
        "attention_score_gain": False,
        "decoder_init_dropout": 0.0,
        "embed_init_range": 0.1,
        "output_layer": "tanh",
    }
    assert as_written(OmegaConf.create({"_name": "lstm_adm", "attention": "mqt"})).adm_pairs == "keys"


@pytest.mark.parametrize("name", ["mqt", "aqt"])
def test_what_all_keys_have_in_common_changes_centred_keys_not_at_all(name):
    module = build(name, pairs="centred-keys", score="general")
    query, encodings = torch.randn(2, 3, QUERY).double(), torch.randn(2, 6, MEMORY).double()
    pad_mask = torch.tensor([[False] * 6, [True] * 2 + [False] * 4])
    shifted = encodings + 3 * torch.randn(2, 1, MEMORY).double()
    one, other = (module.step(query, module.precompute(given, pad_mask)).weights for given in (encodings, shifted))
    torch.testing.assert_close(one, other)
    assert not torch.allclose(one, one.mean(-1, keepdim=True))
    paired = module._paired(encodings, pad_mask)
    assert not paired[1, :2].any() and paired.sum(1).abs().max() < 1e-12


def test_centred_keys_in_half_precision_leave_no_range():
    keys = torch.full((1, 200, 2), 600.0, dtype=torch.float16)
    keys[0, ::2] += 8
    assert centred(keys).unique().tolist() == [-4, 4]
