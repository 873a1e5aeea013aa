"""fairseq-attn faithfulness --documents: every measure against its formula, one word and one sentence at a time."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from test_document_classification import data, trained  # noqa: F401  (fixtures)

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.classification import classify, load_classifier, split_samples
from fairseq_attn_plugin.analysis.inference.faithfulness import (
    Means,
    Measuring,
    document_faithfulness,
    word_gradients,
)
from fairseq_attn_plugin.errors import OptionError


@pytest.fixture
def classifier(data, trained):  # noqa: F811
    return load_classifier(str(data), trained.path, cpu=True)


def log_prob(classifier, tokens):
    """Oracle: log p of the classes of one document, [C]."""
    head = classifier.task.cfg.classification_head_name
    with torch.no_grad():
        logits, _ = classifier.model(torch.as_tensor(tokens)[None], classification_head_name=head)
    return logits[0, : len(classifier.labels)].log_softmax(-1)


def test_gradients_of_words_are_those_of_the_table(classifier):
    symbols, table = classifier.task.source_dictionary, classifier.model.embed_words.weight
    eos = symbols.eos()
    tokens = torch.tensor([5, 6, 7, eos, 8, 9, eos, 10, eos])  # no word occurs twice
    found = word_gradients(classifier, tokens, 1)
    head = classifier.task.cfg.classification_head_name
    logits, _ = classifier.model(tokens[None], classification_head_name=head)
    (gradients,) = torch.autograd.grad(logits[0, : len(classifier.labels)].log_softmax(-1)[1], table)
    expected = (gradients * table).sum(1)[tokens].masked_fill(tokens.eq(eos), 0.0)
    torch.testing.assert_close(found, expected.detach(), atol=1e-6, rtol=1e-4)
    twice = torch.tensor([5, 5, eos])
    assert word_gradients(classifier, twice, 1)[0] != word_gradients(classifier, twice, 1)[1]

    original = table.data.clone()
    table.data[tokens[0]] *= 1.01
    above = log_prob(classifier, tokens)[1]
    table.data[tokens[0]] = original[tokens[0]] * 0.99
    below = log_prob(classifier, tokens)[1]
    table.data.copy_(original)
    assert float(found[0]) == pytest.approx(float(above - below) / 0.02, rel=0.05, abs=1e-4)


def test_all_measures(classifier):
    samples = [one for _, one in zip(range(11), split_samples(classifier, "test"))]
    options = Measuring(top=(1,), draws=2)
    results = list(document_faithfulness(classifier, samples, options))
    assert [count for count, _ in results] == [8, 3]
    found, expected = results[-1][1], Means()
    eos = classifier.task.source_dictionary.eos()
    for sample, item in zip(samples, classify(classifier, samples)):
        whole = log_prob(classifier, sample.tokens)
        label = int(whole.argmax())
        tokens, sentences, start = sample.tokens.tolist(), [], 0
        for place, token in enumerate(tokens):
            if token == eos:
                sentences.append(list(range(start, place)))
                start = place + 1

        def drop(places, tokens=tokens, label=label):
            return log_prob(classifier, [token for n, token in enumerate(tokens) if n not in places])[label]

        levels = [("words", [[place] for place in one], row) for one, row in zip(sentences, item.word_weights)]
        for name, units, weights in (*levels, ("sentences", sentences, item.sentence_weights)):
            if len(units) < 2:
                continue
            losses = [float(whole[label] - drop(unit)) for unit in units]
            best = units[int(np.argmax(weights))]
            others = [place for unit in units if unit != best for place in unit]
            expected.add(f"{name} tau leave-one-out", kendalltau(weights, np.abs(losses)).statistic)
            expected.add(f"{name} comprehensiveness 1", float(whole[label].exp() - drop(best).exp()))
            expected.add(f"{name} sufficiency 1", float(whole[label].exp() - drop(others).exp()))
    assert len(expected.sums) == 6
    for name in expected.sums:
        # the oracle's weights are rounded to six digits, and its differences are of other batches: ranks may swap
        assert found[name] == pytest.approx(expected[name], abs=0.03 if "tau" in name else 1e-3), name
        assert found.counts[name] == expected.counts[name]
    assert found["words variation uniform"] > 0 and found["sentences variation permuted"] > 0
    assert -1 < found["words tau gradient"] < 1


def test_blocks_of_empty_documents(classifier):
    samples = [one for _, one in zip(range(3), split_samples(classifier, "test"))]
    eos = classifier.task.source_dictionary.eos()
    empty = [samples[0]._replace(tokens=torch.tensor([eos]), sentences=[])] * 8
    options = Measuring(("gradient",), top=(1,), draws=1, permutations=1)
    alone, among = (list(document_faithfulness(classifier, read, options)) for read in (samples, [*empty, *samples]))
    assert [count for count, _ in among] == [8, 3]
    assert among[-1][1].as_dict() == alone[-1][1].as_dict()


def test_command(data, trained, tmp_path, capsys):  # noqa: F811
    call = ["faithfulness", str(data), "--path", str(trained.path), "--documents", "--sentences", "4"]
    cli.main([*call, "--cpu", "--out", str(tmp_path / "han.json")])
    found = json.loads((tmp_path / "han.json").read_text())
    assert found["sentences"] == 4 and "words tau gradient" in found["measures"]
    assert "4 documents" in capsys.readouterr().out
    for words, message in (
        (["--beam", "5"], "--beam 5: --documents translates nothing"),
        (["--attribution", "saliency"], "--attribution saliency: is not for documents"),
    ):
        with pytest.raises(OptionError, match=message):
            cli.main([*call, *words])
