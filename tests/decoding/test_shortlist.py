"""Shortlists: the words that the formula says, the same translations with the whole vocabulary, and bad files."""

import pytest
import torch
from models_for_tests import build, dictionary, fake_task, pad_batch
from test_search import LENGTHS, assert_same, final, generator, models_of, sample, words_of
from test_stepper import batch, fixed, make, walk

from fairseq_attn_plugin.decoding import stepper
from fairseq_attn_plugin.decoding.shortlist import Shortlist
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops import packed

SOURCE, TARGET = dictionary(), dictionary(15)  # those of fake_task
ENTRIES = {
    ("w0", "w3"): 0.25,
    ("w0", "w4"): 0.5,
    ("w0", "w14"): 0.125,
    ("w1", "w6"): 1.0,
    ("w2", "strange"): 0.75,
    ("w2", "w9"): 0.25,
    ("w3", "w10"): 0.0,
    ("</s>", "w8"): 0.5,
}


def write(path, entries=ENTRIES):
    path.write_text("".join(f"{source}\t{target}\t{p}\n" for (source, target), p in entries.items()))
    return str(path)


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "lexicon.tsv")


def chosen(shortlist, *words, prefix=None):
    tokens = torch.tensor([[SOURCE.index(word) for word in words]])
    found = shortlist.words(tokens, prefix).tolist()
    assert found == sorted(set(found))
    return [TARGET[word] for word in found[TARGET.nspecial :]]


@pytest.mark.parametrize(
    ("size", "frequent", "words", "expected"),
    [
        (1, 0, ["w0"], ["w4"]),  # the likeliest one
        (2, 0, ["w0"], ["w3", "w4"]),
        (9, 0, ["w0", "w1"], ["w3", "w4", "w6", "w14"]),
        (1, 0, ["w2"], ["w9"]),  # of those in the vocabulary
        (9, 0, ["w3"], ["w3"]),  # probability zero: as a word that the lexicon does not know
        (9, 0, ["w7"], ["w7"]),
        (9, 0, ["w17"], []),  # not a target word
        (9, 2, ["w1"], ["w0", "w1", "w6"]),
        (9, 99, ["w1"], [f"w{i}" for i in range(15)]),
        (9, 0, ["w0", "</s>", "<pad>"], ["w3", "w4", "w8", "w14"]),
    ],
)
def test_words_of_the_formula(size, frequent, words, expected, file):
    assert chosen(Shortlist(file, size, frequent, SOURCE, TARGET), *words) == expected


def test_scores_in_place_of_probabilities(tmp_path):
    """Only their order counts: they need not sum to one."""
    path = write(tmp_path / "scores.tsv", {("w0", "w3"): 0.9, ("w0", "w4"): 0.95})
    assert chosen(Shortlist(path, 1, 0, SOURCE, TARGET), "w0") == ["w4"]


def test_special_symbols_and_prefix_are_in_it(file):
    shortlist = Shortlist(file, 1, 0, SOURCE, TARGET)
    tokens = torch.tensor([[SOURCE.index("w1")]])
    assert shortlist.words(tokens).tolist() == [0, 1, 2, 3, TARGET.index("w6")]
    assert chosen(shortlist, "w1", prefix=torch.tensor([[TARGET.index("w12"), TARGET.pad()]])) == ["w6", "w12"]


@pytest.mark.parametrize(("multiple", "expected"), [(7, ["w0", "w1", "w6"]), (5, ["w6"]), (99, TARGET.symbols[4:])])
def test_the_most_frequent_words_fill_it_up(multiple, expected, file):
    shortlist = Shortlist(file, 1, 0, SOURCE, TARGET)
    found = shortlist.words(torch.tensor([[SOURCE.index("w1")]]), multiple=multiple)
    assert [TARGET[word] for word in found] == [*TARGET.symbols[:4], *expected]


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("rows_that_pack", [0, 99])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_logits_are_those_of_the_words(precision, rows_that_pack, file, monkeypatch):
    monkeypatch.setattr(packed, "PACKED_ROWS", rows_that_pack)
    model, shortlist = make(decoder_out_embed_dim=9), Shortlist(file, 2, 3, SOURCE, TARGET)
    words = shortlist.words(batch()["src_tokens"])
    assert len(words) < len(TARGET)
    whole, short = (walk(fixed(model, precision, shortlist=s), batch()) for s in (None, shortlist))
    tolerance = {"float32": 1e-5, "bfloat16": 0.05, "int8": 0.2}[precision]
    expected = [(log_probs[:, words].log_softmax(-1), weights) for log_probs, weights in whole]
    torch.testing.assert_close(short, expected, rtol=0, atol=tolerance)


def test_lexicon_bias_goes_with_a_shortlist(file):
    model = build("attn_lstm", fake_task(), lexicon=file).eval()
    shortlist = Shortlist(file, 9, 3, SOURCE, TARGET)
    tokens = 4 + pad_batch([3, 3]) % 3
    net_input = {"src_tokens": tokens, "src_lengths": torch.tensor([3, 3])}
    words = shortlist.words(tokens)
    whole, short = (walk(fixed(model, shortlist=s), net_input) for s in (None, shortlist))
    for one, other in zip(whole, short):
        torch.testing.assert_close(other[0], one[0][:, words].log_softmax(-1))


def test_all_words_change_nothing(file):
    models = final(*models_of("ensemble"))
    plain, short = (
        generator("plugin", models, **options).generate(models, sample())
        for options in ({}, {"shortlist": file, "shortlist_frequent": 99})
    )
    assert_same(short, plain)


@pytest.mark.parametrize("beam", [1, 4])
def test_translations_consist_of_its_words(beam, file, monkeypatch):
    monkeypatch.setattr(stepper, "MULTIPLE", 1)
    models = final(*models_of("soft"))
    short = generator("plugin", models, beam=beam, shortlist=file, shortlist_size=2, shortlist_frequent=1)
    prefix = torch.full((len(LENGTHS), 1), 17)
    words = set(short.steppers[0].begin(sample()["net_input"], prefix).vocabulary.tolist())
    assert len(words) < len(models[0].decoder.dictionary)
    found = short.generate(models, sample(), prefix_tokens=prefix)
    used = {word for listed in words_of(found) for hypothesis in listed for word in hypothesis}
    assert 17 in used and used <= words


def test_some_models_have_none(file):
    for models in (
        final(*models_of("adaptive softmax")),
        final(build("attn_lstm", copy_attention=True)),
        final(build("lstm_latent_first_order_small", attention="soft")),
        [one.half() for one in final(*models_of("soft"))],
        models_of("soft"),  # as in training, for --eval-bleu
    ):
        with pytest.raises(OptionError, match=f"^--shortlist {file}: .*takes none"):
            generator("plugin", models, shortlist=file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("a\tw1\t1\nb\tw1\t1\nw0\tw1\t1\n", "only 1 of its 3 source words have a translation within the vocab"),
        ("w0\ta\t1\n", "only 0 of its 1 source words"),
    ],
)
def test_bad_files_are_one_line(text, message, tmp_path):
    path = tmp_path / "lexicon.tsv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(OptionError, match=f"^--shortlist {path}.*{message}"):
        Shortlist(str(path), 9, 9, SOURCE, TARGET)
