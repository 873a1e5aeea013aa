"""Scores, normalisers and biases: their names, their options, and the parameters of earlier checkpoints."""

import pytest
import torch

from fairseq_attn_plugin.attention import BIASES, NORMALIZERS, PARTS, SCORES, build_attention
from fairseq_attn_plugin.errors import OptionError

# Parameters of all biases, one module with these names, before each had a file of its own.
EARLIER = {
    "position_vector": (3,),
    "fertility_vector": (3,),
    "position.weight": (3, 3),
    "position.bias": (3,),
    "markov.weight": (1, 5),
    "fertility.weight": (3, 5),
    "fertility.bias": (3,),
    "predicted.weight": (2, 4),
    "predicted.bias": (2,),
}


def biased(bias="position,markov,fertility"):
    return build_attention("soft", query_dim=4, memory_dim=4, bias=bias, bias_window=2, bias_dim=3)


def test_parameters_of_earlier_checkpoints_are_found():
    module = biased()
    values = {f"biases.{name}": torch.randn(shape) for name, shape in EARLIER.items()}
    module.load_state_dict({**values, "score.projection.weight": torch.randn(4, 4)})
    biases = module.biases
    torch.testing.assert_close(biases.position.vector, values["biases.position_vector"])
    torch.testing.assert_close(biases.fertility.projection.bias, values["biases.fertility.bias"])
    torch.testing.assert_close(biases.markov.projection.weight, values["biases.markov.weight"])
    torch.testing.assert_close(biases.fertility.predicted.weight, values["biases.predicted.weight"])
    assert biases.reordered and not biased().biases.reordered
    assert sum(p.numel() for p in biases.parameters()) == sum(value.numel() for value in values.values())


def test_a_bias_that_is_missing_in_an_earlier_checkpoint_is_named():
    with pytest.raises(RuntimeError, match="biases.markov.projection.weight"):
        biased("markov").load_state_dict({"score.projection.weight": torch.randn(4, 4)})


def test_options_may_be_named_in_full_or_without_attention():
    for name in ("attention_bias_dim", "bias_dim"):
        module = build_attention("mqt", query_dim=4, memory_dim=4, bias="position", nodes=5, **{name: 7})
        assert module.biases.position.vector.shape == (7,) and module.config.nodes == 5
    with pytest.raises(OptionError, match="attention soft has no option 'bias_with'; it has attention_bias, "):
        build_attention("soft", query_dim=4, memory_dim=4, bias_with=7)


def test_unknown_names_are_named_with_what_there_is():
    assert [parts.option for _, parts in PARTS] == ["--attention-score", "--attention-normalizer", "--attention-bias"]
    for parts in (SCORES, NORMALIZERS, BIASES):
        with pytest.raises(OptionError, match=f"^{parts.option} x: .*choose from {', '.join(parts.names())}, or give"):
            parts.find("x")


@pytest.mark.parametrize("name", ["has space", "a,b", "train", "1st", ""])
def test_names_that_are_none(name):
    for parts in (SCORES, NORMALIZERS, BIASES):
        with pytest.raises(ValueError, match="is no name for a"):
            parts.register(name)(parts.find(parts.names()[0]))
        assert name not in parts.names()
