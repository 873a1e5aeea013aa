"""LSTM encoder-decoder models with any attention mechanism, and the named architectures.

``attn_lstm`` has stock fairseq ``lstm``'s options and defaults plus ``--attention`` and its own; ``lstm_soft``,
``lstm_adm`` and ``lstm_adm_aqt`` are the models of the attention-density-matrix paper; ``lstm_adm_centred`` has its
sizes and other pairs; ``lstm_gaussian`` and ``lstm_election`` are ``lstm_soft`` without an attention network;
``lstm_structured`` and ``lstm_sigmoid`` have the sizes of the structured-attention paper. Each is a dataclass model, so
that ``fairseq-train --arch NAME`` and ``model: {_name: NAME}`` in YAML mean the same.
"""

import argparse
from dataclasses import fields
from typing import Any, ClassVar, Optional, Type

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY, FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from .. import attention as attentions
from ..errors import OptionError
from ..modules.copying import Copying
from ..modules.decoder import LSTMDecoder
from ..modules.embeddings import side_embedding
from ..modules.encoders.encoder import LSTMEncoder
from ..modules.encoders.source_encoder import SourceEncoder
from ..modules.rnn import forget_bias_
from ..modules.teacher import take_parameters
from ..ops.precision import PRECISIONS, precision_of, products_in
from ..options import flag, or_default, parse_boolean, parse_integers
from .architectures import PAPER_MODEL, PAPER_SIZES, SMALL_SIZES, STRUCTURED_SIZES, register_architecture
from .checks import check_distribution, check_options, rnn_of
from .configuration import AttnLSTMConfig
from .encoder_architectures import build_stock_encoder
from .unused_options import check_adaptive_softmax, check_attention_options, check_beside, readers


