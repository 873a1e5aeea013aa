"""The engine's hypotheses are those of fairseq's generator: words, order, scores, attention."""

import copy
import math
from argparse import Namespace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from fairseq.token_generation_constraints import pack_constraints
from models_for_tests import build, enlarged, fake_task, make, pad_batch, systems

from fairseq_attn_plugin.decoding import generator as decoding_generator
from fairseq_attn_plugin.decoding.generator import AligningGenerator, Generator, generator_class
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.decoding.search import Search, best_continuations
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops import packed

PAD, EOS, UNK = 1, 2, 3
LENGTHS = (8, 7, 7, 5, 3, 2, 1, 6, 4)


def sharpened(model):
    """With peaked predictions, and translations that end."""
    enlarged(model, 20)
    if hasattr(model.decoder, "fc_out"):
        model.decoder.fc_out.bias.data.zero_()[EOS] = 1 if model.decoder.is_linear else 8
    return model


@pytest.mark.parametrize("options", [{}, {"score_reference": True}], ids=str)
@pytest.mark.parametrize("engine", ["plugin", "stock"])
def test_alignments_need_attention(engine, options):
    models = [build("lstm_soft", decoder_attention="False")]
    with pytest.raises(OptionError, match="^--print-alignment hard: the model has no attention"):
        generator(engine, models, print_alignment="hard", **options)
    models += [build("lstm_soft")]
    assert generator_class(models, DecodingOptions(), "hard") is AligningGenerator
    with pytest.raises(OptionError, match="^--print-alignment hard: a model of the ensemble has no attention"):
        generator(engine, models, print_alignment="hard", score_reference=True)


def final(*models):
    """As fairseq prepares models for translation: their products may be packed."""
    for model in models:
        model.make_generation_fast_(need_attn=True)
    return list(models)


def words_of(hypotheses):
    return [[one["tokens"].tolist() for one in listed] for listed in hypotheses]


def sample(lengths=LENGTHS, side="left", seed=0):
    source = pad_batch(lengths, side, seed=seed)
    return {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}


def generator(engine, models, extra=None, **options):
    task = TranslationTask(Namespace(), fake_task().source_dictionary, fake_task().target_dictionary)
    options = {"beam": 4, "max_len_b": 9, **options, "decoding_engine": engine}
    return task.build_generator(models, Namespace(**options), extra_gen_cls_kwargs=extra)


def both(models, batch=None, prefix=None, extra=None, bos=None, constraints_tensor=None, **options):
    """The hypotheses of the engine and of fairseq."""
    found = []
    for engine, kind in (("plugin", Generator), ("stock", SequenceGenerator)):
        one = generator(engine, models, extra, **options)
        assert isinstance(one, kind) and isinstance(one, Generator) == (engine == "plugin")
        torch.manual_seed(3)  # of sampling
        given = {"prefix_tokens": prefix, "bos_token": bos, "constraints": constraints_tensor}
        found.append(one.generate(models, batch or sample(), **given))
    return found


def assert_same(found, expected, attention=True):
    """Equal words in equal order, equal numbers up to rounding; returns how many hypotheses there were."""
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        assert [one["tokens"].tolist() for one in ours] == [one["tokens"].tolist() for one in theirs]
        for one, other in zip(ours, theirs):
            assert set(one) == set(other)
            assert one["attention"].shape == other["attention"].shape
            for name in ("score", "positional_scores", *(["attention"] if attention else [])):
                # fairseq's sums are in double precision where an adaptive softmax is
                torch.testing.assert_close(one[name], other[name].float(), rtol=1e-4, atol=1e-5)
    return sum(map(len, found))


def assert_forced_scores(model, found, **tolerance):
    """The scores of the hypotheses of :func:`sample` are those of the model that is given the words."""
    source = sample()["net_input"]["src_tokens"]
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            words = one["tokens"].unsqueeze(0)
            previous = torch.cat([words.new_full((1, 1), 2), words[:, :-1]], 1)
            tokens = source[row : row + 1]
            with torch.no_grad():
                log_probs, _ = model(tokens, tokens.ne(1).sum(1), previous)
            gold = log_probs.gather(-1, words.unsqueeze(-1))[0, :, 0]
            torch.testing.assert_close(one["positional_scores"], gold, **tolerance)


@systems
@pytest.mark.parametrize("fast", [False, True])
def test_every_model(fast, attention, feeding):
    dtype = torch.float32 if fast and feeding == "output" else torch.float64
    model = sharpened(make(attention, feeding, dtype))
    models = final(model) if fast else [model]
    assert (generator("plugin", models).steppers[0].weights is not None) == fast
    lengths = set()
    for beam in (1, 3) if feeding == "output" else (3,):
        ours, theirs = both(models, sample(side="left" if fast else "right"), beam=beam)
        assert assert_same(ours, theirs) == beam * len(LENGTHS)
        lengths |= {len(one["tokens"]) for one in sum(ours, [])}
    assert len(lengths) > 1


