"""Attributions of forced translations against their formulas, one sentence and one word at a time."""

from itertools import islice

import numpy as np
import pytest
import torch
from test_extract import ARCHITECTURES, alone, loaded_of

from fairseq_attn_plugin.analysis.inference.attributions import (
    NOISE,
    SAMPLES,
    SEED,
    erased,
    gradient,
    leave_one_out,
    saliency,
    source_units,
)
from fairseq_attn_plugin.analysis.inference.batches import targeted_blocks
from fairseq_attn_plugin.analysis.inference.extraction import extract
from fairseq_attn_plugin.analysis.inference.forcing import embedded
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, SplitSentences
from fairseq_attn_plugin.errors import OptionError

EVERY = pytest.mark.parametrize(("arch", "options"), ARCHITECTURES, ids=[arch for arch, _ in ARCHITECTURES])


def sentence_of(loaded, source, target, number=0):
    """A sentence of the given words, counted from 0, with its end."""
    ends = [task.eos() for task in (loaded.task.source_dictionary, loaded.task.target_dictionary)]
    sides = [torch.tensor([4 + word for word in words] + [end]) for words, end in zip((source, target), ends)]
    symbols = [loaded.task.source_dictionary[index] for index in sides[0][:-1]]
    return SourceSentence(number, sides[0], sides[1], symbols, None)


def score(loaded, source, target):
    """Oracle: log p of the target words, [T], of the mean of the models."""
    parts = [alone(model, source, target)[0] for model in loaded.models]
    return torch.stack(parts).exp().mean(0).log()


@EVERY
def test_leave_one_out_is_one_forward_pass_for_each_word(tiny_data, arch, options):
    loaded = loaded_of(tiny_data, arch, **options)
    sentences = list(islice(SplitSentences(loaded, "test")(0), 4))
    for one, result in zip(sentences, leave_one_out(loaded, sentences, 60)):
        words, whole = one.source.tolist(), score(loaded, one.source, one.target)
        for place in range(len(words)):
            other = score(loaded, torch.tensor(words[:place] + words[place + 1 :]), one.target)
            np.testing.assert_allclose(result[:, place], whole - other, atol=2e-4, err_msg=f"{place}")


