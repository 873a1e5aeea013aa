"""Attributions of forced translations against their formulas, one sentence and one word at a time."""

import numpy as np
import pytest
import torch
from test_extract import ARCHITECTURES, alone, loaded_of

from fairseq_attn_plugin.analysis.inference.attributions import METHODS, Attributing, attribute, attributions
from fairseq_attn_plugin.analysis.inference.erasure import erased, source_units
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.forcing import embedded, forced_blocks
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
    unk = loaded.task.source_dictionary.unk()
    sentences = [one for _, one in zip(range(4), SplitSentences(loaded, "test")(0))]
    for how in ("remove", "unk"):
        found = attribute(loaded, sentences, ["leave-one-out"], Attributing(erase=how, max_tokens=60))
        for one, result in zip(sentences, found):
            words, whole = one.source.tolist(), score(loaded, one.source, one.target)
            np.testing.assert_allclose(result.scores, whole, atol=1e-4)
            for place in range(len(words)):
                left = words[:place] + ([unk] if how == "unk" else []) + words[place + 1 :]
                other = score(loaded, torch.tensor(left), one.target)
                np.testing.assert_allclose(
                    result.values["leave-one-out"][:, place], whole - other, atol=2e-4, err_msg=f"{how} {place}"
                )


def test_the_subwords_of_a_word_are_erased_together(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    one = sentence_of(loaded, [0, 1, 2, 3], [5, 6])._replace(source_tokens=["a@@", "b@@", "c", "d"])
    loaded.task.source_dictionary.symbols.append("x@@")  # by which the vocabulary is one of subwords
    try:
        assert source_units(loaded, one) == [[0, 1, 2], [3], [4]]
        assert source_units(loaded, one, "subword") == [[0], [1], [2], [3], [4]]
        (found,) = attribute(loaded, [one], ["leave-one-out"])
    finally:
        loaded.task.source_dictionary.symbols.pop()
    expected = score(loaded, one.source, one.target) - score(loaded, one.source[3:], one.target)
    values = found.values["leave-one-out"]
    np.testing.assert_allclose(values[:, :3].sum(1), expected, atol=1e-4)
    np.testing.assert_array_equal(values[:, 0], values[:, 2])


def test_no_source_becomes_empty(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    source, unk = torch.tensor([7, 8]), loaded.task.source_dictionary.unk()
    assert erased(loaded, source, [0, 1]).tolist() == [unk]
    assert erased(loaded, source, [0, 1], "unk").tolist() == [unk, unk]
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
    found = attribute(loaded, sentences, ["gradient"], Attributing(max_tokens=40))
    for one, result in zip(sentences, found):
        expected = by_table(loaded.models[0], one)
        assert result.values["gradient"].shape == (len(one.target), len(one.source))
        np.testing.assert_allclose(result.values["gradient"], expected, atol=1e-4 * max(1, np.abs(expected).max()))
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
    (found,) = attribute(loaded, [one], ["gradient"])
    for place in range(len(one.source)):
        expected = differences(loaded, one, place)
        np.testing.assert_allclose(found.values["gradient"][:, place], expected, rtol=0.02, atol=1e-4)
        assert np.abs(expected).max() > 1e-3


@EVERY
def test_integrated_gradients_are_complete(tiny_data, arch, options):
    loaded = loaded_of(tiny_data, arch, **options)
    for parameter in loaded.models[0].parameters():  # so steep a transformer would need thousands of steps
        parameter.data.div_(3 if arch == "transformer" else 1)
    one = sentence_of(loaded, [0, 1, 2, 3], [5, 6, 7])
    (found,) = attribute(loaded, [one], ["integrated-gradients"], Attributing(steps=200))
    whole = score(loaded, one.source, one.target)
    with embedded(loaded.models[0], lambda embeddings, words: 0 * embeddings):
        nothing = score(loaded, one.source, one.target)
    np.testing.assert_allclose(found.values["integrated-gradients"].sum(1), whole - nothing, atol=2e-3)


def test_integrated_gradients_are_the_mean_of_gradients_on_the_path(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_adm")
    one = sentence_of(loaded, [0, 1, 2, 3], [5, 6, 7])
    (found,) = attribute(loaded, [one], ["integrated-gradients"], Attributing(steps=40))
    table = loaded.models[0].encoder.embed_tokens.weight
    original, total = table.data.clone(), 0.0
    for place in range(200):  # the midpoint rule; gradient times input of the scaled table has one factor too many
        table.data = original * (place + 0.5) / 200
        total = total + by_table(loaded.models[0], one) * 200 / (place + 0.5) / 200
    np.testing.assert_allclose(found.values["integrated-gradients"], total, atol=2e-3)


def test_smoothgrad(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    one = sentence_of(loaded, [0, 1, 2], [5, 6])
    still = Attributing(noise=0.0, samples=2)
    (found,) = attribute(loaded, [one], ["gradient", "smoothgrad"], still)
    np.testing.assert_allclose(found.values["smoothgrad"], np.abs(found.values["gradient"]), rtol=1e-5)
    (plain,) = attribute(loaded, [one], ["smoothgrad"], still._replace(absolute=False))
    np.testing.assert_allclose(plain.values["smoothgrad"], found.values["gradient"], rtol=1e-5)

    end = one._replace(id=7, target=one.target[-1:])
    (found,) = attribute(loaded, [end], ["smoothgrad"], Attributing(samples=2, noise=0.3, absolute=False, seed=5))
    table = loaded.models[0].encoder.embed_tokens.weight
    original, rows = table.data.clone(), []
    embeddings = original[one.source]
    for number in range(2):
        drawn = np.random.default_rng((5, 7, number)).standard_normal(tuple(embeddings.shape), dtype=np.float32)
        noise = torch.from_numpy(drawn)
        table.data = original.clone()
        table.data[one.source] += 0.3 * (embeddings.max() - embeddings.min()) * noise
        moved = table.data[one.source]
        (gradients,) = torch.autograd.grad(_log_prob(loaded.models[0], end), table)
        assert not torch.equal(moved, embeddings)
        rows.append((gradients[one.source] * embeddings).sum(1))
    np.testing.assert_allclose(found.values["smoothgrad"][0], torch.stack(rows).mean(0).numpy(), atol=1e-4)


def _log_prob(model, one):
    output = model(one.source[None], torch.tensor([len(one.source)]), torch.tensor([[2]]))
    return model.get_normalized_probs(output, log_probs=True)[0, 0, one.target[0]]


def test_streams_in_the_order_of_the_corpus(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus = SplitSentences(loaded, "test")
    found = list(attributions(loaded, corpus, list(METHODS), Attributing(steps=2, samples=2), block=7))
    assert [one.id for one, _ in found] == list(range(40))
    one, result = found[9]
    for name, options in (
        ("leave-one-out", {}),
        ("gradient", {}),
        ("integrated-gradients", {"steps": 2}),
        ("smoothgrad", {"samples": 2}),
    ):
        (by_itself,) = attribute(loaded, [one], [name], Attributing(**options))
        np.testing.assert_allclose(result.values[name], by_itself.values[name], atol=1e-4)
    late = next(attributions(loaded, corpus, ["gradient"], start=9))
    np.testing.assert_allclose(late[1].values["gradient"], result.values["gradient"], atol=1e-4)


def test_attributes_the_own_translation(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus, extraction = SplitSentences(loaded, "test", references=False), Extraction(beam=2)
    for record, (one, found) in zip(
        extract(loaded, corpus, extraction), attributions(loaded, corpus, ["gradient"], extraction=extraction, block=9)
    ):
        assert len(one.target) == len(record.scores)
        np.testing.assert_allclose(found.scores, record.scores, atol=1e-4)


def test_translations_longer_than_a_model_allows_are_left_out(tiny_data, monkeypatch):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus, extraction = SplitSentences(loaded, "test", references=False), Extraction(beam=2)
    (whole,) = forced_blocks(loaded, corpus, extraction)
    longest = max(len(one.target) for one in whole)
    monkeypatch.setattr(type(loaded), "limits", (1e5, longest - 1))
    (ready,) = forced_blocks(loaded, corpus, extraction)
    assert [one.id for one in ready] == [one.id for one in whole if len(one.target) < longest]
    assert [one.id for one in ready] == [one.id for one in extract(loaded, lambda start: iter(ready))]


def test_users_mistakes(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus = SplitSentences(loaded, "test")
    for method, options, message in (
        ("saliency", {}, "--attribution saliency: must be one of leave-one-out, gradient"),
        ("gradient", {"erase": "drop"}, "--erase drop: must be remove or unk"),
        ("gradient", {"unit": "letter"}, "--unit letter: must be word or subword"),
        ("gradient", {"steps": 0}, "--steps 0: must be at least 1"),
        ("gradient", {"seed": -1}, "--seed -1: must be 0 or more"),
        ("gradient", {"noise": -1.0}, "--noise -1.0: must be 0 or more"),
    ):
        with pytest.raises(OptionError, match=message):
            next(attributions(loaded, corpus, [method], Attributing(**options)))
    model = loaded.models[0]
    model.encoder.embed_tokens = None
    unreached = pytest.raises(OptionError, match="source embeddings of a LstmSoft cannot be reached")
    with unreached, embedded(model, lambda embeddings, words: embeddings):
        pass
