"""Encoder and decoder: padding, incremental decoding, beam reordering, precision, options and their errors."""

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY
from models_for_tests import (
    BIASED,
    LENGTHS,
    assert_steps_equal_the_whole,
    build,
    dictionary,
    fake_task,
    make,
    needs_autocast,
    pad_batch,
    systems,
    targets,
    watched,
)
from refusals import refuses

from fairseq_attn_plugin.attention import BIASES, Attention, AttentionConfig, names
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.attn_lstm import register_architecture


@systems
def test_a_sentence_alone_equals_the_sentence_with_any_padding(attention, feeding):
    """Also beside a row of padding only, which stays finite."""
    model = make(attention, feeding)
    alone = [
        model(pad_batch(LENGTHS)[row : row + 1, -length:], torch.tensor([length]), targets()[row : row + 1])
        for row, length in enumerate(LENGTHS)
    ]
    for lengths, side, width in ((LENGTHS, "left", 6), (LENGTHS, "right", 8), ([*LENGTHS, 0], "left", 11)):
        source = pad_batch(lengths, side, width)
        logits, extra = model(source, source.ne(1).sum(1), targets(len(source)))
        weights = extra["attn"][0]
        assert weights.shape == (len(source), 5, width) and logits.isfinite().all()
        assert (weights[: len(LENGTHS)].masked_select(source[: len(LENGTHS)].eq(1).unsqueeze(1)) == 0).all()
        for row, (expected, own) in enumerate(alone):
            torch.testing.assert_close(logits[row], expected[0])
            torch.testing.assert_close(weights[row][:, source[row].ne(1)], own["attn"][0][0])


@systems
def test_steps_of_a_search_equal_the_whole_and_hypotheses_share_memory(attention, feeding):
    _, progress = assert_steps_equal_the_whole(make(attention, feeding), pad_batch(LENGTHS))
    assert progress.memory.attention is not None and len(progress.memory.attention[0]) == 1


@systems
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_trains_finitely(attention, feeding, dtype):
    model = make(attention, feeding, dtype).train()
    source = pad_batch(LENGTHS + [0])
    logits, extra = model(source, source.ne(1).sum(1), targets(5))
    assert logits.dtype == (torch.float32 if attention.startswith("latent") else dtype)  # log-probabilities, or logits
    logits.float().pow(2).mean().backward()
    assert logits.isfinite().all() and extra["attn"][0].isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@needs_autocast
@pytest.mark.parametrize("attention", [*names(), *BIASED])
def test_autocast(attention):
    model = make(attention, dtype=torch.float32).train()
    model.decoder.attention.noise = 0.0  # another number in each pass
    source = pad_batch(LENGTHS)
    expected, _ = model(source, None, targets())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, _ = model(source, None, targets())
    logits.float().pow(2).mean().backward()
    torch.testing.assert_close(logits.float(), expected, rtol=0, atol=0.02 * float(expected.detach().abs().max()))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@systems
def test_model_gradients(attention, feeding):
    """Directional derivative of the whole model against a central difference, in float64."""
    model = make(attention, feeding)
    model.decoder.attention.train().noise = 0.0  # some choose in evaluation, without a gradient
    parameters = [p for p in model.parameters() if p.requires_grad]
    directions = [torch.randn_like(p) for p in parameters]

    def loss():
        return model(pad_batch(LENGTHS), None, targets())[0].log_softmax(-1)[..., 4].sum()

    gradients = torch.autograd.grad(loss(), parameters)
    expected = sum((g * d).sum() for g, d in zip(gradients, directions))
    step, values = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            for p, d in zip(parameters, directions):
                p.add_(d, alpha=sign * step)
            values.append(loss())
            for p, d in zip(parameters, directions):
                p.sub_(d, alpha=sign * step)
    torch.testing.assert_close((values[0] - values[1]) / (2 * step), expected, rtol=1e-5, atol=1e-5)


def test_input_feeding_none_has_no_loop_over_time(monkeypatch):
    model = make("soft", "none")
    calls = watched(model)
    monkeypatch.setattr(model.decoder, "_decode_stepwise", None)
    model(pad_batch(LENGTHS), None, targets(steps=9))
    assert len(calls) == 1


