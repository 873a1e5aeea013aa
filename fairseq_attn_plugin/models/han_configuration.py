"""The configuration of hierarchical attention networks, and its checks."""

from dataclasses import dataclass
from typing import Any, List, Optional

from fairseq.dataclass import FairseqDataclass

from .. import attention as attentions
from ..modules.rnn import KINDS
from ..options import need, option
from .attention_options import offers_attention_options

__all__ = ["HANConfig", "check_options"]

# Options of a decoder's attention that a single query does not use. The model has its own attention_hidden_dim.
_UNUSED = ("attention_bias", "attention_max_normalize", "attention_hidden_dim")
ENCODERS = ("hierarchical", "flat")
POOLINGS = ("attention", "mean")


def document_attentions() -> List[str]:
    """The mechanisms that can pool a document by one query."""
    return [name for name in attentions.names() if "documents" in attentions.attention_class(name).takes]


@offers_attention_options(
    lambda mechanism, own: (
        "documents" in mechanism.takes and own.name not in _UNUSED and own.name not in attentions.BIASES.options()
    ),
)
@dataclass
class HANConfig(FairseqDataclass):
    """Options of ``han``; those of the attention mechanisms that can pool a document are added."""

    document_encoder: str = option(
        "hierarchical", "hierarchical: words to sentences to the document; flat: words to the document"
    )
    pooling: str = option("attention", "how values become one vector: attention, or their mean")
    rnn: str = option("lstm", "bidirectional network before each pooling: lstm, gru or none")
    matmul_precision: str = option("float32", "type of the matrix products in training: float32 or bfloat16")
    attention: str = option("soft", f"attention mechanism: {', '.join(document_attentions())}")
    attention_hidden_dim: Optional[int] = option(None, "width of the additive score (default: that of the values)")
    word_embed_dim: int = option(200, "dimension of the word embeddings")
    word_embeddings: Optional[str] = option(
        None,
        "text file of pretrained word vectors (word2vec, fastText, GloVe) to start from",
        file=True,
    )
    freeze_word_embeddings: bool = option(False, "do not train the word embeddings")
    word_hidden_size: int = option(50, "units of the network over words, per direction")
    sentence_hidden_size: int = option(50, "units of the network over sentences, per direction")
    dropout: float = option(0.0, "dropout of word, sentence and document vectors")
    word_dropout: float = option(0.0, "probability with which a word is replaced by the unknown word in training")


def check_options(cfg: Any) -> None:
    """Raises OptionError for options with wrong values."""
    for name, known in (("document_encoder", ENCODERS), ("pooling", POOLINGS), ("rnn", (*KINDS, "none"))):
        need(cfg[name] in known, cfg, name, f"one of {', '.join(known)}")
    attentions.attention_class(cfg.attention)
    pooling = document_attentions()
    need(cfg.attention in pooling, cfg, "attention", f"one of {', '.join(pooling)} to classify documents")
    for name in ("word_embed_dim", "word_hidden_size", "sentence_hidden_size"):
        need(cfg[name] >= 1, cfg, name, "at least 1")
    for name in ("dropout", "word_dropout"):
        need(0 <= cfg[name] < 1, cfg, name, "at least 0 and less than 1")
