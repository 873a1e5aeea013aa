"""How new models start: ``--embed-init-range``, ``--forget-bias``, and ``--decoder-init-dropout`` of a sentence."""

from dataclasses import asdict

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from models_for_tests import build, pad_batch

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel


@pytest.mark.parametrize("arch", ["attn_lstm", "lstm_latent_small"])
def test_new_embeddings_alone_are_larger(arch):
    small, large = (build(arch, seed=1, embed_init_range=bound) for bound in (0.1, 1.0))
    for name, value in large.named_parameters():
        ratio = 10 if name.endswith("embed_tokens.weight") else 1
        torch.testing.assert_close(value, ratio * small.get_parameter(name), msg=name)
    for part in (large.encoder, large.decoder):
        weight = part.embed_tokens.weight
        assert 0.9 < weight.abs().max() <= 1
        assert (weight[part.embed_tokens.padding_idx] == 0).all()


@pytest.mark.parametrize("arch", ["attn_lstm", "lstm_latent_small"])
def test_both_biases_of_torch_sum_to_the_value(arch):
    drawn, model = (build(arch, seed=1, forget_bias=value) for value in (None, 1.0))
    theirs = dict(drawn.named_parameters())
    for lstm in (model.encoder.lstm, model.decoder.lstm):
        for name, bias in lstm.named_parameters():
            if name.startswith("bias_ih"):
                both = (bias + getattr(lstm, name.replace("_ih_", "_hh_"))).chunk(4)
                assert torch.equal(both[1], torch.ones_like(both[1])), "forget is the second of torch's four gates"
                assert all((other.abs() < 0.2).all() for other in (both[0], *both[2:]))
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, theirs[name])}
    layers = {"encoder.lstm": ("l0", "l0_reverse", "l1", "l1_reverse"), "decoder.lstm": ("l0", "l1")}
    biases = {f"{lstm}.bias_{kind}_{name}" for lstm in layers for name in layers[lstm] for kind in ("ih", "hh")}
    assert changed == biases, "everything else is drawn as without the option"


CASES = [{}, {"rnn": "gru"}, {"encoder_rnn": "gru"}, {"input_feeding": "none"}, {"decoder_layers": 2}]


def starts(model):
    encoder_out = model.encoder(pad_batch([4] * 200))
    state = model.decoder.initial_state(encoder_out, model.decoder.remember(encoder_out))
    return torch.cat([x.flatten(1) for x in (state.hidden, state.cell) if x is not None], dim=1)


@pytest.mark.parametrize("options", CASES, ids=str)
def test_a_sentence_keeps_or_loses_all_of_its_start(options):
    model = build("attn_lstm", dropout=0.0, decoder_init_dropout=0.25, **options)
    whole = starts(model.eval())
    assert (whole != 0).all(), "translation starts from all states"
    torch.manual_seed(1)
    dropped = starts(model.train())
    zero = (dropped == 0).all(dim=1)
    assert torch.equal(dropped[~zero], whole[~zero]), "what is kept is not scaled"
    assert 0.15 < zero.float().mean() < 0.35


@pytest.mark.parametrize("options", [{}, {"decoder_zero_init": True}, {"decoder_attention": "False"}], ids=str)
def test_where_nothing_is_dropped_no_random_number_is_drawn(options):
    model = build("attn_lstm", decoder_init_dropout=0.5 if options else 0.0, **options).train()
    torch.manual_seed(1)
    starts(model)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after), "a seed gives the training that it gave"


@pytest.mark.parametrize("options", CASES, ids=str)
def test_gradients_of_dropped_starts_are_those_of_zeros(options):
    """The loss of a sentence whose start is dropped is that of a decoder with ``--decoder-zero-init``."""
    sizes = {"dropout": 0.0, **options}
    model, source = build("attn_lstm", decoder_init_dropout=1 - 1e-9, **sizes).train(), pad_batch([4, 2, 3])
    zero = build("attn_lstm", decoder_zero_init=True, **sizes).train()
    zero.load_state_dict({name: model.state_dict()[name] for name in zero.state_dict()})
    previous = torch.tensor([[2, 5, 6, 7]]).expand(3, -1)
    for either in (model, zero):
        either(source, None, previous)[0].square().sum().backward()
    for name, parameter in zero.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad, parameter.grad, msg=name)


