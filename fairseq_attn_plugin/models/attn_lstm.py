"""LSTM encoder-decoder models with any attention mechanism, and the named architectures.

``attn_lstm`` has stock fairseq ``lstm``'s options and defaults plus ``--attention`` and its own; ``lstm_soft``,
``lstm_adm`` and ``lstm_adm_aqt`` are the same model with the sizes of the attention-density-matrix paper,
``lstm_gaussian`` and ``lstm_election`` have the same sizes and no attention network; ``lstm_structured`` and
``lstm_sigmoid`` have those of the structured-attention paper. Each is a dataclass model, so
that ``fairseq-train --arch NAME`` and ``model: {_name: NAME}`` in YAML mean the same.
"""

from dataclasses import dataclass, field, make_dataclass
from typing import Any, Callable, ClassVar, Dict, List, Optional, Type

from fairseq import utils
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import MODEL_REGISTRY, FairseqEncoderDecoderModel, register_model
from torch import Tensor, nn

from .. import attention as attentions
from .._options import need, option
from ..errors import OptionError
from ..modules.decoder import LSTMDecoder
from ..modules.encoder import LSTMEncoder, uniform_
from ..modules.teacher import take_parameters

__all__ = ["AttnLSTMConfig", "AttnLSTMModel", "register_architecture"]

INPUT_FEEDING = ("output", "context", "none")


@dataclass
class _BaseConfig(FairseqDataclass):
    attention: str = option("soft", "attention mechanism")
    input_feeding: str = option("output", "what is fed to the next step: output (attentional output), context, or none")
    dropout: float = option(0.1, "dropout probability")
    encoder_embed_dim: int = option(512, "encoder embedding dimension")
    encoder_embed_path: Optional[str] = option(None, "path to pre-trained encoder embedding")
    encoder_freeze_embed: bool = option(False, "freeze encoder embeddings")
    encoder_hidden_size: Optional[int] = option(
        None, "encoder hidden size, per direction (default: --encoder-embed-dim)"
    )
    encoder_layers: int = option(1, "number of encoder layers")
    encoder_bidirectional: bool = option(False, "make all layers of encoder bidirectional")
    decoder_embed_dim: int = option(512, "decoder embedding dimension")
    decoder_embed_path: Optional[str] = option(None, "path to pre-trained decoder embedding")
    decoder_freeze_embed: bool = option(False, "freeze decoder embeddings")
    decoder_hidden_size: Optional[int] = option(None, "decoder hidden size (default: --decoder-embed-dim)")
    decoder_layers: int = option(1, "number of decoder layers, free of the encoder's")
    decoder_out_embed_dim: int = option(512, "decoder output embedding dimension")
    decoder_attention: str = option("True", "decoder attention; False decodes from the encoder's last state alone")
    decoder_zero_init: bool = option(False, "start the decoder from zeros instead of the encoder's last states")
    adaptive_softmax_cutoff: Optional[str] = option(
        None, "comma-separated cut-offs of an adaptive softmax; must be used with the adaptive_loss criterion"
    )
    share_decoder_input_output_embed: bool = option(False, "share decoder input and output embeddings")
    share_all_embeddings: bool = option(
        False, "share encoder, decoder and output embeddings (requires shared dictionary and embed dim)"
    )
    encoder_dropout_in: Optional[float] = option(None, "dropout of encoder embeddings (default: --dropout)")
    encoder_dropout_out: Optional[float] = option(
        None, "dropout of encoder outputs and between layers (default: --dropout)"
    )
    decoder_dropout_in: Optional[float] = option(None, "dropout of decoder embeddings (default: --dropout)")
    decoder_dropout_out: Optional[float] = option(
        None, "dropout of decoder outputs and between layers (default: --dropout)"
    )
    election_teacher: Optional[str] = option(
        None, "checkpoint of a model with attention: training starts from its parameters, all but the attention's"
    )
    lexicon: Optional[str] = option(
        None,
        "translation lexicon P(e | f): log(its probability by the attention + epsilon) is added to the logits; tabs "
        "between source, target and probability, as attn-analysis lexicon writes it",
    )
    lexicon_epsilon: float = option(1e-3, "what is added to the lexicon's probability: the smaller, the stronger it is")


def _with_attention_options(name: str, base: type) -> type:
    """``base`` with the options of every registered mechanism as further fields."""
    extra: List[Any] = []
    for own in attentions.options().values():
        if own.name in base.__dataclass_fields__:  # type: ignore[attr-defined]
            raise ValueError(f"an attention's option {own.name!r} has the name of an option of the model")
        extra.append((own.name, own.type, option(own.field.default, own.field.metadata["help"])))
    return make_dataclass(name, extra, bases=(base,), namespace={"__module__": __name__})


AttnLSTMConfig: Type[Any] = _with_attention_options("AttnLSTMConfig", _BaseConfig)


def _default(value: Any, fallback: Any) -> Any:
    return fallback if value is None else value


