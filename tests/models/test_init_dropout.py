"""``--decoder-init-dropout``: in training, some sentences' decoders start from zeros."""

from dataclasses import asdict

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from models_for_tests import build, pad_batch
from omegaconf import OmegaConf

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.models.attn_lstm import AttnLSTMModel
from fairseq_attn_plugin.patches.trained_models import as_written

ROWS = 200
ARCHITECTURES = {
    "attn_lstm": 0.0,
    "attn_lstm_small": 0.0,
    "lstm_soft": 0.0,
    "lstm_adm": 0.0,
    "lstm_adm_aqt": 0.0,
    "lstm_adm_centred": 0.5,
    "lstm_gaussian": 0.0,
}
CASES = [{}, {"rnn": "gru"}, {"encoder_rnn": "gru"}, {"input_feeding": "none"}, {"decoder_layers": 2}]


def starts(model):
    encoder_out = model.encoder(pad_batch([4] * ROWS))
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


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"decoder_zero_init": True, "decoder_init_dropout": 0.5},
        {"decoder_attention": "False", "decoder_init_dropout": 0.5},
    ],
)
def test_where_nothing_is_dropped_no_random_number_is_drawn(options):
    model = build("attn_lstm", **options).train()
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


def check_training(arch, **options):
    config = {**asdict(MODEL_DATACLASS_REGISTRY[arch]()), "_name": arch, **options}
    AttnLSTMModel.check_training({"model": config, "criterion": {}})


def test_architectures():
    defaults = {name: MODEL_DATACLASS_REGISTRY[name]().decoder_init_dropout for name in ARCHITECTURES}
    assert defaults == ARCHITECTURES
    for name in ARCHITECTURES:
        earlier = as_written(OmegaConf.create({"_name": name}))
        assert earlier.decoder_init_dropout == 0, "a checkpoint without the option was trained without it"


def test_it_is_refused_where_it_has_no_effect():
    check_training("lstm_soft", decoder_init_dropout=0.25)
    for off in ({"decoder_zero_init": True}, {"decoder_attention": "False"}):
        check_training("lstm_soft", **off)  # the architecture's own does not need to be turned off
    for arch, options, words in (
        ("lstm_soft", {"decoder_zero_init": True}, "with --decoder-zero-init, .*; leave one of them out"),
        ("lstm_soft", {"decoder_attention": "False"}, "with --decoder-attention False; leave one of them out"),
        ("lstm_latent_small", {}, "with --decoder-zero-init, .*--no-decoder-zero-init .*"),
    ):
        with pytest.raises(OptionError, match=f"^--decoder-init-dropout 0.25: has no effect {words}$"):
            check_training(arch, decoder_init_dropout=0.25, **options)


def test_the_epsilon_of_no_lexicon_is_refused():
    check_training("lstm_soft", lexicon="lexicon.tsv", lexicon_epsilon=0.1)
    with pytest.raises(OptionError, match="^--lexicon-epsilon 0.1: has no effect without --lexicon"):
        check_training("lstm_soft", lexicon_epsilon=0.1)