def test_the_subwords_of_a_word_are_erased_together(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    one = sentence_of(loaded, [0, 1, 2, 3], [5, 6])._replace(source_tokens=["a@@", "b@@", "c", "d"])
    loaded.task.source_dictionary.symbols.append("x@@")  # by which the vocabulary is one of subwords
    try:
        assert source_units(loaded, one) == [[0, 1, 2], [3], [4]]
        (values,) = leave_one_out(loaded, [one])
    finally:
        loaded.task.source_dictionary.symbols.pop()
    expected = score(loaded, one.source, one.target) - score(loaded, one.source[3:], one.target)
    np.testing.assert_allclose(values[:, :3].sum(1), expected, atol=1e-4)
    np.testing.assert_array_equal(values[:, 0], values[:, 2])


def test_no_source_becomes_empty(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    source, unk = torch.tensor([7, 8]), loaded.task.source_dictionary.unk()
    assert erased(loaded, source, [0, 1]).tolist() == [unk]
    assert erased(loaded, source, [1]).tolist() == [7]


def by_table(model, one):
    """Oracle of gradient times input: the derivatives of the table of embeddings, where no word occurs twice."""
    table = model.encoder.embed_tokens.weight
    previous = torch.cat([one.target.new_tensor([2]), one.target[:-1]])
    output = model(one.source[None], torch.tensor([len(one.source)]), previous[None])
    log_probs = model.get_normalized_probs(output, log_probs=True)[0]
    rows = []
    for step, word in enumerate(one.target.tolist()):
        (found,) = torch.autograd.grad(log_probs[step, word], table, retain_graph=True)
        rows.append((found[one.source] * table[one.source]).sum(1))
    return torch.stack(rows).detach().numpy()


@EVERY
def test_gradient_is_that_of_the_table_of_embeddings(tiny_data, arch, options):
    loaded = loaded_of(tiny_data, arch, **options)
    pairs = [([0, 1, 2, 3, 4], [5, 6, 7]), ([3, 1], [2, 2, 4, 1]), ([], [3])]
    sentences = [sentence_of(loaded, *pair, number) for number, pair in enumerate(pairs)]
    for one, result in zip(sentences, gradient(loaded, sentences, max_tokens=40)):
        expected = by_table(loaded.models[0], one)
        assert result.shape == (len(one.target), len(one.source))
        np.testing.assert_allclose(result, expected, atol=1e-4 * max(1, np.abs(expected).max()))
    assert all(parameter.requires_grad for parameter in loaded.models[0].parameters())


def differences(loaded, one, place, by=0.02):
    """Oracle: central differences of f_t when the embedding of one position is scaled."""
    values = []
    for factor in (1 + by, 1 - by):

        def change(embeddings, words, factor=factor):
            scale = torch.ones(embeddings.size(1), 1, dtype=embeddings.dtype)
            scale[place] = factor
            return embeddings * scale

        for model in loaded.models:
            with embedded(model, change):
                values.append(alone(model, one.source, one.target)[0])
    count = len(loaded.models)
    above, below = (torch.stack(part).exp().mean(0).log() for part in (values[:count], values[count:]))
    return ((above - below) / (2 * by)).numpy()


@pytest.mark.parametrize("count", [1, 2], ids=["one model", "two models"])
def test_gradient_is_the_limit_of_differences(tiny_data, count):
    loaded = loaded_of(tiny_data, "lstm_soft", count, encoder_embed_dim=12)
    for model in loaded.models:
        model.encoder.embed_tokens = model.decoder.embed_tokens
        model.encoder.embed_tokens.weight.data *= 5
    one = sentence_of(loaded, [0, 1, 0, 3], [5, 1, 7])
    (found,) = gradient(loaded, [one])
    for place in range(len(one.source)):
        expected = differences(loaded, one, place)
        np.testing.assert_allclose(found[:, place], expected, rtol=0.02, atol=1e-4)
        assert np.abs(expected).max() > 1e-3


def test_saliency(tiny_data, monkeypatch):
    """The mean over noise of gradients times the embeddings without noise."""
    loaded = loaded_of(tiny_data, "lstm_soft")
    one = sentence_of(loaded, [0, 1, 2], [5, 6])
    end = one._replace(id=7, target=one.target[-1:])
    (found,) = saliency(loaded, [end])
    table = loaded.models[0].encoder.embed_tokens.weight
    original, rows = table.data.clone(), []
    embeddings = original[one.source]
    for number in range(SAMPLES):
        drawn = np.random.default_rng((SEED, 7, number)).standard_normal(tuple(embeddings.shape), dtype=np.float32)
        table.data = original.clone()
        table.data[one.source] += NOISE * (embeddings.max() - embeddings.min()) * torch.from_numpy(drawn)
        output = loaded.models[0](end.source[None], torch.tensor([len(end.source)]), torch.tensor([[2]]))
        log_probs = loaded.models[0].get_normalized_probs(output, log_probs=True)
        (gradients,) = torch.autograd.grad(log_probs[0, 0, end.target[0]], table)
        rows.append((gradients[one.source] * embeddings).sum(1))
    np.testing.assert_allclose(found[0], torch.stack(rows).mean(0).numpy(), atol=1e-4)
    table.data = original
    monkeypatch.setattr("fairseq_attn_plugin.analysis.inference.attributions.NOISE", 0.0)
    (still,), (plain,) = saliency(loaded, [one]), gradient(loaded, [one])
    np.testing.assert_allclose(still, plain, atol=1e-5)


def test_translations_longer_than_a_model_allows_are_left_out(tiny_data, monkeypatch):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus = SplitSentences(loaded, "test", references=False)
    (whole,) = targeted_blocks(loaded, corpus, 40, beam=2)
    longest = max(len(one.target) for one in whole)
    monkeypatch.setattr(type(loaded), "limits", (1e5, longest - 1))
    (ready,) = targeted_blocks(loaded, corpus, 40, beam=2)
    assert [one.id for one in ready] == [one.id for one in whole if len(one.target) < longest]
    assert [one.id for one in ready] == [one.id for one in extract(loaded, lambda start: iter(ready))]


def test_a_model_without_a_table_of_embeddings(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    loaded.models[0].encoder.embed_tokens = None
    with pytest.raises(OptionError, match="source embeddings of a LstmSoft cannot be reached"):
        gradient(loaded, [sentence_of(loaded, [0], [5])])