def test_weights_are_left_out_of_generation_that_does_not_ask_for_them():
    model = make("soft")
    for need_attn in (False, True):
        model.decoder.make_generation_fast_(need_attn=need_attn)
        weights = model(pad_batch(LENGTHS), None, targets())[1]["attn"][0]
        assert (weights is not None) == need_attn
    model.decoder.make_generation_fast_(need_attn=False)
    assert model.train()(pad_batch(LENGTHS), None, targets())[1]["attn"][0] is not None


@pytest.mark.parametrize("training", [False, True])
def test_dropout_is_drawn_anew_at_every_step_and_only_in_training(training):
    model = make("soft", dropout=0.5).train(training)
    one, two = (model(pad_batch(LENGTHS), None, targets())[0] for _ in range(2))
    assert torch.equal(one, two) != training


# Whether the result is the same for other words of the source, and of the target, where all is dropped in one place.
PLACES = {
    "encoder_dropout_in": (True, False),
    "encoder_dropout_out": (False, False),
    "decoder_dropout_in": (False, True),
    "decoder_dropout_out": (True, True),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("feeding", ["output", "none"])
def test_each_dropout_has_its_place_and_does_not_follow_the_common_one(feeding, place):
    model = make("soft", feeding, dropout=0.5, **{**dict.fromkeys(PLACES, 0.0), place: 1.0}).train()
    source, previous = pad_batch(LENGTHS), targets()
    others = [torch.where(x > 3, 4 + (x + 1) % 15, x) for x in (source, previous)]
    given = [(source, previous), (source, previous), (others[0], previous), (source, others[1])]
    first, again, *changed = (model(one, None, words)[0] for one, words in given)
    assert torch.equal(first, again) and tuple(torch.equal(first, one) for one in changed) == PLACES[place]
    assert model.encoder(source)["encodings"].any() == (place != "encoder_dropout_out")


@pytest.mark.parametrize("feeding", ["output", "none"])
def test_retained_dropout_is_between_the_layers_of_a_decoder_as_well(feeding):
    """The upper layer then reads no words where all is dropped."""
    model = make("soft", feeding, decoder_dropout_out=1.0)
    model.decoder.dropout_out_module.make_generation_fast_(retain_dropout=True, name="decoder")
    calls, previous = watched(model), targets()
    for words in (previous, torch.where(previous > 3, 4 + (previous + 1) % 15, previous)):
        model(pad_batch(LENGTHS), None, words)
    queries = torch.cat([query for query, _ in calls], dim=1)
    assert torch.equal(queries[:, :5], queries[:, 5:])


@pytest.mark.parametrize("encoder_layers", [1, 2, 3])
@pytest.mark.parametrize("zero_init", [False, True])
def test_numbers_of_layers_are_free(encoder_layers, zero_init):
    model = make("soft", encoder_layers=encoder_layers, decoder_layers=2, decoder_zero_init=zero_init)
    source = pad_batch(LENGTHS)
    logits, _ = model(source, None, targets())
    encoder_out = model.encoder(source)
    state = model.decoder.initial_state(encoder_out, model.decoder.remember(encoder_out))
    assert logits.shape == (len(LENGTHS), 5, 19)
    assert (state.hidden == 0).all() == zero_init


def test_shared_embeddings():
    words = dictionary()
    sizes = {"encoder_embed_dim": 12, "decoder_embed_dim": 12, "decoder_out_embed_dim": 12}
    model = build("attn_lstm", fake_task(words, words), share_all_embeddings=True, **sizes)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens
    assert not hasattr(model.decoder, "fc_out")
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    assert logits.size(-1) == len(words)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("header", ["2 10\n", ""], ids=["word2vec", "GloVe"])
def test_pretrained_and_frozen_embeddings(header, side, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(header + "w3 " + " ".join(["0.5"] * 10) + "\nw5 " + " ".join(["-1"] * 10) + "\n")
    options = {f"{side}_embed_path": str(path), f"{side}_freeze_embed": True, f"{side}_embed_dim": 10}
    model = build("attn_lstm", **options)
    frozen, other = getattr(model, side), model.decoder if side == "encoder" else model.encoder
    weight, index = frozen.embed_tokens.weight, frozen.dictionary.index
    assert not weight.requires_grad and other.embed_tokens.weight.requires_grad
    assert (weight[index("w3")] == 0.5).all() and (weight[index("w5")] == -1).all()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("w3 nan" + " 1" * 9, "line 1: the values after the word 'w3' must be finite numbers"),
        ("w3" + " 1" * 9, "its vectors have 9 dimensions; give --decoder-embed-dim 9 (now 10)"),
        ("unknown" + " 1" * 10, "has a vector for none of the"),
    ],
)
def test_wrong_vectors_are_refused(line, message, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(line + "\n")
    with pytest.raises(OptionError) as error:
        build("attn_lstm", decoder_embed_path=str(path), decoder_embed_dim=10)
    assert f"--decoder-embed-path {path}" in str(error.value) and message in str(error.value)


def test_adaptive_softmax():
    model = build("attn_lstm", fake_task(target=dictionary(60)), adaptive_softmax_cutoff="20,40")
    net_output = model(pad_batch(LENGTHS), None, targets())
    probabilities = model.get_normalized_probs(net_output, log_probs=False, sample=None)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(len(LENGTHS), 5))


