"""--bf16 on the command line is for a GPU where there is one."""

import pytest
import torch
from fairseq import options

import fairseq_attn_plugin  # noqa: F401  (installs the patches)


def tpu(*words):
    words = ["data", "--arch", "lstm", "--optimizer", "adam", *words]
    return options.parse_args_and_arch(options.get_training_parser(), words).tpu


@pytest.mark.parametrize("option", ["--bf16", "--memory-efficient-bf16"])
def test_with_a_gpu(option, monkeypatch):
    assert tpu(option)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not tpu(option)
    assert tpu(option, "--tpu") and tpu(option, "--cpu")
    assert not tpu()


def test_defaults_that_are_suppressed_have_no_precision():
    words = ["data", "--path", "x", "--task", "translation"]
    parsed = options.parse_args_and_arch(options.get_validation_parser(), words, suppress_defaults=True)
    assert not hasattr(parsed, "bf16")
