"""Options that are given to a training and have no effect in it: of another mechanism, or beside another option.

A model is also built for checkpoints, which were trained with whatever options they have. These checks are therefore
of the start of a training (:meth:`~fairseq_attn_plugin.models.attn_lstm.AttnLSTMModel.check_training`). An option
counts as given if its value differs from the architecture's default and from that of the mechanisms.
"""

from typing import Any, Dict, List, Mapping, Optional

from .. import attention as attentions
from ..errors import OptionError
from ..options import file_options, flag, parse_boolean
from .checks import rnn_of
from .encoder_architectures import has_hidden_size

# What --encoder-arch replaces. The LSTMs of a posterior of alignments read all but the first, too.
OF_RECURRENT_ENCODERS = ("encoder_bidirectional", "encoder_rnn", "encoder_dropout_in", "encoder_dropout_out")


def check_attention_options(
    config: Mapping[str, Any], defaults: Any, off: Optional[str] = None, score: Optional[str] = None
) -> None:
    """Raises OptionError if an option of attention is given without effect. Files are checked where a model is built.

    Args:
        config: the options of a model
        defaults: the configuration of its architecture
        off: the option by which the model has no attention, with its value
        score: the model's score where none is given; None: the mechanism's
    """
    mechanism = attentions.attention_class(config["attention"])
    taken = attentions.options_taken(mechanism)
    plain = {name: option.field.default for name, option in attentions.options().items()}
    given = [
        name
        for name in ("attention", *plain)
        if name in config and config[name] != getattr(defaults, name)
        if name not in plain or config[name] != plain[name]
        if name not in file_options(defaults)
    ]
    if off is not None and given:
        raise OptionError(
            f"{flag(given[0])} {config[given[0]]}: there is no attention with {off}; leave one of them out"
        )
    bias = config.get("attention_bias", "")
    if bias and not attentions.parse_biases(bias):
        raise OptionError(f"--attention-bias {bias}: names no bias; choose from {', '.join(attentions.BIASES.names())}")
    idle = _idle(mechanism, config, score)
    if _has_posterior(config):  # it has a normaliser, too
        normalizer = config["posterior_normalizer"]
        given = [name for name in given if normalizer not in attentions.NORMALIZERS.having(name)]
    for name in given[1:] if given[:1] == ["attention"] else given:
        if name in idle:
            raise OptionError(f"{flag(name)} {config[name]}: has no effect {idle[name]}; leave it out")
        if name not in taken:
            raise OptionError(
                f"{flag(name)} {config[name]}: --attention {config['attention']} has no such option; leave it out, or "
                f"choose --attention {' or '.join(readers(name))}"
            )


def _has_posterior(config: Mapping[str, Any]) -> bool:
    return parse_boolean("--latent-posterior", config.get("latent_posterior", "False"))


def _idle(mechanism: Any, config: Mapping[str, Any], score: Optional[str]) -> Dict[str, str]:
    """The options of scores, normalisers and biases that have no effect beside the others, and why."""
    if "bias" not in mechanism.takes:
        without = (*attentions.SCORES.options(), *attentions.BIASES.options())
        why = f"with --attention {config['attention']}, which has no scores"
        return dict.fromkeys(("attention_score", *without), why)
    chosen = {**config, "attention_score": config["attention_score"] or score}
    # a model may have no biases, and a mechanism of another package a score of its own
    idle = attentions.idle_options(mechanism, lambda name: chosen.get("attention_" + name, ""))
    return {
        name: f"without {parts.option} {' or '.join(parts.having(name))}"
        for name, parts in idle.items()
        if parts is not attentions.SCORES or chosen["attention_score"] or hasattr(mechanism, "default_score")
    }


def readers(option: str) -> List[str]:
    """The mechanisms that have an option, those that declare it first."""
    having = [
        name for name in attentions.names() if option in attentions.options_taken(attentions.attention_class(name))
    ]
    return sorted(having, key=lambda name: len(attentions.attention_class(name).__mro__))


def check_beside(config: Mapping[str, Any], defaults: Any) -> None:
    """Raises OptionError if an option of a model is given that another one leaves without an effect."""
    arch = config["encoder_arch"]
    of_encoder = list(OF_RECURRENT_ENCODERS) if arch else []
    posterior = _has_posterior(config)
    if posterior:
        of_encoder = of_encoder[:1]
    elif arch and not has_hidden_size(arch):
        of_encoder.append("encoder_hidden_size")
    without = dict.fromkeys(of_encoder, f"with --encoder-arch {arch}, which is not recurrent")
    if "posterior_layers" in config and not posterior:
        of_posterior = ("posterior_layers", "posterior_hidden_size", "posterior_normalizer")
        without.update(dict.fromkeys(of_posterior, "with --latent-posterior False"))
    if config["decoder_zero_init"]:
        without["decoder_init_dropout"] = "with --decoder-zero-init"
    if not parse_boolean("--decoder-attention", config["decoder_attention"]):
        without["decoder_init_dropout"] = "with --decoder-attention False"
        if config["input_feeding"] == "context":  # the state itself is fed
            without["input_feeding"] = "with --decoder-attention False"
    if config["adaptive_softmax_cutoff"] is not None:
        without["share_decoder_input_output_embed"] = "with --adaptive-softmax-cutoff"
    if "lstm" not in (rnn_of(config, "decoder"), None if arch else rnn_of(config, "encoder")):
        without["forget_bias"] = "without an LSTM"
    if config["lexicon"] is None:
        without["lexicon_epsilon"] = "without --lexicon"
    if config.get("election_table", "") is None:
        without["election_share"] = "without --election-table"
    check_idle(config, defaults, without)


def check_idle(config: Mapping[str, Any], defaults: Any, without: Mapping[str, str]) -> None:
    """Raises OptionError if one of the options that have no effect, ``without`` and why, is given."""
    for name, why in without.items():
        value = config[name]
        if value != getattr(defaults, name) and (value or isinstance(value, bool)):  # 0 and None switch a part off
            raise OptionError(f"{flag(name)} {value}: has no effect {why}; leave one of them out")


def check_adaptive_softmax(cfg: Mapping[str, Any]) -> None:
    """Raises OptionError for an adaptive softmax without ``adaptive_loss``, and for that criterion without one."""
    cutoff, criterion = cfg["model"].get("adaptive_softmax_cutoff"), (cfg.get("criterion") or {}).get("_name")
    if cutoff is not None and criterion != "adaptive_loss":
        raise OptionError(f"--adaptive-softmax-cutoff {cutoff}: needs --criterion adaptive_loss, not {criterion}")
    if cutoff is None and criterion == "adaptive_loss":
        raise OptionError("--criterion adaptive_loss: needs --adaptive-softmax-cutoff, as in 10000,50000")