@register_model("attn_lstm", dataclass=AttnLSTMConfig)
class AttnLSTMModel(FairseqEncoderDecoderModel):
    """LSTM encoder, LSTM decoder, and the attention that ``--attention`` names."""

    encoder: SourceEncoder
    decoder: LSTMDecoder
    matmul_precision = torch.float32
    cuda_graphs = False  # whether training steps are captured (:mod:`fairseq_attn_plugin.patches.cuda_graphs`)
    base_config: ClassVar[Type[Any]] = AttnLSTMConfig
    decoder_class: ClassVar[Type[LSTMDecoder]] = LSTMDecoder

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Adds the model's options to an argument parser."""
        base, own = cls.base_config(), getattr(cls, "__dataclass")()
        for item in fields(base):
            if getattr(own, item.name) is True:
                # fairseq would turn such a flag into its opposite: --encoder-bidirectional would make the encoder of a
                # bidirectional architecture unidirectional. It leaves an option alone that is there.
                parser.add_argument(
                    flag(item.name), action=argparse.BooleanOptionalAction, help=item.metadata.get("help")
                )
        gen_parser_from_dataclass(parser, base, delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "AttnLSTMModel":
        """Builds the model from its configuration.

        Raises:
            OptionError: options with wrong values, or options that contradict each other
        """
        cls.check(cfg, task)
        # the order in which parameters are drawn is that of older versions: a seed gives the same model
        stock = None if cfg.encoder_arch is None else build_stock_encoder(cfg, task, longest(task, "source"))
        of_source = side_embedding(cfg, "encoder", task.source_dictionary) if stock is None else stock.embed_tokens
        of_target = of_source
        if cfg.share_all_embeddings:
            of_source.weight.requires_grad &= not cfg.decoder_freeze_embed
        else:
            of_target = side_embedding(cfg, "decoder", task.target_dictionary)
        encoder = stock or cls._build_encoder(
            cfg,
            task.source_dictionary,
            of_source,
            hidden_size=or_default(cfg.encoder_hidden_size, cfg.encoder_embed_dim),
            num_layers=cfg.encoder_layers,
            bidirectional=cfg.encoder_bidirectional,
            max_source_positions=longest(task, "source"),
        )
        decoder = cls._build_decoder(cfg, task, of_target, encoder)
        if cfg.forget_bias is not None:
            for part in (encoder, decoder):
                if part.kind == "lstm":
                    forget_bias_(part.rnn, cfg.forget_bias)
        model = cls(encoder, decoder)
        model.matmul_precision = PRECISIONS[cfg.matmul_precision]
        model.cuda_graphs = cfg.cuda_graphs
        if cfg.election_teacher is not None:
            take_parameters(model, cfg.election_teacher)
        return model

    @classmethod
    def _build_encoder(cls, cfg: Any, dictionary: Any, embedding: nn.Embedding, **sizes: Any) -> LSTMEncoder:
        return LSTMEncoder(
            dictionary,
            embedding,
            dropout_in=or_default(cfg.encoder_dropout_in, cfg.dropout),
            dropout_out=or_default(cfg.encoder_dropout_out, cfg.dropout),
            rnn=rnn_of(cfg, "encoder"),
            **sizes,
        )

    @classmethod
    def _build_decoder(cls, cfg: Any, task: Any, embedding: nn.Embedding, encoder: SourceEncoder) -> LSTMDecoder:
        source, target = task.source_dictionary, task.target_dictionary
        hidden_size = or_default(cfg.decoder_hidden_size, cfg.decoder_embed_dim)
        attention = cls.build_attention(cfg, hidden_size, encoder.output_units)
        if attention is not None:
            attention.read_files(source, target)
        cutoff = cfg.adaptive_softmax_cutoff
        decoder = cls.decoder_class(
            target,
            embedding,
            attention,
            memory_dim=encoder.output_units,
            hidden_size=hidden_size,
            num_layers=cfg.decoder_layers,
            out_embed_dim=cfg.decoder_out_embed_dim,
            input_feeding=cfg.input_feeding,
            output_layer=cfg.output_layer,
            zero_init=cfg.decoder_zero_init,
            init_dropout=cfg.decoder_init_dropout,
            rnn=rnn_of(cfg, "decoder"),
            states_given=encoder.states,
            dropout_in=or_default(cfg.decoder_dropout_in, cfg.dropout),
            dropout_out=or_default(cfg.decoder_dropout_out, cfg.dropout),
            share_input_output_embed=cfg.share_all_embeddings or cfg.share_decoder_input_output_embed,
            adaptive_softmax_cutoff=None if cutoff is None else parse_integers("--adaptive-softmax-cutoff", cutoff),
            max_target_positions=longest(task, "target"),
        )
        if cfg.copy_attention:
            check_distribution(cfg, attention, "pointer of --copy-attention")
            decoder.copying = Copying(decoder.vocabulary[0].size(1), source, target)
        decoder.lexicon.epsilon = cfg.lexicon_epsilon
        if cfg.lexicon is not None:
            decoder.lexicon.read(cfg.lexicon, source, target)
        return decoder

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises OptionError for options with wrong values, or options that contradict each other."""
        check_options(cfg, task)

    @classmethod
    def check_training(cls, cfg: Any) -> None:
        """Raises OptionError for options that have no effect in a training; ``cfg``: all sections of a configuration.

        :mod:`fairseq_attn_plugin.patches.numbers` calls it before anything is built.
        """
        model = cfg["model"]
        off = not parse_boolean("--decoder-attention", model["decoder_attention"])
        defaults = MODEL_DATACLASS_REGISTRY[model["_name"]]()
        check_attention_options(model, defaults, "--decoder-attention False" if off else None)
        check_beside(model, defaults)
        check_adaptive_softmax(cfg)

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[attentions.Attention]:
        """The mechanism that ``--attention`` names, or None with ``--decoder-attention False``.

        Raises:
            OptionError: an unknown mechanism, wrong options, or the file of another mechanism
        """
        mechanism = attentions.attention_class(cfg.attention)  # a wrong name is an error even where attention is off
        off = not parse_boolean("--decoder-attention", cfg.decoder_attention)
        taken = {} if off else {name: cfg[name] for name in attentions.options_taken(mechanism)}
        for name in attentions.idle_options(mechanism, lambda name: cfg["attention_" + name]):
            if name in taken and taken[name] == getattr(getattr(cls, "__dataclass")(), name):
                del taken[name]  # the architecture's own, of a score that is not the one chosen
        for name, own in attentions.options().items():
            if own.field.metadata.get("file") and cfg[name] is not None and name not in taken:
                what = "a model with --decoder-attention False" if off else f"--attention {cfg.attention}"
                raise OptionError(
                    f"{flag(name)} {cfg[name]}: {what} does not read it; leave it out, or choose "
                    f"--attention {' or '.join(readers(name))}"
                )
        if off:
            return None
        return attentions.build_attention(cfg.attention, query_dim, memory_dim, **taken)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **kwargs: Any) -> Any:
        """Returns logits ``[B, T, V]`` and ``{"attn": [weights [B, T, N]]}``."""
        with products_in(precision_of(self)):
            encoder_out = self.encoder(src_tokens)
            return self.decoder(prev_output_tokens, encoder_out=encoder_out, **kwargs)


def longest(task: Any, side: str) -> float:
    return getattr(getattr(task, "cfg", None), f"max_{side}_positions", 1e5)


CENTRED = {"attention": "mqt", "adm_pairs": "centred-keys", "decoder_init_dropout": 0.5}

register_architecture("lstm_soft", attention="soft", **PAPER_MODEL)(AttnLSTMModel)
register_architecture("lstm_adm", attention="mqt", **PAPER_MODEL)(AttnLSTMModel)
register_architecture("lstm_adm_aqt", attention="aqt", **PAPER_MODEL)(AttnLSTMModel)
register_architecture("lstm_adm_centred", **CENTRED, **PAPER_SIZES)(AttnLSTMModel)
register_architecture("lstm_gaussian", attention="gaussian", **PAPER_MODEL)(AttnLSTMModel)
register_architecture("lstm_election", attention="election", **PAPER_MODEL)(AttnLSTMModel)
register_architecture("lstm_structured", attention="structured", **STRUCTURED_SIZES)(AttnLSTMModel)
register_architecture("lstm_sigmoid", attention="sigmoid", **STRUCTURED_SIZES)(AttnLSTMModel)
# Encodings that tell words apart from the start: attention begins to align within the first epoch.
register_architecture("attn_lstm_small", embed_init_range=1.0, **SMALL_SIZES)(AttnLSTMModel)
