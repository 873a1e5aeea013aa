"""Checks of the options of LSTM encoder-decoder models."""

import math
from typing import Any

from ..errors import OptionError
from ..modules.rnn import KINDS
from ..ops.precision import PRECISIONS
from ..options import flag, need, need_one_of, or_default, parse_boolean, parse_integers

MOST_LAYERS, MOST_UNITS = 1000, 1_000_000  # more is a slip; it would run on, or overflow, long before memory is full


def check_size(config: Any, name: str, most: int = MOST_UNITS) -> None:
    """Raises OptionError unless a number of units or layers is from 1 to ``most``; None is left to the model."""
    size = config[name]
    need(size is None or size >= 1, config, name, "at least 1")
    need(size is None or size <= most, config, name, f"at most {most}")


def check_softmax(config: Any, models: str) -> None:
    """Raises OptionError for an adaptive softmax, which ``models`` do not have."""
    cutoff = config.adaptive_softmax_cutoff
    if cutoff is not None:
        raise OptionError(f"--adaptive-softmax-cutoff {cutoff}: {models} have an ordinary softmax only; leave it out")


def rnn_of(config: Any, side: str) -> str:
    """The kind of recurrent layers of ``encoder`` or ``decoder``."""
    return or_default(config[f"{side}_rnn"], config["rnn"])


def check_options(config: Any, task: Any) -> None:
    """Raises OptionError for options with wrong values, or options that contradict each other."""
    need_one_of(config, input_feeding=("output", "context", "none"), output_layer=("tanh", "linear"))
    need_one_of(config, matmul_precision=PRECISIONS)
    for name in ("rnn", "encoder_rnn", "decoder_rnn"):
        need(config[name] is None or config[name] in KINDS, config, name, " or ".join(KINDS))
    if config.encoder_options and config.encoder_arch is None:
        raise OptionError(
            f"--encoder-options {config.encoder_options}: are of --encoder-arch, which is not given; add it, as in "
            "--encoder-arch transformer, or leave them out"
        )
    for side in ("encoder", "decoder"):
        check_size(config, f"{side}_layers", MOST_LAYERS)
        check_size(config, f"{side}_embed_dim")
        check_size(config, f"{side}_hidden_size")
    check_size(config, "decoder_out_embed_dim")
    if config.share_all_embeddings:
        if task.source_dictionary != task.target_dictionary:
            raise OptionError(
                "--share-all-embeddings requires a joint dictionary; prepare the data with fairseq-preprocess "
                "--joined-dictionary"
            )
        if config.encoder_embed_dim != config.decoder_embed_dim:
            raise OptionError(
                f"--share-all-embeddings requires --encoder-embed-dim ({config.encoder_embed_dim}) to match "
                f"--decoder-embed-dim ({config.decoder_embed_dim})"
            )
        if config.decoder_embed_path and config.decoder_embed_path != config.encoder_embed_path:
            raise OptionError(
                "--share-all-embeddings does not go with a --decoder-embed-path of its own; give --encoder-embed-path"
            )
    if config.share_all_embeddings or config.share_decoder_input_output_embed:
        _check_shared_output(config)
    if config.adaptive_softmax_cutoff is not None:
        words = len(task.target_dictionary)
        cutoff = [0, *parse_integers("--adaptive-softmax-cutoff", config.adaptive_softmax_cutoff), words + 1]
        ascending = all(one < next_one for one, next_one in zip(cutoff, cutoff[1:]))
        what = f"ascending, from 1 to the {words} words of the target dictionary"
        need(ascending, config, "adaptive_softmax_cutoff", what)
    for name in ("copy_attention", "lexicon"):
        if config[name]:
            _check_words_attended_to(config, name)
    finite = config.forget_bias is None or math.isfinite(config.forget_bias)
    need(finite, config, "forget_bias", "a number, as in --forget-bias 1")
    need(0 < config.embed_init_range < math.inf, config, "embed_init_range", "more than 0, as in --embed-init-range 1")
    need(config.lexicon_epsilon > 0, config, "lexicon_epsilon", "more than 0")


def _check_words_attended_to(config: Any, name: str) -> None:
    """Raises OptionError for what excludes an option that adds to the words of a softmax by the attention."""
    given = flag(name) if config[name] is True else f"{flag(name)} {config[name]}"
    if config.adaptive_softmax_cutoff is not None:
        raise OptionError(
            f"{given}: needs an ordinary softmax; leave it or --adaptive-softmax-cutoff "
            f"{config.adaptive_softmax_cutoff} out"
        )
    if not parse_boolean("--decoder-attention", config.decoder_attention):
        raise OptionError(f"{given}: needs attention, which --decoder-attention False turns off; leave one of them out")


def check_distribution(config: Any, attention: Any, purpose: str) -> None:
    """Raises OptionError unless the weights of the attention are a distribution; ``purpose``: what it is to be."""
    if attention is None or attention.normalized:
        return
    given, remedy = f"--attention {config.attention}", attention.to_normalize
    if config.attention_max_normalize:
        given, remedy = "--attention-max-normalize", "leave it out"
    raise OptionError(
        f"{given}: the weights do not sum to one, and are no {purpose}; "
        f"{remedy or 'choose another --attention, such as soft'}"
    )


def _check_shared_output(config: Any) -> None:
    """Raises OptionError if the embeddings do not have the units from which the words are predicted."""
    units, of = config.decoder_out_embed_dim, f"--decoder-out-embed-dim ({config.decoder_out_embed_dim})"
    remedy = ""
    if config.output_layer == "linear":
        units = state = or_default(config.decoder_hidden_size, config.decoder_embed_dim)
        of = f"the {state} units of the state (--output-layer linear)"
        if parse_boolean("--decoder-attention", config.decoder_attention):
            context = config.encoder_embed_dim
            if config.encoder_arch is None:
                context = or_default(config.encoder_hidden_size, context) * (2 if config.encoder_bidirectional else 1)
            units += context
            of = f"the {context} + {state} units of context and state (--output-layer linear)"
            remedy = f"; or choose --output-layer tanh --decoder-out-embed-dim {config.decoder_embed_dim}"
    if config.decoder_embed_dim != units:
        raise OptionError(
            "--share-decoder-input-output-embed (and --share-all-embeddings) requires --decoder-embed-dim "
            f"({config.decoder_embed_dim}) to match {of}{remedy}"
        )
