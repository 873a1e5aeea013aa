"""Constrained sparsemax: fertilities that hold over a whole translation."""

import torch

from fairseq_attn_plugin.attention import build_attention


def test_a_table_of_an_older_checkpoint():
    module = build_attention("constrained-sparsemax", query_dim=4, memory_dim=4, fertility=2.5)
    module.load_state_dict({**module.state_dict(), "table": torch.tensor([2.5, 2.0, 1.0])})
    memory = module.precompute(torch.zeros(1, 3, 4), source_tokens=torch.tensor([[1, 0, 2]]))
    assert memory.fertility.tolist() == [[2.0, 2.5, 1.0]] and memory.sink.tolist() == [[False, False, True]]
