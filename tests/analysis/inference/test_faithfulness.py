"""fairseq-attn faithfulness: every measure against its formula, one target word at a time."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from test_attributions import score
from test_extract import alone, loaded_of

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.batches import collated
from fairseq_attn_plugin.analysis.inference.faithfulness import (
    Means,
    Measuring,
    ask,
    can_reweigh,
    faithfulness,
    jensen_shannon,
    kendall_tau,
    permuted,
    uniform,
    variation,
)
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.source_memory import reweighed


def test_distances_of_rows():
    rng = np.random.default_rng(3)
    a, b = rng.random((20, 7)).round(1), rng.random((20, 7)).round(1)  # with ties
    a[0], b[1] = 0.5, 0.0
    taus = kendall_tau(a, b)
    assert np.isnan(taus[:2]).all() and not np.isnan(taus[2:]).any()
    np.testing.assert_allclose(taus[2:], [kendalltau(x, y).statistic for x, y in zip(a[2:], b[2:])])
    found = jensen_shannon(a, b)
    for x, y, value in zip(a, b, found):
        if not y.any():
            assert math.isnan(value)
            continue
        p, q = x / x.sum(), y / y.sum()
        m = (p + q) / 2
        expected = sum(w[j] * math.log(w[j] / m[j]) for w in (p, q) for j in range(7) if w[j] > 0) / 2
        assert value == pytest.approx(expected)
        tensors = torch.from_numpy(x), torch.from_numpy(y)
        assert float(variation(*tensors)) == pytest.approx(np.abs(x - y).sum(-1) / 2)
    assert jensen_shannon(np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]]))[0] == pytest.approx(math.log(2))


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


def asked_of(loaded, count=6):
    sentences = [one for _, one in zip(range(count), SplitSentences(loaded, "test")(0))]
    sentences = [one._replace(id=number) for number, one in enumerate(sentences)]
    sample = collated(loaded, sentences)
    return ask(loaded.models[0], sample), sample


@pytest.mark.parametrize(("arch", "options"), MODELS, ids=IDS)
def test_other_weights_of_one_step(tiny_data, arch, options):
    """p(y_t; a) is what a whole forward pass gives in which the attention of step t alone has the weights a."""
    loaded = loaded_of(tiny_data, arch, **options)
    model = loaded.models[0]
    model.decoder.vocabulary[0].data.mul_(50)  # so that predictions depend on the context
    asked, sample = asked_of(loaded)
    output = model(**sample["net_input"])
    whole = model.get_normalized_probs(output, log_probs=False, sample=sample).detach()
    torch.testing.assert_close(asked.probabilities, whole, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(asked.weights, output[1]["attn"][0].detach())

    other = torch.zeros_like(asked.weights)  # far from the model's own: all on the end of the source
    other[:, :, -1] = asked.weights.sum(-1)
    found = asked.with_weights(other)
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
    asked, sample = asked_of(loaded)
    whole = model.get_normalized_probs(model(**sample["net_input"]), log_probs=False, sample=sample).detach()
    assert variation(asked.probabilities, whole).max() > 1e-2
    assert not can_reweigh(model) and can_reweigh(loaded_of(tiny_data, "lstm_soft").models[0])


@pytest.mark.parametrize(("arch", "options"), [MODELS[0], MODELS[5]], ids=[IDS[0], IDS[5]])
def test_weights_that_are_tried(tiny_data, arch, options):
    loaded = loaded_of(tiny_data, arch, **options)
    asked, sample = asked_of(loaded)
    own, real = asked.weights, sample["net_input"]["src_tokens"].ne(1)
    assert not real.all()
    mixed = permuted(asked.weights, asked.real, torch.Generator().manual_seed(1))
    equal = uniform(asked.weights, asked.real)
    for row, words in enumerate(real):
        assert not mixed[row][:, ~words].any() and not equal[row][:, ~words].any()
        torch.testing.assert_close(mixed[row][:, words].sort(-1).values, own[row][:, words].sort(-1).values)
        torch.testing.assert_close(equal[row][:, words].sum(-1), own[row].sum(-1))
        assert np.ptp(equal[row][:, words].numpy(), axis=-1).max() == 0
    assert not torch.equal(mixed, own)


def test_all_measures_of_a_corpus(tiny_data):
    """The means over target words, each by forward passes of its own."""
    loaded = loaded_of(tiny_data, "lstm_adm")
    loaded.models[0].decoder.vocabulary[0].data.mul_(50)  # so that predictions depend on the source
    sentences = [one for _, one in zip(range(5), SplitSentences(loaded, "test")(0))]
    options = Measuring(max_tokens=90, top=(2,), draws=3)
    results = list(faithfulness(loaded, lambda start: iter(sentences), options, block=2))
    assert [count for count, _ in results] == [2, 2, 1]
    found, expected, random = results[-1][1], Means(), []
    for one in sentences:
        whole, weights = alone(loaded.models[0], one.source, one.target)
        size = len(one.source)
        losses = np.zeros((len(one.target), size))
        for place in range(size):
            left = torch.cat([one.source[:place], one.source[place + 1 :]])
            losses[:, place] = whole - score(loaded, left, one.target)
        for t, row in enumerate(weights.numpy()):
            expected.add("tau leave-one-out", kendalltau(row, np.abs(losses[t])).statistic)
            if size > 2:
                best = sorted(range(size), key=lambda place: -row[place])[:2]
                without = torch.tensor([word for place, word in enumerate(one.source.tolist()) if place not in best])
                alone_left = one.source[sorted(best)]
                for name, source in (("comprehensiveness 2", without), ("sufficiency 2", alone_left)):
                    expected.add(name, float(whole[t].exp() - score(loaded, source, one.target)[t].exp()))
                for a in range(size):
                    for b in range(a):
                        kept = torch.tensor([w for place, w in enumerate(one.source.tolist()) if place not in (a, b)])
                        random.append(float(whole[t].exp() - score(loaded, kept, one.target)[t].exp()))
    for name in expected.sums:
        assert found[name] == pytest.approx(expected[name], abs=1e-4), name
        assert found.counts[name] == expected.counts[name]
    assert min(random) <= found["comprehensiveness 2 random"] <= max(random)
    assert found.counts["probability"] == sum(len(one.target) for one in sentences)
    assert found["variation uniform"] > 0 and found.counts["variation permuted"] == 10 * found.counts["probability"]


@pytest.mark.parametrize("name", ["lstm_soft", "transformer"])
def test_command(zoo, tiny_data, tmp_path, capsys, name):
    model = zoo(name)
    call = ["faithfulness", str(tiny_data), "--path", str(model.last), "--sentences", "3", "--cpu"]
    first, second = (str(tmp_path / file) for file in ("a.json", "b.json"))
    cli.main([*call, "--out", first])
    cli.main([*call, "--name", "again", "--compare", first, "--out", second])
    lines = capsys.readouterr().out
    one, other = (json.loads(Path(path).read_text()) for path in (first, second))
    assert one["measures"] == other["measures"] and one["sentences"] == 3
    assert one["words"] > 3 and "again" in lines and "comprehensiveness 1 random" in lines
    assert ("variation uniform" in one["measures"]) == (name != "transformer")
    assert ("other weights were not tried" in lines) == (name == "transformer")


def test_users_mistakes(tmp_path, tiny_data):
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"name": "x"}')
    for words, message in (
        (["--top", "0"], "--top 0: must be at least 1"),
        (["--compare", str(wrong)], "must be a JSON file of fairseq-attn faithfulness --out"),
        (["--compare", str(tmp_path / "none.json")], "none.json: cannot be read"),
    ):
        with pytest.raises(OptionError, match=message):
            cli.main(["faithfulness", str(tiny_data), "--path", "none.pt", *words])
