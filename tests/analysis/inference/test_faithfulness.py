"""Attributions of forced translations, and measures of faithfulness, against their formulas one word at a time."""

import json
import math
from itertools import combinations, islice

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from test_extract import ARCHITECTURES, alone, loaded_of

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference import faithfulness as module
from fairseq_attn_plugin.analysis.inference.attributions import (
    NOISE,
    SAMPLES,
    SEED,
    erased,
    leave_one_out,
    saliency,
    source_units,
)
from fairseq_attn_plugin.analysis.inference.batches import collated, targeted_blocks
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.faithfulness import (
    Means,
    Measuring,
    ask,
    can_reweigh,
    faithfulness,
    jensen_shannon,
    permuted,
    uniform,
    variation,
)
from fairseq_attn_plugin.analysis.inference.forcing import embedded, gradients_times_input
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, SplitSentences
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.source_memory import reweighed

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
    source = torch.tensor([7, 8])  # no source becomes empty
    assert erased(loaded, source, [0, 1]).tolist() == [3] and erased(loaded, source, [1]).tolist() == [7]
    expected = score(loaded, one.source, one.target) - score(loaded, one.source[3:], one.target)
    np.testing.assert_allclose(values[:, :3].sum(1), expected, atol=1e-4)
    np.testing.assert_array_equal(values[:, 0], values[:, 2])


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
    for one, result in zip(sentences, gradients_times_input(loaded, sentences, max_tokens=40)):
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


