"""--bf16 on the command line is for a GPU where there is one."""

import pytest
import torch
from fairseq import options


def tpu(*words):
    words = ["data", "--arch", "lstm_soft", "--optimizer", "adam", *words]
    return options.parse_args_and_arch(options.get_training_parser(), words).tpu


@pytest.mark.parametrize("option", ["--bf16", "--memory-efficient-bf16"])
def test_with_a_gpu(option, monkeypatch):
    assert tpu(option)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not tpu(option)
    assert tpu(option, "--tpu") and tpu(option, "--cpu")
    assert not tpu()
