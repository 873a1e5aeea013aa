"""The configuration of LSTM encoder-decoder models: stock fairseq ``lstm``'s options and defaults, and our own."""

from dataclasses import dataclass
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY

from .. import attention as attentions
from ..added_options import keep_adding
from ..options import option


@dataclass
class AttnLSTMConfig(FairseqDataclass):
    """Options of ``attn_lstm``; those of the attention mechanisms are added."""

    attention: str = option("soft", "attention mechanism")
    input_feeding: str = option("output", "what is fed to the next step: output (attentional output), context, or none")
    output_layer: str = option(
        "tanh",
        "words are predicted from: tanh (attentional output, tanh(W_o [context; state])), or linear (context and state "
        "side by side, which --input-feeding output then feeds; --decoder-out-embed-dim has no effect)",
        before="tanh",
    )
    rnn: str = option("lstm", "recurrent layers of encoder and decoder: lstm or gru")
    encoder_rnn: Optional[str] = option(None, "those of the encoder (default: --rnn)")
    decoder_rnn: Optional[str] = option(None, "those of the decoder (default: --rnn)")
    encoder_arch: Optional[str] = option(
        None,
        "architecture of fairseq whose encoder takes the place of the recurrent one, such as transformer or fconv; its "
        "sizes are --encoder-embed-dim, --encoder-layers and --dropout",
    )
    encoder_options: Optional[str] = option(
        None,
        "further options of --encoder-arch, as in 'encoder-attention-heads=4 encoder-normalize-before' (default: those "
        "of the architecture)",
    )
    dropout: float = option(0.1, "dropout probability")
    encoder_embed_dim: int = option(512, "encoder embedding dimension")
    encoder_embed_path: Optional[str] = option(None, "path to pre-trained encoder embedding", file=True)
    encoder_freeze_embed: bool = option(False, "freeze encoder embeddings")
    encoder_hidden_size: Optional[int] = option(
        None, "encoder hidden size, per direction (default: --encoder-embed-dim)"
    )
    encoder_layers: int = option(1, "number of encoder layers")
    encoder_bidirectional: bool = option(False, "make all layers of encoder bidirectional")
    decoder_embed_dim: int = option(512, "decoder embedding dimension")
    decoder_embed_path: Optional[str] = option(None, "path to pre-trained decoder embedding", file=True)
    decoder_freeze_embed: bool = option(False, "freeze decoder embeddings")
    decoder_hidden_size: Optional[int] = option(None, "decoder hidden size (default: --decoder-embed-dim)")
    decoder_layers: int = option(1, "number of decoder layers, independent of the encoder's")
    decoder_out_embed_dim: int = option(512, "decoder output embedding dimension")
    decoder_attention: str = option("True", "decoder attention; False decodes from the encoder's last state alone")
    decoder_zero_init: bool = option(False, "start the decoder from zeros instead of the encoder's last states")
    decoder_init_dropout: float = option(
        0.0,
        "in training, the probability that a sentence's decoder starts from zeros, as with --decoder-zero-init",
        before=0.0,
    )
    forget_bias: Optional[float] = option(
        None,
        "initial bias of the forget gates of encoder and decoder, as in 1 (default: drawn around 0, as all parameters)",
    )
    embed_init_range: float = option(
        0.1,
        "new embeddings are drawn uniformly from -X to X; with 1 encodings tell words apart from the start, so that "
        "attention moves within a few hundred updates",
        before=0.1,
    )
    copy_attention: bool = option(
        False,
        "copy source words: a gate mixes the predicted words with the source words attended to (pointer-generator, See "
        "et al. 2017)",
    )
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
    matmul_precision: str = option(
        "float32",
        "type of the matrix products in training: float32, or bfloat16 with sums, parameters, cell states, softmax and "
        "loss in float32",
    )
    cuda_graphs: bool = option(
        False,
        "on a GPU: capture the training step of each shape of batches once and replay it; with --num-batch-buckets, "
        "which makes shapes few",
    )
    election_teacher: Optional[str] = option(
        None,
        "checkpoint of a model with attention: training starts from its parameters, all but the attention's",
        file=True,
    )
    lexicon: Optional[str] = option(
        None,
        "translation lexicon P(e | f): log(its probability by the attention + epsilon) is added to the logits; lines "
        "of source, target and probability separated by tabs, as fairseq-attn lexicon writes them",
        file=True,
    )
    lexicon_epsilon: float = option(
        1e-3, "added to the lexicon's probability; a smaller value gives the lexicon more weight"
    )


keep_adding(AttnLSTMConfig, attentions.options, "model", MODEL_DATACLASS_REGISTRY)
