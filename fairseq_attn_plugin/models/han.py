"""Hierarchical attention networks for document classification (Yang et al. 2016), and their plain relatives.

    word vectors       h_it = [LSTM(w_it); reversed LSTM(w_it)]
    sentence vectors   s_i  = sum_t a_it h_it,   a_i = attention(q_word, h_i)
    document vector    v    = sum_i a_i g_i,     a   = attention(q_sentence, g),   g = [LSTM(s); reversed LSTM(s)]
    classes            p    = softmax(W v + b)

with trained vectors q_word and q_sentence. ``han`` has these equations; ``han_flat`` attends once, to the word
embeddings of the whole document; ``han_mean`` takes means instead of attention. A document is one line of
``src_tokens`` in which every sentence ends with ``</s>`` (``text.documents`` writes such lines). The
models work with stock fairseq's task and criterion ``sentence_prediction``, and with ``document_classification``.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Optional, Tuple, Type

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_DATACLASS_REGISTRY, BaseFairseqModel, register_model
from torch import Tensor, nn

from .. import attention as attentions
from ..added_options import keep_adding
from ..errors import OptionError
from ..modules.document_pooling import AttentionPooling, layout_of, mean_pooling
from ..modules.embeddings import word_embedding
from ..modules.encoders.ragged import BlockRNN, RaggedEncoder
from ..modules.rnn import KINDS, Dropout, uniform_
from ..ops.deferred import Linear
from ..ops.precision import PRECISIONS, precision_of, products_in
from ..options import at_least, need, need_one_of, option
from ..text.documents import class_names
from .architectures import register_architecture
from .unused_options import check_attention_options, check_idle

# Options of a decoder's attention that a single query does not use. The model has its own attention_hidden_dim.
_UNUSED = ("attention_bias", "attention_max_normalize", "attention_hidden_dim")


def _document_attentions() -> List[str]:
    """The mechanisms that can pool a document by one query."""
    return [name for name in attentions.names() if "documents" in attentions.attention_class(name).takes]


def _score(cfg: Any) -> Optional[str]:
    """The score; None: the mechanism's own."""
    if cfg["attention_score"] is None and cfg["attention"] == "soft":
        return "additive"  # the paper's
    return cfg["attention_score"]


@dataclass
class HANConfig(FairseqDataclass):
    """Options of ``han``; those of the attention mechanisms that can pool a document are added."""

    document_encoder: str = option(
        "hierarchical", "hierarchical: words to sentences to the document; flat: words to the document"
    )
    pooling: str = option("attention", "how values become one vector: attention, or their mean")
    rnn: str = option("lstm", "bidirectional network before each pooling: lstm, gru or none")
    matmul_precision: str = option("float32", "type of the matrix products in training: float32 or bfloat16")
    attention: str = option("soft", f"attention mechanism; one of {', '.join(_document_attentions())}")
    attention_hidden_dim: Optional[int] = option(None, "width of the additive score (default: that of the values)")
    word_embed_dim: int = option(200, "dimension of the word embeddings")
    word_embeddings: Optional[str] = option(
        None, "text file of pretrained word vectors (word2vec, fastText, GloVe) to start from", file=True
    )
    freeze_word_embeddings: bool = option(False, "do not train the word embeddings")
    word_hidden_size: int = option(50, "units of the network over words, per direction")
    sentence_hidden_size: int = option(50, "units of the network over sentences, per direction")
    dropout: float = option(0.0, "dropout of word, sentence and document vectors")
    word_dropout: float = option(0.0, "probability with which a word is replaced by the unknown word in training")


def _options_of_pooling() -> Dict[str, attentions.Option]:
    mechanisms = map(attentions.attention_class, _document_attentions())
    taken = {name: own for mechanism in mechanisms for name, own in attentions.options_taken(mechanism).items()}
    return {name: own for name, own in taken.items() if name not in (*_UNUSED, *attentions.BIASES.options())}


keep_adding(HANConfig, _options_of_pooling, "model", MODEL_DATACLASS_REGISTRY)


