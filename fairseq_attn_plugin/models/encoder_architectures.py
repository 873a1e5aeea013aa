"""``--encoder-arch``: the encoder of a registered encoder-decoder architecture, as our models build it.

Its sizes are ``--encoder-embed-dim``, ``--encoder-layers`` and ``--dropout``, as for our own encoder. All other
options have the architecture's defaults, or the values in ``--encoder-options``, which its own parser reads.
"""

import argparse
import shlex
from typing import Any, NoReturn

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, FairseqEncoderDecoderModel

from ..errors import OptionError
from ..modules.embeddings import side_embedding
from ..modules.encoders.stock_encoder import StockEncoder
from ..options import flag, or_default

EXAMPLES = "transformer, transformer_iwslt_de_en, lightconv or fconv"
NOTATION = "as in 'encoder-attention-heads=4 encoder-normalize-before'"
# Where an encoder is not built alone, a decoder is built and thrown away: the smallest.
PARTS_OF_DECODERS = "embed_dim ffn_embed_dim conv_dim input_dim output_dim out_embed_dim attention_heads".split()
SIZES_OF_DECODERS = [f"decoder_{part}" for part in PARTS_OF_DECODERS]
LONGEST = 100_000  # source positions, which an encoder may have a table for


class _Parser(argparse.ArgumentParser):
    """The options of an architecture, which have no default unless it gives them one."""

    def __init__(self, given: str, model: Any):
        super().__init__(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        self.given = given
        model.add_args(self)

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{self.given}: {message}; must be options of the architecture, {NOTATION}")


def build_stock_encoder(cfg: Any, task: Any, max_source_positions: float) -> StockEncoder:
    """The encoder of ``--encoder-arch``, its embeddings from ``--encoder-embed-path`` if that is given.

    Raises:
        OptionError: an unknown architecture, options that it does not have or that our model has itself, or an encoder
            that cannot be built or has no vector for every source position
    """
    arch = cfg.encoder_arch
    model = ARCH_MODEL_REGISTRY.get(arch)
    wrong = "is unknown" if model is None else None
    if model is not None and not issubclass(model, FairseqEncoderDecoderModel):
        wrong = "not an encoder-decoder model"
    elif model is not None and model.__module__.startswith(__name__.partition(".")[0] + "."):
        wrong = "has the recurrent encoder that there is without this option"
    if wrong:
        raise OptionError(f"--encoder-arch {arch}: {wrong}; choose an architecture such as {EXAMPLES}")
    args = _arguments(cfg, arch, model, max_source_positions)
    try:
        ARCH_CONFIG_REGISTRY[arch](args)
        encoder = StockEncoder(task.source_dictionary, _build(model, args, task), max_source_positions)
    except OptionError as error:
        raise OptionError(f"--encoder-arch {arch}: {error}") from None
    except Exception as error:  # whatever an architecture raises for sizes or tasks that do not suit it
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise OptionError(
            f"--encoder-arch {arch}: its encoder cannot be used: {reason}; choose other sizes, --encoder-options, or "
            "another architecture"
        ) from error
    if cfg.encoder_embed_path:
        with torch.no_grad():
            encoder.embed_tokens.weight.copy_(side_embedding(cfg, "encoder", task.source_dictionary).weight)
    if cfg.encoder_freeze_embed:
        encoder.embed_tokens.weight.requires_grad = False
    return encoder


def has_hidden_size(arch: str) -> bool:
    """Whether ``--encoder-hidden-size`` is the width of its layers; where the architecture is unknown, too."""
    model = ARCH_MODEL_REGISTRY.get(arch)
    return model is None or _is_convolutional(_Parser("--encoder-options", model))


def _is_convolutional(parser: argparse.ArgumentParser) -> bool:
    """Convolutional encoders have a text of widths and kernels as layers, and others their number."""
    return any(action.dest == "encoder_layers" and action.type in (str, None) for action in parser._actions)


def _build(model: Any, args: argparse.Namespace, task: Any) -> Any:
    """The encoder alone where the architecture can do that, as transformers can; otherwise that of a whole model."""
    source = task.source_dictionary
    if hasattr(model, "build_encoder") and hasattr(model, "build_embedding"):
        return model.build_encoder(args, source, model.build_embedding(args, source, args.encoder_embed_dim))
    args.share_all_embeddings = args.share_decoder_input_output_embed = False
    return model.build_model(args, task).encoder


def _arguments(cfg: Any, arch: str, model: Any, max_source_positions: float) -> argparse.Namespace:
    """What the command line of fairseq-train would give to the architecture."""
    text = or_default(cfg.encoder_options, "")
    parser = _Parser(f"--encoder-options {text}", model)
    actions = {action.dest: action for action in parser._actions}
    convolutional = _is_convolutional(parser)
    try:
        words = [word.lstrip("-") for word in shlex.split(text)]
    except ValueError as error:
        parser.error(str(error).lower())
    for name in (word.partition("=")[0].replace("-", "_") for word in words):
        if name.startswith("decoder_"):
            raise OptionError(f"{parser.given}: {flag(name)} is of a decoder, and the decoder is ours; leave it out")
        if name in cfg and not (name == "encoder_layers" and convolutional):
            raise OptionError(
                f"{parser.given}: the model has {flag(name)} itself; give it outside of --encoder-options"
            )
    width = or_default(cfg.encoder_hidden_size, cfg.encoder_embed_dim)
    layers = f"[({width}, 3)] * {cfg.encoder_layers}" if convolutional else cfg.encoder_layers
    ours = {"encoder_embed_dim": cfg.encoder_embed_dim, "dropout": cfg.dropout, "encoder_layers": layers}
    positions = int(min(max_source_positions, LONGEST))
    args = argparse.Namespace(arch=arch, **{name: value for name, value in ours.items() if name in actions})
    args.max_source_positions = args.max_target_positions = positions
    args = parser.parse_args(["--" + word for word in words], args)
    for name in (name for name in SIZES_OF_DECODERS if name in actions):
        setattr(args, name, 1)
    if convolutional:
        args.decoder_layers = "[(1, 1)]"
    return args