OPTIONS = [
    {"beam": 5},
    {"beam": 1},
    {"beam": 30},  # as many as there are words
    {"lenpen": 2.0},
    {"lenpen": 0.5},
    {"unnormalized": True},
    {"min_len": 4},
    {"min_len": 0},
    {"max_len_a": 0.5, "max_len_b": 1},
    {"max_len_b": 1},
    {"unkpen": -2.0},
    {"unkpen": 1.5, "beam": 1},
    {"unkpen": float("inf")},
    {"temperature": 1.7},
    {"sampling": True},
    {"sampling": True, "sampling_topk": 4},
    {"sampling": True, "sampling_topp": 0.8},
    {"sampling": True, "beam": 1},
]
KINDS = ("soft", "ensemble", "adaptive softmax", "no attention")


def models_of(kind):
    torch.manual_seed(5)
    if kind == "ensemble":
        return [sharpened(build(arch).double().eval()) for arch in ("attn_lstm", "lstm_adm_aqt")]
    options = {
        "soft": {},
        "no attention": {"decoder_attention": "False"},
        "adaptive softmax": {"adaptive_softmax_cutoff": "12"},
        "shared": {"share_decoder_input_output_embed": True, "decoder_embed_dim": 14},
        "half": {},
    }[kind]
    model = sharpened(build("attn_lstm", **options).eval())
    return [model.bfloat16() if kind == "half" else model.double()]


@pytest.mark.parametrize(("number", "options"), list(enumerate(OPTIONS)), ids=str)
def test_every_option(number, options):
    models = models_of(KINDS[number % 4])
    if number % 3 == 0:
        final(*models)
    assert assert_same(*both(models, **options)) >= len(LENGTHS)


@pytest.mark.parametrize(("kind", "first"), [("shared", None), ("half", None), ("soft", 7)])
def test_other_models_and_another_first_word(kind, first):
    assert assert_same(*both(models_of(kind), bos=first))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("kind", ["soft", "ensemble"])
def test_prefix(kind, beam):
    prefix = torch.tensor([[5, 6], [7, PAD], [PAD, PAD], [5, 5], [UNK, 9], [9, 6], [5, 9], [7, 7], [8, PAD]])
    ours, theirs = both(models_of(kind), prefix=prefix, beam=beam)
    assert_same(ours, theirs)
    for words, hypotheses in zip(prefix.tolist(), ours):
        words = [word for word in words if word != PAD]
        assert all(one["tokens"].tolist()[: len(words)] == words for one in hypotheses)


def test_prefix_with_the_end_of_a_sentence():
    """fairseq gives the copies of such a translation the attention of other hypotheses."""
    prefix = torch.tensor([[5, EOS, PAD], [7, 6, EOS], [5, 6, 7]] * 3)
    ours, theirs = both(models_of("soft"), prefix=prefix)
    assert_same(ours, theirs, attention=False)
    assert [one["tokens"].tolist() for one in ours[0]] == [[5, EOS]] * 4


def test_alignment():
    for kind in ("hard", "soft"):
        models = models_of("soft")
        ours, theirs = both(models, print_alignment=kind)
        assert isinstance(generator("plugin", models, print_alignment=kind), AligningGenerator)
        assert_same(ours, theirs)
        for one, other in zip(sum(ours, []), sum(theirs, [])):
            assert list(one["alignment"]) == list(other["alignment"])
        assert any(len(one["alignment"]) > 1 for one in sum(ours, []))


def test_alignment_of_fewer_hypotheses_than_the_beam_is_wide():
    """An empty reference, whose end is the prefix; fairseq stops there."""
    models, prefix = models_of("soft"), torch.tensor([[EOS], [5], [6]] * 3)
    found = generator("plugin", models, print_alignment="hard").generate(models, sample(), prefix_tokens=prefix)
    assert [len(listed) for listed in found] == [1, 4, 4] * 3
    assert found[0][0]["alignment"] == [] and len(found[1][0]["alignment"]) == len(found[1][0]["tokens"]) - 1


def test_without_attention_where_it_is_not_wanted():
    models = models_of("soft")
    models[0].decoder.need_attn = False
    ours, theirs = both(models)
    assert_same(ours, theirs)
    assert ours[0][0]["attention"].numel() == 0