# fairseq's own parsers of such strings call eval(), and a configuration may come out of somebody else's checkpoint.
def _boolean(option: str, value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in words:
        raise OptionError(f"{option} {value}: must be True or False")
    return words[str(value).lower()]


def _integers(option: str, value: Any) -> List[int]:
    try:
        return [int(item) for item in str(value).strip("[]()").split(",")]
    except ValueError:
        raise OptionError(f"{option} {value}: must be integers with commas between them, as in 10000,50000") from None


def _check(config: Any, task: Any) -> None:
    """Raises OptionError for options that do not go together."""
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
        if not _boolean("--decoder-attention", config.decoder_attention):
            raise OptionError(
                f"--lexicon {config.lexicon}: is looked up for the words attended to, and there is no attention with "
                "--decoder-attention False; leave one of the two out"
            )


def _embedding(dictionary: Any, dim: int, path: Optional[str], freeze: bool, option: str) -> nn.Embedding:
    embedding = nn.Embedding(len(dictionary), dim, padding_idx=dictionary.pad())
    uniform_(embedding)
    nn.init.zeros_(embedding.weight[dictionary.pad()])
    if path:
        try:
            vectors = utils.parse_embedding(path)
        except (OSError, ValueError, IndexError) as error:
            raise OptionError(f"{option} {path}: cannot be read as a text file of word vectors ({error})") from None
        width = len(next(iter(vectors.values()), ()))
        if width != dim:
            raise OptionError(f"{option} {path}: its vectors have {width} dimensions, the model's embeddings {dim}")
        utils.print_embed_overlap(vectors, dictionary)
        embedding = utils.load_embedding(vectors, dictionary, embedding)
    embedding.weight.requires_grad = not freeze
    return embedding


@register_model("attn_lstm", dataclass=AttnLSTMConfig)
class AttnLSTMModel(FairseqEncoderDecoderModel):
    """LSTM encoder, LSTM decoder, and the attention that ``--attention`` names."""

    encoder: LSTMEncoder
    decoder: LSTMDecoder
    base_config: ClassVar[Type[Any]] = AttnLSTMConfig
    decoder_class: ClassVar[Type[LSTMDecoder]] = LSTMDecoder

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Adds the model's options to an argument parser."""
        # From the base's configuration: fairseq turns a flag whose default is True into its opposite, so that an
        # architecture that is bidirectional by default would become unidirectional by --encoder-bidirectional.
        gen_parser_from_dataclass(parser, cls.base_config(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "AttnLSTMModel":
        """Builds the model from its configuration.

        Raises:
            OptionError: options with wrong values, or that do not go together
        """
        cls.check(cfg, task)
        source, target = task.source_dictionary, task.target_dictionary
        limits = getattr(task, "cfg", None)
        source_embedding = _embedding(
            source, cfg.encoder_embed_dim, cfg.encoder_embed_path, cfg.encoder_freeze_embed, "--encoder-embed-path"
        )
        if cfg.share_all_embeddings:
            target_embedding = source_embedding
            source_embedding.weight.requires_grad &= not cfg.decoder_freeze_embed
        else:
            target_embedding = _embedding(
                target, cfg.decoder_embed_dim, cfg.decoder_embed_path, cfg.decoder_freeze_embed, "--decoder-embed-path"
            )
        encoder = LSTMEncoder(
            source,
            source_embedding,
            hidden_size=_default(cfg.encoder_hidden_size, cfg.encoder_embed_dim),
            num_layers=cfg.encoder_layers,
            bidirectional=cfg.encoder_bidirectional,
            dropout_in=_default(cfg.encoder_dropout_in, cfg.dropout),
            dropout_out=_default(cfg.encoder_dropout_out, cfg.dropout),
            max_source_positions=getattr(limits, "max_source_positions", 1e5),
        )
        hidden_size = _default(cfg.decoder_hidden_size, cfg.decoder_embed_dim)
        attention = cls.build_attention(cfg, hidden_size, encoder.output_units)
        if attention is not None:
            attention.read_files(source, target)
        cutoff = cfg.adaptive_softmax_cutoff
        decoder = cls.decoder_class(
            target,
            target_embedding,
            attention,
            memory_dim=encoder.output_units,
            hidden_size=hidden_size,
            num_layers=cfg.decoder_layers,
            out_embed_dim=cfg.decoder_out_embed_dim,
            input_feeding=cfg.input_feeding,
            zero_init=cfg.decoder_zero_init,
            dropout_in=_default(cfg.decoder_dropout_in, cfg.dropout),
            dropout_out=_default(cfg.decoder_dropout_out, cfg.dropout),
            share_input_output_embed=cfg.share_all_embeddings or cfg.share_decoder_input_output_embed,
            adaptive_softmax_cutoff=None if cutoff is None else _integers("--adaptive-softmax-cutoff", cutoff),
            max_target_positions=getattr(limits, "max_target_positions", 1e5),
        )
        decoder.lexicon.epsilon = cfg.lexicon_epsilon
        if cfg.lexicon is not None:
            decoder.lexicon.read(cfg.lexicon, source, target)
        model = cls(encoder, decoder)
        if cfg.election_teacher is not None:
            take_parameters(model, cfg.election_teacher)
        return model

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises OptionError for options with wrong values, or that do not go together."""
        _check(cfg, task)

    @classmethod
    def build_attention(cls, cfg: Any, query_dim: int, memory_dim: int) -> Optional[attentions.Attention]:
        mechanism = attentions.attention_class(cfg.attention)  # a wrong name is an error even where attention is off
        off = not _boolean("--decoder-attention", cfg.decoder_attention)
        taken = set() if off else {own.name for own in attentions.options_of(mechanism.Config)}
        for name, reader in (("gaussian_election", "gaussian or election"), ("election_table", "election")):
            if cfg[name] is not None and name not in taken:
                what = "a model with --decoder-attention False" if off else f"--attention {cfg.attention}"
                raise OptionError(
                    f"--{name.replace('_', '-')} {cfg[name]}: {what} does not read it; leave it out, or choose "
                    f"--attention {reader}"
                )
        if off:
            if cfg.attention_bias:
                raise OptionError(
                    f"--attention-bias {cfg.attention_bias}: there are no scores to add it to with --decoder-attention "
                    "False; leave one of the two out"
                )
            return None
        options = {own.name: cfg[own.name] for own in attentions.options_of(mechanism.Config)}
        return attentions.build_attention(cfg.attention, query_dim, memory_dim, **options)

    def forward(self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, **kwargs: Any) -> Any:
        """Returns logits ``[B, T, V]`` and ``{"attn": [weights [B, T, N]]}``."""
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, **kwargs)


def register_architecture(name: str, **defaults: Any) -> Callable[[Type[Any]], Type[Any]]:
    """Registers a model class under a further name whose configuration has other defaults.

    fairseq returns the earlier class for a duplicate name without a word; this raises ValueError.
    """
    if name in MODEL_REGISTRY:
        raise ValueError(f"the model {name!r} is registered already, by {MODEL_REGISTRY[name].__name__}")

    def register(cls: Type[Any]) -> Type[Any]:
        base = cls.base_config
        known: Dict[str, Any] = base.__dataclass_fields__
        fields = [
            (key, known[key].type, field(default=value, metadata=dict(known[key].metadata)))
            for key, value in defaults.items()
        ]
        title = "".join(part.title() for part in name.split("_"))
        config = make_dataclass(title + "Config", fields, bases=(base,), namespace={"__module__": __name__})
        # A subclass, because fairseq stores the dataclass on the model class.
        subclass = type(title, (cls,), {"__doc__": cls.__doc__, "__module__": __name__})
        globals()[config.__name__], globals()[title] = config, subclass  # where pickle looks for them
        return register_model(name, dataclass=config)(subclass)

    return register


# 2-layer BiLSTM encoder, 2-layer LSTM decoder, 256 units everywhere, dropout 0.2 (section 4.3 of the paper).
PAPER_SIZES: Dict[str, Any] = {
    "dropout": 0.2,
    "encoder_embed_dim": 256,
    "encoder_hidden_size": 256,
    "encoder_layers": 2,
    "encoder_bidirectional": True,
    "decoder_embed_dim": 256,
    "decoder_hidden_size": 256,
    "decoder_layers": 2,
    "decoder_out_embed_dim": 256,
}

register_architecture("lstm_soft", attention="soft", **PAPER_SIZES)(AttnLSTMModel)
register_architecture("lstm_adm", attention="mqt", **PAPER_SIZES)(AttnLSTMModel)
register_architecture("lstm_adm_aqt", attention="aqt", **PAPER_SIZES)(AttnLSTMModel)
register_architecture("lstm_gaussian", attention="gaussian", **PAPER_SIZES)(AttnLSTMModel)
register_architecture("lstm_election", attention="election", **PAPER_SIZES)(AttnLSTMModel)

# Kim et al. 2017, "Structured Attention Networks", section 4.2 and appendix: unidirectional LSTMs of 500 units, without
# input feeding.
STRUCTURED_SIZES: Dict[str, Any] = {
    "input_feeding": "none",
    "dropout": 0.3,
    "encoder_embed_dim": 500,
    "encoder_hidden_size": 500,
    "encoder_layers": 2,
    "decoder_embed_dim": 500,
    "decoder_hidden_size": 500,
    "decoder_layers": 2,
    "decoder_out_embed_dim": 500,
}

register_architecture("lstm_structured", attention="structured", **STRUCTURED_SIZES)(AttnLSTMModel)
register_architecture("lstm_sigmoid", attention="sigmoid", **STRUCTURED_SIZES)(AttnLSTMModel)

# 128 units everywhere: a processor trains it in an hour, for small corpora.
SMALL_SIZES: Dict[str, Any] = {
    "attention_score": "additive",
    "attention_hidden_dim": 128,
    "dropout": 0.2,
    "encoder_embed_dim": 128,
    "encoder_hidden_size": 128,
    "encoder_layers": 2,
    "encoder_bidirectional": True,
    "decoder_embed_dim": 128,
    "decoder_hidden_size": 128,
    "decoder_layers": 2,
    "decoder_out_embed_dim": 128,
}

register_architecture("attn_lstm_small", **SMALL_SIZES)(AttnLSTMModel)
