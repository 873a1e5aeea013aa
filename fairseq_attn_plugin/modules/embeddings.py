"""Word embeddings of models, at random or from a text file of word vectors."""

import logging
from typing import Any, Optional

import torch
from torch import nn

from ..errors import OptionError
from ..text.word_vectors import read_word_vectors
from .rnn import uniform_

logger = logging.getLogger(__name__)


def word_embedding(
    dictionary: Any, dim: int, path: Optional[str], freeze: bool, option: str, dim_option: str, bound: float = 0.1
) -> nn.Embedding:
    """Embeddings of the words of a dictionary, from a file of word2vec, fastText or GloVe if one is given
    (:func:`fairseq_attn_plugin.text.word_vectors.read_word_vectors`).

    Args:
        path: the file, or None
        freeze: whether embeddings are excluded from training
        option, dim_option: the options that give ``path`` and ``dim``, for messages
        bound: words without a vector are drawn uniformly from [-bound, bound]

    Raises:
        OptionError: the file cannot be read, its vectors have another dimension, or it has no word of the vocabulary
    """
    embedding = nn.Embedding(len(dictionary), dim, padding_idx=dictionary.pad())
    uniform_(embedding, bound)
    nn.init.zeros_(embedding.weight[dictionary.pad()])
    if path:
        (vectors,) = read_word_vectors(path, [dictionary], option)
        if vectors.shape[1] != dim:
            raise OptionError(
                f"{option} {path}: its vectors have {vectors.shape[1]} dimensions; give {dim_option} "
                f"{vectors.shape[1]} (now {dim})"
            )
        found = torch.from_numpy(vectors.any(axis=1))
        words = len(dictionary) - dictionary.nspecial
        if not found.any():
            raise OptionError(f"{option} {path}: has a vector for none of the {words} words of the vocabulary")
        logger.info(f"{option} {path}: vectors of {int(found.sum())} of {words} words")
        with torch.no_grad():
            embedding.weight[found] = torch.from_numpy(vectors)[found]
    embedding.weight.requires_grad = not freeze
    return embedding


def side_embedding(cfg: Any, side: str, dictionary: Any) -> nn.Embedding:
    """The embeddings of encoder or decoder, by their options."""
    dim, path, freeze = (cfg[f"{side}_{name}"] for name in ("embed_dim", "embed_path", "freeze_embed"))
    options = f"--{side}-embed-path", f"--{side}-embed-dim"
    return word_embedding(dictionary, dim, path, freeze, *options, bound=cfg.embed_init_range)
