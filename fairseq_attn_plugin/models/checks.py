"""Checks of the options of LSTM encoder-decoder models."""

from typing import Any

from ..errors import OptionError
from ..options import need, parse_boolean

__all__ = ["check_options"]

INPUT_FEEDING = ("output", "context", "none")


def check_options(config: Any, task: Any) -> None:
    """Checks the options of an LSTM encoder-decoder model.

    Args:
        config: the configuration
        task: fairseq's task, for its dictionaries

    Raises:
        OptionError: an option with a wrong value, or options that contradict each other
    """
    if config.input_feeding not in INPUT_FEEDING:
        raise OptionError(f"--input-feeding {config.input_feeding}: unknown; choose from {', '.join(INPUT_FEEDING)}")
    for name in (
        "encoder_layers",
        "decoder_layers",
        "encoder_embed_dim",
        "decoder_embed_dim",
        "decoder_out_embed_dim",
        "encoder_hidden_size",
        "decoder_hidden_size",
    ):
        if config[name] is not None and config[name] < 1:
            raise OptionError(f"--{name.replace('_', '-')} {config[name]}: must be at least 1")
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
    shares_output = config.share_all_embeddings or config.share_decoder_input_output_embed
    if shares_output and config.decoder_embed_dim != config.decoder_out_embed_dim:
        raise OptionError(
            "--share-decoder-input-output-embed (and --share-all-embeddings) requires --decoder-embed-dim "
            f"({config.decoder_embed_dim}) to match --decoder-out-embed-dim ({config.decoder_out_embed_dim})"
        )
    need(config.lexicon_epsilon > 0, config, "lexicon_epsilon", "more than 0")
    if config.lexicon is not None:
        if config.adaptive_softmax_cutoff is not None:
            raise OptionError(
                f"--lexicon {config.lexicon}: adds to the logits of an ordinary softmax; leave it or "
                f"--adaptive-softmax-cutoff {config.adaptive_softmax_cutoff} out"
            )
        if not parse_boolean("--decoder-attention", config.decoder_attention):
            raise OptionError(
                f"--lexicon {config.lexicon}: is looked up for the words attended to, and there is no attention with "
                "--decoder-attention False; leave one of the two out"
            )