@pytest.mark.parametrize(("beam", "lengths"), [(4, LENGTHS), (1, LENGTHS), (1, LENGTHS[:1])], ids=str)
def test_probabilities_that_are_not_finite_name_the_sentence(beam, lengths):
    models = models_of("soft")
    models[0].decoder.fc_out.weight.data.mul_(1e38).mul_(1e3)
    batch = sample(lengths)
    batch["id"] = torch.arange(len(lengths)) + 7
    with pytest.raises(OptionError, match="^sentence 7 .*: no translation has a finite probability; the model's param"):
        generator("plugin", models, beam=beam).generate(models, batch)


def test_a_hypothesis_without_finite_probabilities_costs_no_other():
    """As in half precision, where numbers of some steps are too large."""
    models = models_of("soft")
    usual = words_of(generator("plugin", models).generate(models, sample()))
    models[0].decoder.embed_tokens.weight.data[usual[0][0][0]] = math.nan
    ours, theirs = both(models)
    assert_same(ours, theirs)
    assert words_of(ours) != usual


@pytest.mark.parametrize("size", [2, 3])
def test_no_ngram_is_repeated(size):
    """As in fairseq's search, whose check is mended: stock compares the padding after the words."""
    models = models_of("soft")
    models[0].decoder.fc_out.bias.data[EOS] -= 9
    for beam in (1, 4):
        plain, found = (both(models, no_repeat_ngram_size=limit, beam=beam) for limit in (0, size))
        assert assert_same(*found) and words_of(found[0]) != words_of(plain[0])


def test_words_of_a_prefix_may_repeat_an_ngram():
    prefix = torch.tensor([[5, 6, 5, 6], [7, 7, 7, PAD], [PAD] * 4] * 3)
    ours, theirs = both(models_of("soft"), prefix=prefix, no_repeat_ngram_size=2)
    assert assert_same(ours, theirs)
    for given, hypotheses in zip(prefix, ours):
        given = given[given.ne(PAD)].tolist()
        for words in (one["tokens"].tolist() for one in hypotheses):
            pairs = [*zip(words, words[1:])]
            later = pairs[max(len(given) - 1, 0) :]
            assert words[: len(given)] == given and len({*later}) == len(later)


def test_vocabulary_that_is_read_in_blocks():
    torch.manual_seed(2)
    for words in (3000, 3001, 4376, 5000):
        log_probs, scores = torch.randn(3, 5, words).log_softmax(-1), torch.randn(3, 5)
        for past in (None, scores):
            sums = log_probs if past is None else log_probs + past.unsqueeze(2)
            expected, places = sums.view(3, -1).topk(10)
            best, rows, index = best_continuations(log_probs, past, 10)
            assert torch.equal(best, expected) and torch.equal(rows * words + index, places)


@pytest.mark.parametrize("words", [1000, 1001, 1015])
def test_blocks_where_all_words_but_the_last_are_excluded(words):
    """As a forced word excludes them."""
    log_probs = torch.full((2, 3, words), -math.inf)
    log_probs[:, :, -1] = -torch.arange(6.0).view(2, 3)
    for past in (torch.zeros(2, 3), None):
        best, rows, index = best_continuations(log_probs, past, 6)
        assert torch.equal(best[:, :3], log_probs[:, :, -1]) and best[:, 3:].eq(-math.inf).all()
        assert rows[:, :3].tolist() == [[0, 1, 2]] * 2 and index[:, :3].eq(words - 1).all()
        assert rows.ge(0).all() and rows.lt(3).all() and index.ge(0).all() and index.lt(words).all()


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("prefixed", [False, True])
def test_a_large_batch_is_searched_in_parts(prefixed, beam, monkeypatch):
    sizes = []
    monkeypatch.setattr(decoding_generator, "ROWS", 12)
    monkeypatch.setattr(
        decoding_generator, "Search", lambda *args: sizes.append(len(args[1]["src_tokens"])) or Search(*args)
    )
    models = [sharpened(make("soft", "output"))]
    batch = sample(LENGTHS * 3)
    prefix = torch.randint(4, 12, (len(LENGTHS) * 3, 1)) if prefixed else None
    assert assert_same(*both(models, batch, prefix, beam=beam)) == 3 * beam * len(LENGTHS)
    assert sizes == ([12, 12, 3] if beam == 1 else [4] * 6 + [3])
    sizes.clear()
    assert assert_same(*both(models, batch, beam=beam, sampling=True))
    assert sizes == [27]


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ("DiverseBeamSearch", {"diverse_beam_groups": 2}),
        ("DiverseSiblingsSearch", {"diversity_rate": 0.5}),
        ("LengthConstrainedBeamSearch", {"match_source_len": True}),
        ("LexicallyConstrainedBeamSearch", {"constraints": "ordered"}),
        ("PrefixConstrainedBeamSearch", {"prefix_allowed_tokens_fn": lambda batch, words: [EOS, 5, 6, 7]}),
    ],
)
def test_other_searches_are_those_of_fairseq(named, options, caplog):
    wanted = pack_constraints([[torch.tensor([5])]] * len(LENGTHS)) if "constraints" in options else None
    assert assert_same(*both(models_of("soft"), constraints_tensor=wanted, **options))
    (line,) = [record.getMessage() for record in caplog.records if "decoding" in record.name]
    assert line.startswith(named + ": fairseq's own search is used")


