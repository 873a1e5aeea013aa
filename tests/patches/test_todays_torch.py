"""Buckets of lengths with numpy 2; ``--bf16`` on the command line."""

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.data.bucket_pad_length_dataset import get_buckets

import fairseq_attn_plugin  # noqa: F401  (installs the patches)

# ---- buckets


LENGTHS = [2, 9, 4, 4, 7, 3, 12, 5, 5, 6, 8, 2]


def test_buckets_are_lower_percentiles():
    sizes = np.array(LENGTHS)
    assert get_buckets(sizes, 3).tolist() == [4, 6, 12]
    assert get_buckets(sizes, 1).tolist() == [12]


def test_a_data_set_with_buckets_has_every_sentence_in_few_shapes():
    dictionary = Dictionary()
    for number in range(20):
        dictionary.add_symbol(f"w{number}")
    sentences = [torch.cat([torch.arange(4, 3 + length), torch.tensor([2])]) for length in LENGTHS]
    sizes = np.array(LENGTHS)
    data = LanguagePairDataset(sentences, sizes, dictionary, sentences, sizes, dictionary, num_buckets=3)
    with data_utils.numpy_seed(1):
        batches = data.batch_by_size(data.ordered_indices(), max_tokens=24)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    shapes = set()
    for batch in batches:
        found = data.collater([data[index] for index in batch])
        shapes.add(found["net_input"]["src_tokens"].size(1))
        assert found["net_input"]["src_lengths"].tolist() == sorted((LENGTHS[i] for i in found["id"]), reverse=True)
    assert shapes <= {4, 6, 12}


# ---- bfloat16


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
