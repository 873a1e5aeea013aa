"""Gradients of models in evaluation on a GPU, for which cuDNN has no backward pass: those of the processor."""

from itertools import islice

import pytest
import torch
from test_document_classification import data, trained  # noqa: F401  (fixtures)
from test_extract import STOCK_LSTM, loaded_of

from fairseq_attn_plugin.analysis.inference.classification import load_classifier
from fairseq_attn_plugin.analysis.inference.faithfulness import word_gradients
from fairseq_attn_plugin.analysis.inference.forcing import gradients_times_input
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences

if not torch.cuda.is_available():
    pytest.skip("NO GPU: torch.cuda.is_available() is False", allow_module_level=True)


@pytest.fixture(autouse=True)
def full_float32():
    """No TensorFloat-32, which torch allows cuDNN by default."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize(("arch", "options"), [("lstm_soft", {}), ("lstm", STOCK_LSTM)], ids=["lstm_soft", "lstm"])
def test_of_source_words(arch, options, tiny_data):
    found = []
    for device in ("cuda", "cpu"):
        loaded = loaded_of(tiny_data, arch, **options)
        loaded.models[0].to(device)
        sentences = list(islice(SplitSentences(loaded, "test")(0), 4))
        found.append([one.numpy() for one in gradients_times_input(loaded, sentences)])
    for ours, expected in zip(*found):
        assert ours == pytest.approx(expected, rel=0, abs=1e-3 * float(abs(expected).max()))


def test_of_document_words(data, trained):  # noqa: F811
    found = []
    for cpu in (False, True):
        classifier = load_classifier(str(data), trained.path, cpu=cpu)
        eos = classifier.task.source_dictionary.eos()
        found.append(word_gradients(classifier, torch.tensor([5, 6, 7, eos, 8, 9, eos]), 1))
    ours, expected = found
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3 * float(expected.abs().max()))