class Language(torch.nn.Module):
    """A language model that prefers one word."""

    decoder = Namespace(dictionary=fake_task().target_dictionary)

    def forward(self, tokens):
        return 3.0 * torch.eye(len(self.decoder.dictionary))[7].expand(*tokens.shape, -1)

    def get_normalized_probs(self, output, log_probs, sample=None):
        return output.log_softmax(-1)


def test_a_language_model_is_searched_with_by_fairseq(caplog):
    assert assert_same(*both(models_of("soft"), extra={"lm_model": Language(), "lm_weight": 0.5}))
    (line,) = [record.getMessage() for record in caplog.records if "decoding" in record.name]
    assert line.startswith("--lm-path: fairseq's own search is used")


def test_no_ngram_is_repeated_in_fairseqs_own_search():
    models = models_of("soft")
    models[0].decoder.fc_out.bias.data[EOS] -= 9
    repeated = []
    for size in (0, 2):
        found = generator("plugin", models, diverse_beam_groups=2, no_repeat_ngram_size=size).generate(models, sample())
        pairs = [list(zip(words, words[1:])) for listed in words_of(found) for words in listed]
        repeated.append(sum(len(one) > len(set(one)) for one in pairs))
    assert repeated[0] > 0 and repeated[1] == 0


def test_other_models_keep_the_generator_of_fairseq():
    torch.manual_seed(1)
    assert type(generator("plugin", [build("lstm"), build("attn_lstm")])) is SequenceGenerator


def test_a_length_that_is_impossible():
    models = models_of("soft")
    with pytest.raises(OptionError, match="--min-len 12: greater than the greatest length of a translation, 9"):
        generator("plugin", models, min_len=12).generate(models, sample())


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


# --- other precisions


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_translate(precision):
    model = build("attn_lstm", seed=5, encoder_hidden_size=32, decoder_hidden_size=32).eval()
    models = final(enlarged(model, 4))  # sharp, but not so much that roundings grow from step to step
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


# --- --wu-penalty and --eos-norm: length penalty and end-of-sentence normalisation as OpenNMT has them


def hypotheses(batch=None, **options):
    models = final(sharpened(make("soft", dtype=torch.float32)))
    return generator("plugin", models, **options).generate(models, batch or sample())


@pytest.mark.parametrize("alpha", [0.7, 1.0])
def test_ranks_by_the_penalty_of_wu(alpha):
    plain, ranked = hypotheses(), hypotheses(wu_penalty=alpha)
    for before, after in zip(plain, ranked):
        assert {tuple(one["tokens"].tolist()) for one in before} == {tuple(one["tokens"].tolist()) for one in after}
        for one in after:
            size = len(one["tokens"]) + 1  # the end is one of them; the start
            expected = float(one["positional_scores"].sum()) / ((5 + size) / 6) ** alpha
            assert float(one["score"]) == pytest.approx(expected, rel=1e-5)
        scores = [float(one["score"]) for one in after]
        assert scores == sorted(scores, reverse=True)
    assert_same(hypotheses(wu_penalty=alpha, unnormalized=True, lenpen=3.0), ranked)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_end_costs_what_the_formula_says(beam, monkeypatch):
    """A model whose log p of the end is lower by gamma |X| / |Y| gives the same hypotheses, sentence by sentence."""
    gamma, step = 3.0, Search.log_probs
    together = hypotheses(eos_norm=gamma, beam=beam)
    lengths = {len(one["tokens"]) for row in hypotheses(beam=beam) for one in row}
    assert {len(one["tokens"]) for row in together for one in row} != lengths, "it changes something"
    for row, length in list(enumerate(LENGTHS))[::3]:
        tokens = sample()["net_input"]["src_tokens"][row : row + 1, -length:]
        alone = {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([length])}}

        def lower(self, tokens, number, words=length - 1):
            log_probs, weights = step(self, tokens, number)
            log_probs[:, EOS] -= gamma * words / (number + 2)  # with the start and this word
            return log_probs, weights

        own = hypotheses(alone, eos_norm=gamma, beam=beam)
        with monkeypatch.context() as patch:
            patch.setattr(Search, "log_probs", lower)
            assert_same(hypotheses(alone, beam=beam), own)
        for one, other in zip(own[0], together[row], strict=True):
            assert one["tokens"].tolist() == other["tokens"].tolist()
            torch.testing.assert_close(one["positional_scores"], other["positional_scores"], rtol=1e-4, atol=1e-5)
