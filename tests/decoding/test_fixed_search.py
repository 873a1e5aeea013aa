"""Searches with packed models: fairseq's hypotheses in float32, the options of precision and shortlist, and errors."""

import copy

import pytest
import torch
from model_systems import make
from models_for_tests import build
from test_search import LENGTHS, assert_same, both, generator, models_of, sample, sharpened
from test_shortlist import write

from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.decoding import stepper
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops import packed


def final(*models):
    """As fairseq prepares models for translation."""
    for model in models:
        model.make_generation_fast_(need_attn=True)
    return list(models)


@pytest.fixture
def lexicon(tmp_path):
    return write(tmp_path / "lexicon.tsv")


@pytest.mark.parametrize(
    ("feeding", "dtype"), [("output", torch.float32), ("none", torch.float64)], ids=["output", "none"]
)
@pytest.mark.parametrize("attention", names())
def test_same_hypotheses(attention, feeding, dtype):
    models = final(sharpened(make(attention, feeding, dtype)))
    assert generator("plugin", models).steppers[0].weights is not None
    for beam in (1, 3):
        assert assert_same(*both(models, beam=beam)) == beam * len(LENGTHS)


@pytest.mark.parametrize(
    "options",
    [{"temperature": 1.7}, {"match_source_len": True}, {"sampling": True}],
    ids=str,
)
def test_options_of_the_search(options):
    batch = sample([length for length in LENGTHS if length > 1])
    assert assert_same(*both(final(*models_of("ensemble")), batch, **options))


def test_without_attention():
    assert assert_same(*both(final(*models_of("no attention"))))


def test_a_model_that_may_be_trained_on_is_not_copied():
    (model,) = models_of("soft")
    assert generator("plugin", [model]).steppers[0].weights is None


def words_of(hypotheses):
    return [[one["tokens"].tolist() for one in listed] for listed in hypotheses]


def test_a_shortlist_of_all_words_changes_nothing(lexicon):
    models = final(*models_of("ensemble"))
    plain, short = (
        generator("plugin", models, **options).generate(models, sample())
        for options in ({}, {"shortlist": lexicon, "shortlist_frequent": 99})
    )
    assert words_of(short) == words_of(plain)
    assert_same(short, plain)


def test_a_lexicon_while_the_dictionary_grows(monkeypatch):
    """As fairseq-generate adds the words of references with --remove-bpe."""
    models = final(*models_of("soft"))
    bias = models[0].decoder.lexicon
    bias.entries, bias.probabilities = torch.randint(4, 15, (24, 2)), torch.rand(24, 2)
    search = generator("plugin", models)
    expected = search.generate(models, sample())
    bigger = copy.deepcopy(models[0].decoder.dictionary)
    bigger.add_symbol("unheard-of")
    monkeypatch.setattr(models[0].decoder, "dictionary", bigger)
    assert assert_same(search.generate(models, sample()), expected)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_consist_of_words_of_the_shortlist(beam, lexicon, monkeypatch):
    monkeypatch.setattr(stepper, "MULTIPLE", 1)
    models = final(*models_of("soft"))
    short = generator("plugin", models, beam=beam, shortlist=lexicon, shortlist_size=2, shortlist_frequent=1)
    prefix = torch.full((len(LENGTHS), 1), 17)
    words = set(short.steppers[0].begin(sample()["net_input"], prefix).vocabulary.tolist())
    assert len(words) < len(models[0].decoder.dictionary)
    found = short.generate(models, sample(), prefix_tokens=prefix)
    used = {word for listed in words_of(found) for hypothesis in listed for word in hypothesis}
    assert 17 in used and used <= words


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_translate(precision):
    torch.manual_seed(5)
    model = build("attn_lstm", encoder_hidden_size=32, decoder_hidden_size=32).eval()
    for parameter in model.parameters():  # sharp, but not so much that roundings grow from step to step
        parameter.data.mul_(4)
    models = final(model)
    exact, rounded = (
        generator("plugin", models, beam=1, decoding_precision=p).generate(models, sample())
        for p in ("float32", precision)
    )
    same = [one == other for one, other in zip(words_of(exact), words_of(rounded))]
    assert sum(same) > len(same) / 2
    assert exact[0][0]["score"] != rounded[0][0]["score"]


def test_other_models_say_that_they_have_no_precision(caplog):
    packed.say_once.cache_clear()
    for _ in range(2):
        generator("plugin", final(*models_of("adaptive softmax")), decoding_precision="int8")
    assert sum("--decoding-precision int8: models with an adaptive" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        (
            "plugin",
            {"decoding_precision": "half"},
            "^--decoding-precision half: must be float32 or bfloat16 or int8",
        ),
        ("plugin", {"shortlist": "missing.tsv"}, "^--shortlist missing.tsv: cannot be read"),
        ("stock", {"decoding_precision": "int8"}, "^--decoding-precision int8: .*engine stock.*leave it out"),
        ("stock", {"shortlist": "x"}, "^--shortlist x: .*; leave it out"),
        ("plugin", {"diversity_rate": 0.5, "shortlist": "x"}, "^--shortlist x: --diversity-rate has fairseq's own"),
    ],
)
def test_mistakes_are_one_line(engine, options, message):
    with pytest.raises(OptionError, match=message):
        generator(engine, final(*models_of("soft")), **options)


def test_adaptive_softmax_has_no_shortlist(lexicon):
    with pytest.raises(OptionError, match=f"^--shortlist {lexicon}: .*takes none"):
        generator("plugin", final(*models_of("adaptive softmax")), shortlist=lexicon)


def test_defaults():
    assert DecodingOptions().changed() == {}