@register_model("han", dataclass=HANConfig)
class HANModel(BaseFairseqModel):
    """A document classifier; see the module's text.

    ``classification_heads`` holds one layer of classes for each name, as stock fairseq's task needs it.
    """

    base_config: ClassVar[Type[Any]] = HANConfig
    matmul_precision = torch.float32

    def __init__(
        self,
        dictionary: Any,
        embed_words: nn.Embedding,
        words: RaggedEncoder,
        sentences: Optional[RaggedEncoder],
        dropout: float,
        word_dropout: float,
    ):
        super().__init__()
        self.register_buffer("class_names", torch.zeros(0, dtype=torch.uint8))  # UTF-8, blanks between them
        self.dictionary, self.embed_words = dictionary, embed_words
        self.words, self.sentences = words, sentences
        self.word_dropout = word_dropout
        self.dropout_module = Dropout(dropout, module_name=type(self).__name__)
        self.output_dim = words.output_dim if sentences is None else sentences.output_dim
        self.classification_heads = nn.ModuleDict()

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "HANModel":
        """Builds the model from its configuration.

        Raises:
            OptionError: options with wrong values
        """
        need_one_of(cfg, document_encoder=("hierarchical", "flat"), pooling=("attention", "mean"))
        need_one_of(cfg, rnn=(*KINDS, "none"), matmul_precision=PRECISIONS)
        attentions.attention_class(cfg.attention)
        pooling = _document_attentions()
        need(cfg.attention in pooling, cfg, "attention", f"one of {', '.join(pooling)} to classify documents")
        at_least(cfg, word_embed_dim=1, word_hidden_size=1, sentence_hidden_size=1)
        dictionary = task.source_dictionary

        def encoder(input_dim: int, hidden_size: int) -> RaggedEncoder:
            rnn = None if cfg.rnn == "none" else BlockRNN(cfg.rnn, input_dim, hidden_size)
            dim = input_dim if rnn is None else rnn.output_dim
            return RaggedEncoder(rnn, cls.build_pooling(cfg, dim), dim)

        names = "--word-embeddings", "--word-embed-dim"
        embedding = word_embedding(
            dictionary, cfg.word_embed_dim, cfg.word_embeddings, cfg.freeze_word_embeddings, *names
        )
        words = encoder(cfg.word_embed_dim, cfg.word_hidden_size)
        hierarchical = cfg.document_encoder == "hierarchical"
        sentences = encoder(words.output_dim, cfg.sentence_hidden_size) if hierarchical else None
        model = cls(dictionary, embedding, words, sentences, cfg.dropout, cfg.word_dropout)
        model.matmul_precision = PRECISIONS[cfg.matmul_precision]
        labels = getattr(task, "label_dictionary", None)
        if labels is not None:
            model.class_names = torch.tensor(list(" ".join(class_names(labels)).encode()), dtype=torch.uint8)
        return model

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> None:
        """Compares the classes of a checkpoint with those of the data by name: other data may number them differently.

        Raises:
            OptionError: the labels of the data differ from those of the training, or are in another order
        """
        super().upgrade_state_dict_named(state_dict, name)
        key = f"{name}.class_names" if name else "class_names"
        saved = state_dict.get(key)
        theirs = "" if saved is None else bytes(saved.tolist()).decode()
        ours = bytes(self.class_names.tolist()).decode()
        if theirs and ours and theirs != ours:
            raise OptionError(
                f"label/dict.txt of the data: has the labels {ours}, the model's classes are {theirs}, in this order; "
                "binarise labels with --srcdict and the label/dict.txt of the training data"
            )
        state_dict[key] = self.class_names.clone()

    @classmethod
    def check_training(cls, cfg: Any) -> None:
        """Raises OptionError for options that have no effect in a training."""
        model = cfg["model"]
        defaults = MODEL_DATACLASS_REGISTRY[model["_name"]]()
        off = "--pooling mean" if model["pooling"] == "mean" else None
        check_attention_options(model, defaults, off, _score(model))
        without = {}
        # not of layers that the architecture lacks: recipes give the same sizes to han and han_flat
        if model["document_encoder"] == "flat" and defaults.document_encoder != "flat":
            without["sentence_hidden_size"] = "with --document-encoder flat"
        if model["rnn"] == "none" and defaults.rnn != "none":
            without.update(dict.fromkeys(("word_hidden_size", "sentence_hidden_size"), "with --rnn none"))
        check_idle(model, defaults, without)

    @classmethod
    def build_pooling(cls, cfg: Any, dim: int) -> Any:
        if cfg.pooling == "mean":
            return mean_pooling
        mechanism = attentions.attention_class(cfg.attention)
        options = {name: cfg[name] for name in attentions.options_taken(mechanism) if name in cfg}
        options["attention_score"] = _score(cfg)
        return AttentionPooling(cfg.attention, dim, **options)

    def register_classification_head(self, name: str, num_classes: int, **unused: Any) -> None:
        """Adds a layer from document vectors to classes, as stock fairseq's task asks for it."""
        head = uniform_(Linear(self.output_dim, num_classes))
        self.classification_heads[name] = head.to(self.embed_words.weight)  # device and precision of a model in use

    def forward(
        self, src_tokens: Tensor, classification_head_name: Optional[str] = None, **unused: Any
    ) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Classifies a batch of documents.

        Args:
            src_tokens: ``[B, N]``, padded on either side; every sentence ends with ``</s>``
            classification_head_name: which layer of classes; None returns the document vectors ``[B, D]``

        Returns:
            logits ``[B, C]``, and a dictionary: ``word_attention`` ``[B, N]``, the weight of each word in its sentence
            (in its document where the encoder is flat), zero where there is no word; unless it is flat also
            ``sentences`` ``[B, N]``, the number of each word's sentence, -1 where there is no word, and
            ``sentence_attention`` ``[B, S]``. Sentences without words are not counted. The vector of a document
            without words is zero.
        """
        with products_in(precision_of(self)):
            vectors, weights = self.encode(src_tokens)
            if classification_head_name is None:
                return vectors, weights
            return self.classification_heads[classification_head_name](self.dropout_module(vectors)), weights

    def encode(self, src_tokens: Tensor) -> Tuple[Tensor, Dict[str, Tensor]]:
        """Document vectors ``[B, D]`` and the dictionary of :meth:`forward`."""
        symbols = self.dictionary
        # The only synchronisation with a GPU: the CPU lays out the blocks.
        layout = layout_of(
            src_tokens.cpu().numpy(), symbols.pad(), symbols.bos(), symbols.eos(), self.sentences is not None
        )
        device = src_tokens.device
        places = torch.from_numpy(layout.places).to(device)
        words = src_tokens.reshape(-1).index_select(0, places)
        if self.training and self.word_dropout:
            words = words.masked_fill(torch.rand(words.shape, device=device) < self.word_dropout, symbols.unk())
        vectors, word_weights = self.words(
            lambda index: self.dropout_module(self.embed_words(words.index_select(0, index))),
            layout.sentence_starts,
            layout.sentence_lengths,
            device,
        )
        attention = {"word_attention": _scatter(word_weights, places, src_tokens, 0.0)}
        if self.sentences is None:
            # The sequences have no row for a document without words.
            present = torch.from_numpy(layout.document_lengths.nonzero()[0]).to(device)
            return vectors.new_zeros(len(src_tokens), vectors.size(-1)).index_copy(0, present, vectors), attention
        documents = layout.places // src_tokens.size(1)
        numbers = layout.sentence_of - layout.document_starts[documents]
        attention["sentences"] = _scatter(torch.from_numpy(numbers).to(device), places, src_tokens, -1)
        sentences = self.dropout_module(vectors)
        vectors, sentence_weights = self.sentences(
            lambda index: sentences.index_select(0, index), layout.document_starts, layout.document_lengths, device
        )
        lengths = torch.from_numpy(layout.document_lengths).to(device)
        columns = torch.arange(int(layout.document_lengths.max(initial=0)), device=device)
        table = sentence_weights.new_zeros(len(src_tokens), len(columns))
        attention["sentence_attention"] = table.masked_scatter(columns < lengths.unsqueeze(1), sentence_weights)
        return vectors, attention


def _scatter(values: Tensor, places: Tensor, like: Tensor, fill: float) -> Tensor:
    """``[B, N]`` like ``like`` with ``values`` at ``places`` of it and ``fill`` elsewhere."""
    return values.new_full((like.numel(),), fill).index_copy(0, places, values).view(like.shape)


register_architecture("han_flat", document_encoder="flat", rnn="none")(HANModel)
register_architecture("han_mean", pooling="mean")(HANModel)