def test_without_attention():
    model = make("soft", decoder_attention="False")
    source = pad_batch(LENGTHS)
    logits, extra = model(source, None, targets())
    assert extra["attn"] == [None]
    encoder_out, state = model.encoder(source), {}
    for t in range(3):
        step, _ = model.decoder(targets()[:, : t + 1], encoder_out, state)
        torch.testing.assert_close(step[:, 0], logits[:, t])


@refuses(
    ({"attention": "sofd"}, "--attention sofd.*" + ", ".join(names())),
    ({"attention_score": "cosine"}, "--attention-score cosine.*additive, dot, general, scaled_dot"),
    ({"attention_normalizer": "hard"}, "--attention-normalizer hard.*entmax15, fusedmax, softmax, sparsemax"),
    ({"attention_score": "dot"}, "--attention-score dot.*14.*16.*general or additive"),
    ({"input_feeding": "all"}, "--input-feeding all.*output, context, none"),
    ({"attention": "aqt", "adm_pairs": "both"}, "--adm-pairs both.*centred-keys, encodings, keys"),
    ({"attention": "aqt", "adm_nodes": 0}, "--adm-nodes 0.*between 1 and 64"),
    ({"attention_score": "additive", "attention_hidden_dim": 0}, "--attention-hidden-dim 0.*at least 1"),
    ({"attention": "local-p", "local_window": 0}, "--local-window 0.*at least 1"),
    ({"attention": "structured", "structured_scale": 0}, "--structured-scale 0.*above 0"),
    ({"attention": "structured", "structured_l2": -1}, "--structured-l2 -1.*0 or more"),
    ({"attention": "structured", "attention_normalizer": "sparsemax"}, "--attention-normalizer sparsemax.*leave"),
    ({"attention": "gaussian", "gaussian_sigma": 0.0}, "--gaussian-sigma 0.0.*above 0"),
    ({"attention": "gaussian", "gaussian_ratio": -1.0}, "--gaussian-ratio -1.0: must be from 0.001 to 1000 target"),
    ({"attention": "gaussian", "gaussian_mean": float("nan")}, "--gaussian-mean nan: must be from -1000000 to"),
    ({"attention": "gaussian", "gaussian_rule": "0"}, "--gaussian-rule 0.*at least 1"),
    ({"attention": "gaussian", "attention_bias": "markov"}, "--attention-bias markov.*gaussian attention"),
    ({"attention": "gaussian", "attention_normalizer": "sparsemax"}, "--attention-normalizer sparsemax.*gaussian"),
    ({"attention": "election", "election_share": -0.25}, "--election-share -0.25.*0 or more"),
    ({"attention_bias": "position,length"}, "--attention-bias position,length.*" + ", ".join(BIASES.names())),
    ({"attention_bias": "markov", "attention_bias_window": -1}, "--attention-bias-window -1.*0 or more"),
    ({"attention_bias": "position", "attention_bias_dim": 0}, "--attention-bias-dim 0.*at least 1"),
    ({"attention_bias": "fertility", "attention_fertility_weight": -0.5}, "--attention-fertility-weight -0.5"),
    ({"encoder_layers": 0}, "--encoder-layers 0.*at least 1"),
    ({"rnn": "GRU"}, "^--rnn GRU: must be lstm or gru$"),
    ({"encoder_rnn": "GRU"}, "^--encoder-rnn GRU: must be lstm or gru$"),
    ({"embed_init_range": 0.0}, "^--embed-init-range 0.0: must be more than 0, as in --embed-init-range 1$"),
    ({"embed_init_range": float("nan")}, "^--embed-init-range nan: must be more than 0"),
    ({"forget_bias": float("nan")}, "^--forget-bias nan: must be a number, as in --forget-bias 1$"),
    ({"share_all_embeddings": True}, "--share-all-embeddings.*joint dictionary"),
    ({"share_decoder_input_output_embed": True}, "--decoder-embed-dim .12..*--decoder-out-embed-dim .14."),
    ({"encoder_embed_path": "/no/such/file"}, "--encoder-embed-path /no/such/file"),
    ({"decoder_attention": "perhaps"}, "--decoder-attention perhaps.*True or False"),
    ({"adaptive_softmax_cutoff": "many"}, "--adaptive-softmax-cutoff many.*10000,50000"),
)
def test_wrong_options_are_named_with_what_would_be_right(options):
    build("attn_lstm", **options)


