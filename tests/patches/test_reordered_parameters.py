"""The optimizer's state of an earlier version does not meet parameters in another order."""

import pytest
import torch

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.safe_files.checkpoints import _finite


class Trainer:
    def __init__(self, bias):
        self.model = build_attention("soft", query_dim=4, memory_dim=4, bias=bias, bias_dim=3)

    def get_model(self):
        return self.model

    @_finite
    def load_checkpoint(self, filename, reset_optimizer=False):
        self.model.load_state_dict({"biases.position_vector": torch.ones(3)}, strict=False)
        return {}


def test_several_biases_of_an_earlier_version_need_a_new_optimizer():
    with pytest.raises(OptionError, match="checkpoint earlier.pt: was trained with several biases by an earlier"):
        Trainer("position,fertility").load_checkpoint("earlier.pt")
    assert Trainer("position,fertility").load_checkpoint("earlier.pt", True) == {}
    assert Trainer("position").load_checkpoint("earlier.pt") == {}
