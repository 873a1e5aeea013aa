"""Translations that begin with given words, and the hypotheses that lead while a search goes on."""

import itertools

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.inference import translator
from fairseq_attn_plugin.analysis.inference.translator import FIRST, Translator
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError

TEXTS = ("ama bel cor dun", "hus", "ilo zzz ama")


@pytest.fixture(scope="module")
def translators(tiny_data, zoo):
    def make(**options):
        every = itertools.count().__next__  # a step takes a second or more, so all are told of
        return Translator(str(tiny_data), str(zoo("reversal").last), cpu=True, **{"clock": every, **options})

    return {
        "beam": make(beam=4),
        "greedy": make(beam=1),
        "stock": make(beam=4, decoding=DecodingOptions(decoding_engine="stock")),
    }


def forced(translator, text, words):
    """log p and attention of words that are forced, from the model itself."""
    import torch

    task, model = translator.task, translator.models[0]
    ids = translator.encode(text)[1]
    target = [task.target_dictionary.index(word) for word in words]
    previous = torch.tensor([[task.target_dictionary.eos(), *target]])
    with torch.no_grad():
        logits, extra = model(ids[None], torch.tensor([len(ids)]), previous)
    scores = logits[0].log_softmax(-1)[range(len(target)), target]
    return scores.tolist(), extra["attn"][0][0, : len(target)].numpy()


@pytest.mark.parametrize("name", ["beam", "greedy"])
def test_the_leader_of_every_step(translators, name):
    """Its numbers are those of the model; no hypothesis of the same length in the end is better than it."""
    translate = translators[name]
    for text in TEXTS:
        seen = []
        best = translate(text, watch=seen.append)[0]
        assert [len(one.record.target) for one in seen] == list(range(1, len(seen) + 1))
        assert len(seen) >= len(best.record.target)
        for one in seen:
            assert one.record.source == best.record.source and one.unknown == best.unknown
            scores, weights = forced(translate, text, one.record.target)
            assert one.record.scores == pytest.approx(scores, abs=1e-4)
            np.testing.assert_allclose(one.record.attention, weights, atol=1e-5)
        for length in range(1, len(best.record.target) + 1):
            assert sum(seen[length - 1].record.scores) >= sum(best.record.scores[:length]) - 1e-4
        if name == "greedy":
            assert [one.record.target for one in seen] == [
                best.record.target[:length] for length in range(1, len(seen) + 1)
            ]


def test_later_steps_are_told_of_ten_times_a_second(tiny_data, zoo, translators, monkeypatch):
    """The first ones, those that are 0.1 s later than the one before, and the last."""
    every, seen = [], []
    translators["greedy"](TEXTS[0], watch=every.append)
    now = [0.0]
    slow = Translator(str(tiny_data), str(zoo("reversal").last), beam=1, cpu=True, clock=lambda: now[0])
    slow(TEXTS[0], watch=seen.append)
    assert len(seen) == len(every) <= FIRST
    seen.clear()
    monkeypatch.setattr(translator, "FIRST", 2)
    slow(TEXTS[0], watch=seen.append)
    assert [len(one.record.target) for one in seen] == [1, 2, len(every)] and len(every) >= 4
    np.testing.assert_allclose(seen[-1].record.attention, every[-1].record.attention, atol=1e-6)
    slow(TEXTS[0], watch=lambda one: (seen.append(one), now.__setitem__(0, now[0] + 1)))
    assert len(seen) == 3 + len(every), "the clock goes on by a second at each step"


def test_a_watcher_can_end_the_search(translators):
    class Enough(Exception):
        pass

    seen = []

    def stop(partial):
        seen.append(partial)
        raise Enough

    before = translators["beam"](TEXTS[0])
    with pytest.raises(Enough):
        translators["beam"](TEXTS[0], watch=stop)
    assert len(seen) == 1
    after = translators["beam"](TEXTS[0])  # nobody watches it
    assert after[0].text == before[0].text and after[0].score == before[0].score and len(seen) == 1


def test_fairseqs_search_tells_of_no_step(translators):
    assert translators["stock"]("ama bel", watch=lambda _: pytest.fail("was called"))[0].text


@pytest.mark.parametrize(
    "prefix", ["leb", "roc amA", "unseen nud", " amu\n", "roc leb ama and many more words than that"]
)
def test_translations_begin_with_the_prefix(translators, prefix):
    """The search of fairseq finds the same."""
    words = prefix.lower().split()
    known = translators["beam"].task.target_dictionary
    shown = [word if word in known else "<unk>" for word in words]
    for text in TEXTS:
        found = translators["beam"](text, 3, prefix)
        assert [one.record.target[: len(words)] for one in found] == [shown] * len(found)
        assert [one.given for one in found] == [len(words)] * len(found)
        expected = translators["stock"](text, 3, prefix)
        assert [one.text for one in found] == [one.text for one in expected]
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)
        assert translators["greedy"](text, prefix=prefix)[0].record.target[: len(words)] == shown


def test_the_best_translation_continues_its_own_beginning(translators):
    best = translators["greedy"](TEXTS[0])[0]
    again = translators["greedy"](TEXTS[0], prefix=" ".join(best.record.target[:2]))[0]
    assert again.text == best.text and again.record.scores == pytest.approx(best.record.scores, abs=1e-5)
    for prefix in ("", "  ", "\x00"):
        free = translators["greedy"](TEXTS[0], prefix=prefix)[0]
        assert free.text == best.text and free.given == 0


def test_prefixes_that_are_too_long_are_refused(translators):
    with pytest.raises(OptionError, match="the prefix is too long: 300 subwords, a translation has at most 2"):
        translators["beam"]("ama", prefix="amu " * 300)
    with pytest.raises(OptionError, match="the prefix is too long: 5001 characters"):
        translators["beam"]("ama", prefix="x" * 5001)


def test_a_prefix_is_split_as_the_target_is(tiny_data, zoo, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na m\nam a</w>\n")
    made = Translator(str(tiny_data), str(zoo("reversal").last), bpe_codes=str(codes), tokenizer="moses", cpu=True)
    one = made("ama", prefix="ama, AMA")[0]
    assert one.given == 3 and one.record.target[:3] == ["ama", "<unk>", "ama"]  # tokenised and in lower case


def test_examples_are_sentences_of_the_corpus(tiny_data, zoo, tmp_path):
    translator = Translator(str(tiny_data), str(zoo("reversal").last), cpu=True)
    found = translator.examples()
    assert len(set(found)) == 3
    for text in found:
        assert 5 <= len(text.split()) <= 12 and not translator(text)[0].unknown
    # a folder of dictionaries has none
    for file in tiny_data.glob("dict.*.txt"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    languages = {"source_lang": "xx", "target_lang": "yy"}
    assert Translator(str(tmp_path), str(zoo("reversal").last), overrides=languages, cpu=True).examples() == []
    # what a tokeniser reads is shown as text
    made = Translator(str(tiny_data), str(zoo("reversal").last), tokenizer="moses", cpu=True)
    assert made._segmenter.typed(["ama", "&apos;s", ",", "bel"]) == "ama 's, bel"
    assert not translator.separates and not made.separates  # no punctuation in this corpus