BIG = {"encoder_bidirectional": True, "encoder_hidden_size": 256, "decoder_hidden_size": 256, "dropout": 0.2}
KIM = {"encoder_bidirectional": False, "encoder_hidden_size": 500, "decoder_hidden_size": 500, "dropout": 0.3}
KIM |= {"input_feeding": "none", "structured_scale": 2.0}
DENG = {"encoder_bidirectional": True, "encoder_embed_dim": 512, "encoder_hidden_size": 512, "dropout": 0.3}
DENG |= {"decoder_hidden_size": 768, "attention_score": "additive", "attention_hidden_dim": 512}
DENG |= {"decoder_zero_init": True, "input_feeding": "context"}


@pytest.mark.parametrize(
    ("arch", "attention", "sizes"),
    [("lstm_soft", "soft", BIG), ("lstm_adm", "mqt", BIG), ("lstm_adm_aqt", "aqt", BIG), ("lstm_latent", "soft", DENG),
     ("lstm_gaussian", "gaussian", BIG), ("lstm_election", "election", BIG),
     ("lstm_structured", "structured", KIM), ("lstm_sigmoid", "sigmoid", KIM)],
)  # fmt: skip
def test_architectures_have_the_papers_sizes(arch, attention, sizes):
    config = vars(MODEL_DATACLASS_REGISTRY[arch]())
    expected = {"attention": attention, "encoder_layers": 2, "decoder_layers": 2, **sizes}
    assert {name: config[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("arch", "name"),
    [("attn_lstm_small", "encoder-bidirectional"), ("lstm_adm", "encoder-bidirectional"),
     ("lstm_latent", "decoder-zero-init"), ("lstm_agreement", "encoder-bidirectional")],
)  # fmt: skip
def test_a_flag_that_an_architecture_has_on_can_be_turned_off(arch, name):
    def value(*flags):
        parsed = options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", arch, *flags])
        return convert_namespace_to_omegaconf(parsed).model[name.replace("-", "_")]

    assert (value(), value(f"--{name}"), value(f"--no-{name}")) == (True, True, False)
    assert value(f"--no-{name}", f"--{name}") is True, "the last one counts"


@refuses(
    ({"bias": "markov"}, "--attention-bias markov: positional attention has no scores"),
    ({"max_normalize": True}, "--attention-max-normalize: positional attention"),
)
def test_a_mechanism_without_scores_and_weights_of_its_own(config):
    class Positional(Attention):
        name = "positional"

    Positional(4, 4, AttentionConfig(**config))


def test_duplicate_names_raise():
    with pytest.raises(ValueError, match="registered already"):
        register_architecture("lstm_soft")
