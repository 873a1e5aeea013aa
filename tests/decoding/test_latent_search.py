"""Models of latent alignments, of posterior attention, of first-order alignments and of copies: packed products against
their own, and searches."""

import functools

import pytest
import test_posterior_model
import torch
from latent_models import make
from models_for_tests import build
from test_search import assert_forced_scores, both, final, generator, sample, sharpened
from test_search import assert_same as assert_same_hypotheses
from test_shortlist import write
from test_stepper import assert_same, batch, fixed, tracing, walk

from fairseq_attn_plugin.decoding.shortlist import Shortlist
from fairseq_attn_plugin.decoding.stepper import ModelStepper
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks

__all__ = ["tracing"]  # steps with and without a trace
LINEAR = {"output_layer": "linear"}
SHARED = {"decoder_embed_dim": 9, "decoder_out_embed_dim": 9, "share_decoder_input_output_embed": True}
PREDICTIONS = [
    {},
    {"latent_topk": 2},
    {"latent_topk": 5},
    {"latent_prediction": "soft"},
    {"input_feeding": "none"},
    LINEAR,
    {**LINEAR, "latent_topk": 2},
    {**LINEAR, "latent_prediction": "soft"},
    {"latent_topk": 2, **SHARED},
]
make_posterior = test_posterior_model.make
MODELS = [functools.partial(make, **options) for options in PREDICTIONS]
POSTERIOR = [functools.partial(make_posterior, **options) for options in test_posterior_model.CASES]
POSTERIOR_TOPK = functools.partial(make_posterior, **LINEAR, latent_topk=2)


def named(made):
    return f"{made.func.__module__}-{made.keywords}"


PACKED = [(made, [3, 6, 1, 4]) for made in (*MODELS, *POSTERIOR, POSTERIOR_TOPK)]
PACKED += [(made, rows) for made in (*MODELS[:8:7], *POSTERIOR[:4:3]) for rows in ([5, 5], [3, 0, 2, 1])]


@pytest.mark.parametrize(
    ("made", "lengths"), PACKED, ids=lambda value: str(value) if isinstance(value, list) else named(value)
)
def test_packed_products(made, lengths, tracing):
    assert_same(made(torch.float32), batch(lengths))


def test_blocks(monkeypatch):
    monkeypatch.setitem(alignment_blocks.BLOCK_BYTES, "cpu", 1)
    assert_same(make(torch.float32), batch())


@pytest.mark.parametrize("shift", [-200.0, 200.0])
def test_sums_of_exponentials_out_of_range(shift):
    model = make(torch.float32)
    model.decoder.fc_out.bias.data += shift
    assert_same(model, batch(), tolerance=1e-4)


def test_parts_that_share_no_words():
    model = make(torch.float32, **LINEAR)
    weight, hidden = model.decoder.fc_out.weight.data, model.decoder.hidden_size
    weight[:4, :-hidden] *= 3000
    weight[4:, -hidden:] *= 3000
    assert_same(model, batch(), tolerance=1e-3)


@pytest.mark.parametrize("made", [MODELS[1], MODELS[8], *POSTERIOR], ids=named)
def test_same_hypotheses_and_a_shortlist_of_all_words_changes_nothing(made, tmp_path):
    models = final(sharpened(made(torch.float64)))
    plain, expected = both(models, beam=3)
    assert assert_same_hypotheses(plain, expected)
    options = {"shortlist": write(tmp_path / "lexicon.tsv"), "shortlist_frequent": 99, "beam": 3}
    assert_same_hypotheses(generator("plugin", models, **options).generate(models, sample()), plain)


@pytest.mark.parametrize("made", [make, make_posterior])
@pytest.mark.parametrize("output_layer", ["tanh", "linear"])
def test_a_shortlist_of_some_words(made, output_layer, tmp_path):
    """Against a bias that leaves the other words no probability."""
    model = made(torch.float32, output_layer=output_layer)
    lexicon = write(tmp_path / "lexicon.tsv")
    shortlist = Shortlist(str(lexicon), 1, 8, model.encoder.dictionary, model.decoder.dictionary)
    words = shortlist.words(batch()["src_tokens"])
    assert 12 <= len(words) < len(model.decoder.dictionary)  # those of walk are among them
    found = walk(fixed(model, shortlist=shortlist), batch())
    others = torch.ones(len(model.decoder.dictionary), dtype=torch.bool).index_fill_(0, words, False)
    model.decoder.fc_out.bias.data[others] = -1e4
    whole = walk(ModelStepper(model), batch())
    expected = [(log_probs[:, words].log_softmax(-1), weights) for log_probs, weights in whole]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_are_close(precision):
    model = make(torch.float32)
    exact, rounded = walk(ModelStepper(model), batch()), walk(fixed(model, precision), batch())
    for one, other in zip(exact, rounded):
        assert 0 < (other[0].exp() - one[0].exp()).abs().max() < 0.1


# --- first-order alignments: the forward variable is part of the state of a hypothesis


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("feeding", ["context", "none"])
def test_first_order_scores_are_forced_scores(monotonic, feeding):
    """The forward variable follows its hypothesis, through finished sentences too."""
    model = sharpened(
        build("lstm_latent_first_order_small", jump_monotonic=monotonic, input_feeding=feeding).double().eval()
    )
    model.decoder.jumps.data = torch.linspace(-2, 2, 11, dtype=torch.float64)
    found, expected = both([model], beam=4, max_len_b=6)
    assert_same_hypotheses(found, expected)
    assert_forced_scores(model, found, rtol=1e-4, atol=1e-5, check_dtype=False)


# --- copies of source words


def make_copying(**options):
    model = sharpened(build("attn_lstm", copy_attention=True, **options).eval())
    model.decoder.copying.gate.weight.data.mul_(0.2)
    return model


@pytest.mark.parametrize(
    "options",
    [{}, {"attention": "mqt"}, {"input_feeding": "context"}, {"output_layer": "linear"}, {"rnn": "gru"}],
    ids=str,
)
@pytest.mark.parametrize("fast", [False, True])
def test_scores_of_copies_are_forced_scores(options, fast):
    model = make_copying(**options)
    if fast:
        final(model)
    found, expected = both([model], beam=4, max_len_b=6)
    assert (generator("plugin", [model]).steppers[0].weights is not None) == fast
    assert_same_hypotheses(found, expected)
    assert_forced_scores(model, found, rtol=1e-3, atol=1e-3)


def test_a_model_that_only_copies_gives_the_source():
    """Attention to position t at step t, and a gate that is shut."""
    model = make_copying(attention="local-m", local_window=1)
    model.decoder.copying.gate.bias.data.fill_(-1e4)
    model.decoder.attention._weigh = lambda scores, query, memory, positions: torch.nn.functional.one_hot(
        positions.clamp(max=scores.size(-1) - 1), scores.size(-1)
    ).type_as(scores)
    for tokens in ([9, 12, 8, 2], [5, 2]):
        net_input = {"src_tokens": torch.tensor([tokens]), "src_lengths": torch.tensor([len(tokens)])}
        best = generator("plugin", [model], beam=2).generate([model], {"net_input": net_input})[0][0]
        assert best["tokens"].tolist() == tokens and abs(float(best["score"])) < 1e-4