def check_training(arch, options):
    config = {**asdict(MODEL_DATACLASS_REGISTRY[arch]()), "_name": arch, **options}
    criterion = {"_name": None if config["adaptive_softmax_cutoff"] is None else "adaptive_loss"}
    AttnLSTMModel.check_training({"model": config, "criterion": criterion})


TRANSFORMER, FCONV = {"encoder_arch": "transformer"}, {"encoder_arch": "fconv"}
ADAPTIVE = {"adaptive_softmax_cutoff": "5"}


@pytest.mark.parametrize(
    ("arch", "options", "more", "message"),
    [
        ("lstm_soft", {}, {"lexicon_epsilon": 0.1}, "has no effect without --lexicon.*"),
        ("lstm_election", {}, {"election_share": 0.5}, "has no effect without --election-table.*"),
        ("lstm_adm", {}, {"adm_nodes": 8}, "--attention mqt has no such option; .* choose --attention aqt"),
        ("lstm_soft", {}, {"attention_hidden_dim": 64}, "has no effect without --attention-score additive.*"),
        ("lstm_soft", {"attention": "local-m"}, {"attention_hidden_dim": 64}, "has no effect without --attention-.*"),
        ("lstm_latent_small", {**TRANSFORMER, "latent_posterior": "False"}, {"encoder_rnn": "gru"}, "has no effect .*"),
        ("lstm_latent_small", {"latent_posterior": "False"}, {"posterior_layers": 3}, "has no effect with --latent.*"),
        ("lstm_soft", {"decoder_zero_init": True}, {"decoder_init_dropout": 0.5}, "has no effect with --decoder.*"),
        (
            "lstm_soft",
            {"decoder_attention": "False"},
            {"decoder_init_dropout": 0.5},
            "has no effect with --decoder-attention.*",
        ),
        ("lstm_soft", {"decoder_attention": "False"}, {"input_feeding": "context"}, "has no effect with --decoder.*"),
        ("lstm_soft", {"rnn": "gru"}, {"forget_bias": 2.0}, "has no effect without an LSTM.*"),
        ("attn_lstm", {**TRANSFORMER, "decoder_rnn": "gru"}, {"forget_bias": 2.0}, "has no effect without an LSTM.*"),
        ("attn_lstm", {"encoder_arch": "lstm", "decoder_rnn": "gru"}, {"forget_bias": 2.0}, "has no effect without.*"),
        ("attn_lstm", ADAPTIVE, {"share_decoder_input_output_embed": True}, "has no effect with --adaptive.*"),
        ("lstm_latent_small", TRANSFORMER, {"encoder_bidirectional": False}, "has no effect with --encoder-arch .*"),
        ("attn_lstm", TRANSFORMER, {"encoder_hidden_size": 64}, "has no effect with --encoder-arch transformer.*"),
        ("attn_lstm", FCONV, {"encoder_rnn": "gru"}, "has no effect with --encoder-arch fconv.*"),
        ("attn_lstm", FCONV, {"encoder_bidirectional": True}, "has no effect with --encoder-arch fconv.*"),
    ],
)
def test_an_option_without_effect_is_refused(arch, options, more, message):
    check_training(arch, options)  # the architecture's own does not need to be turned off
    ((name, value),) = more.items()
    with pytest.raises(OptionError, match=f"^--{name.replace('_', '-')} {value}: {message}$"):
        check_training(arch, {**options, **more})


def test_an_option_with_an_effect_is_not():
    check_training("lstm_soft", {"lexicon": "lexicon.tsv", "lexicon_epsilon": 0.1})
    check_training("lstm_election", {"election_table": "words.json", "election_share": 0.5})
    check_training("lstm_adm_aqt", {"attention_hidden_dim": 64})  # whose score is additive
    check_training("attn_lstm", {**FCONV, "encoder_hidden_size": 64})  # of its layers
    build("lstm_adm", rnn="gru")  # whose forget bias has no gate
    # of the posterior's LSTMs
    sizes = {"encoder_rnn": "gru", "encoder_hidden_size": 64, "encoder_dropout_in": 0.3, "encoder_dropout_out": 0.4}
    check_training("lstm_latent_small", {**TRANSFORMER, **sizes})
    check_training("lstm_latent_small", {"posterior_normalizer": "fusedmax", "fusedmax_strength": 0.7})
    # what is switched off
    check_training("lstm_adm_centred", {"decoder_attention": "False", "decoder_init_dropout": 0.0})
    check_training("lstm_soft", {"rnn": "gru", "forget_bias": None})