def test_gradient_of_two_models_is_the_limit_of_differences(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft", 2, encoder_embed_dim=12)
    for model in loaded.models:
        model.encoder.embed_tokens = model.decoder.embed_tokens
        model.encoder.embed_tokens.weight.data *= 5
    one = sentence_of(loaded, [0, 1, 0, 3], [5, 1, 7])
    (found,) = gradients_times_input(loaded, [one])
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
    (still,), (plain,) = saliency(loaded, [one]), gradients_times_input(loaded, [one])
    np.testing.assert_allclose(still, plain, atol=1e-5)


def test_translations_longer_than_a_model_allows_are_left_out(tiny_data, monkeypatch):
    loaded = loaded_of(tiny_data, "lstm_soft")
    corpus = SplitSentences(loaded, "test", references=False)
    (whole,) = targeted_blocks(loaded, corpus, Extraction(beam=2), 40)
    longest = max(len(one.target) for one in whole)
    monkeypatch.setattr(type(loaded), "limits", (1e5, longest - 1))
    (ready,) = targeted_blocks(loaded, corpus, Extraction(beam=2), 40)
    assert [one.id for one in ready] == [one.id for one in whole if len(one.target) < longest]
    assert [one.id for one in ready] == [one.id for one in extract(loaded, lambda start: iter(ready))]


def test_a_model_without_a_table_of_embeddings(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft")
    loaded.models[0].encoder.embed_tokens = None
    with pytest.raises(OptionError, match="source embeddings of a LstmSoft cannot be reached"):
        gradients_times_input(loaded, [sentence_of(loaded, [0], [5])])


def test_distances_of_rows():
    rng = np.random.default_rng(3)
    a, b = rng.random((20, 7)).round(1), rng.random((20, 7)).round(1)
    b[1] = 0.0
    for x, y, value in zip(a, b, jensen_shannon(a, b)):
        if not y.any():
            assert math.isnan(value)
            continue
        p, q = x / x.sum(), y / y.sum()
        m = (p + q) / 2
        expected = sum(w[j] * math.log(w[j] / m[j]) for w in (p, q) for j in range(7) if w[j] > 0) / 2
        assert value == pytest.approx(expected)
        assert float(variation(torch.from_numpy(x), torch.from_numpy(y))) == pytest.approx(np.abs(x - y).sum(-1) / 2)


MODELS = [
    ("lstm_soft", {}),
    ("lstm_soft", {"input_feeding": "none"}),
    ("lstm_soft", {"input_feeding": "context", "output_layer": "linear"}),
    ("lstm_adm_aqt", {}),
    ("attn_lstm", {"attention": "structured", "attention_bias": "markov,fertility"}),
    ("attn_lstm", {"attention": "sigmoid"}),
    ("lstm_latent", {"input_feeding": "context"}),
    ("lstm_latent", {"input_feeding": "context", "latent_prediction": "soft"}),
    ("lstm_posterior", {}),
]
IDS = ["-".join([arch, *options.values()]) for arch, options in MODELS]


def asked_of(loaded):
    sample = collated(loaded, list(islice(SplitSentences(loaded, "test")(0), 6)))
    return *ask(loaded.models[0], sample), sample


@pytest.mark.parametrize(("arch", "options"), MODELS, ids=IDS)
def test_other_weights_of_one_step(tiny_data, arch, options):
    """p(y_t; a) is what a whole forward pass gives in which the attention of step t alone has the weights a."""
    loaded = loaded_of(tiny_data, arch, **options)
    model = loaded.models[0]
    model.decoder.vocabulary[0].data.mul_(50)  # so that predictions depend on the context
    own, predict, sample = asked_of(loaded)
    output = model(**sample["net_input"])
    whole = model.get_normalized_probs(output, log_probs=False, sample=sample).detach()
    torch.testing.assert_close(predict(own), whole, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(own, output[1]["attn"][0].detach())

    other = torch.zeros_like(own)  # far from the model's own: all on the end of the source
    other[:, :, -1] = own.sum(-1)
    found = predict(other)
    encoder_out = model.encoder(sample["net_input"]["src_tokens"])
    for t in (0, 2):
        step = [0]

        def intervene(query, attended, t=t, step=step):
            first, step[0] = step[0], step[0] + query.size(1)
            if not first <= t < step[0]:
                return attended
            weights = attended.weights.clone()
            weights[:, t - first] = other[:, t]
            return reweighed(attended, weights, encoder_out["encodings"])

        model.decoder.intervention = intervene
        try:
            changed = model.decoder(sample["net_input"]["prev_output_tokens"], encoder_out=encoder_out)
        finally:
            model.decoder.intervention = None
        expected = model.get_normalized_probs(changed, log_probs=False, sample=sample).detach()
        torch.testing.assert_close(found[:, t], expected[:, t], atol=1e-4, rtol=1e-3)
        if t:
            torch.testing.assert_close(expected[:, 0], whole[:, 0], atol=1e-4, rtol=1e-3)
            assert variation(expected[:, t], whole[:, t]).max() > 1e-3


def test_first_order_alignments_have_no_other_weights(tiny_data):
    """What predict_with gives of the model's own weights is not its prediction."""
    loaded = loaded_of(tiny_data, "lstm_latent_first_order", input_feeding="context")
    model = loaded.models[0]
    model.decoder.jumps.data.copy_(torch.linspace(-3, 3, len(model.decoder.jumps)))
    model.decoder.vocabulary[0].data.mul_(50)
    own, predict, sample = asked_of(loaded)
    whole = model.get_normalized_probs(model(**sample["net_input"]), log_probs=False, sample=sample).detach()
    assert variation(predict(own), whole).max() > 1e-2
    assert not can_reweigh(model) and can_reweigh(loaded_of(tiny_data, "lstm_soft").models[0])


@pytest.mark.parametrize(("arch", "options"), [MODELS[0], MODELS[5]], ids=[IDS[0], IDS[5]])
def test_weights_that_are_tried(tiny_data, arch, options):
    own, _, sample = asked_of(loaded_of(tiny_data, arch, **options))
    real = sample["net_input"]["src_tokens"].ne(1)
    assert not real.all()
    mixed = permuted(own, real.unsqueeze(1), torch.Generator().manual_seed(1))
    equal = uniform(own, real.unsqueeze(1))
    for row, words in enumerate(real):
        assert not mixed[row][:, ~words].any() and not equal[row][:, ~words].any()
        torch.testing.assert_close(mixed[row][:, words].sort(-1).values, own[row][:, words].sort(-1).values)
        torch.testing.assert_close(equal[row][:, words].sum(-1), own[row].sum(-1))
        assert np.ptp(equal[row][:, words].numpy(), axis=-1).max() == 0
    assert not torch.equal(mixed, own)


def test_all_measures_of_a_corpus(tiny_data, monkeypatch):
    """The means over target words, each by forward passes of its own."""
    monkeypatch.setattr(module, "BLOCK", 2)
    loaded = loaded_of(tiny_data, "lstm_adm")
    loaded.models[0].decoder.vocabulary[0].data.mul_(50)  # so that predictions depend on the source
    sentences = list(islice(SplitSentences(loaded, "test")(0), 5))
    options = Measuring(max_tokens=90, top=(2,), draws=3)
    results = list(faithfulness(loaded, lambda start: iter(sentences), options))
    assert [count for count, _ in results] == [2, 2, 1]
    found, expected, random = results[-1][1], Means(), []
    for one in sentences:
        whole, weights = alone(loaded.models[0], one.source, one.target)
        size = len(one.source)
        left = [torch.cat([one.source[:place], one.source[place + 1 :]]) for place in range(size)]
        losses = np.stack([whole - score(loaded, source, one.target) for source in left], 1)
        for t, row in enumerate(weights.numpy()):
            expected.add("tau leave-one-out", kendalltau(row, np.abs(losses[t])).statistic)
            if size > 2:
                best = sorted(range(size), key=lambda place: -row[place])[:2]
                without = torch.tensor([word for place, word in enumerate(one.source.tolist()) if place not in best])
                for name, source in (("comprehensiveness 2", without), ("sufficiency 2", one.source[sorted(best)])):
                    expected.add(name, float(whole[t].exp() - score(loaded, source, one.target)[t].exp()))
                for kept in combinations(one.source.tolist(), size - 2):
                    random.append(float(whole[t].exp() - score(loaded, torch.tensor(kept), one.target)[t].exp()))
    for name in expected.sums:
        assert found[name] == pytest.approx(expected[name], abs=1e-4), name
        assert found.counts[name] == expected.counts[name]
    assert min(random) <= found["comprehensiveness 2 random"] <= max(random)
    assert found.counts["probability"] == sum(len(one.target) for one in sentences)
    assert found["variation uniform"] > 0 and found.counts["variation permuted"] == 10 * found.counts["probability"]


@pytest.mark.parametrize("name", ["lstm_soft", "transformer"])
def test_command(zoo, tiny_data, tmp_path, capsys, name):
    call = ["faithfulness", str(tiny_data), "--path", str(zoo(name).last), "--sentences", "3", "--cpu"]
    cli.main([*call, "--name", "again", "--out", f"{tmp_path}/a.json"])
    lines = capsys.readouterr().out
    one = json.loads((tmp_path / "a.json").read_text())
    assert one["sentences"] == 3 and one["words"] > 3 and "again" in lines and "comprehensiveness 1 random" in lines
    assert ("variation uniform" in one["measures"]) == (name != "transformer")
    assert ("other weights were not tried" in lines) == (name == "transformer")
