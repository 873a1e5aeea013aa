"""Word embeddings of models, at random or from a text file of word vectors."""

import logging
from typing import Any, Optional

import torch
from fairseq import utils
from torch import nn

from ..errors import OptionError
from ..text.word_vectors import read_word_vectors
from .rnn import uniform_

__all__ = ["classifier_embedding", "translation_embedding"]

logger = logging.getLogger(__name__)


def _random(dictionary: Any, dim: int) -> nn.Embedding:
    embedding = nn.Embedding(len(dictionary), dim, padding_idx=dictionary.pad())
    uniform_(embedding)
    nn.init.zeros_(embedding.weight[dictionary.pad()])
    return embedding


def translation_embedding(dictionary: Any, dim: int, path: Optional[str], freeze: bool, option: str) -> nn.Embedding:
    """Embeddings of a translation model, as stock fairseq reads them from ``path`` if there is one.

    Args:
        dictionary: fairseq's dictionary
        dim: units of an embedding
        path: text file of word vectors with a header line, or None
        freeze: whether they are excluded from training
        option: the option that names the file, for messages

    Raises:
        OptionError: the file cannot be read, or its vectors have another dimension
    """
    embedding = _random(dictionary, dim)
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


def classifier_embedding(dictionary: Any, dim: int, path: Optional[str], freeze: bool) -> nn.Embedding:
    """Embeddings of a document classifier, from ``--word-embeddings`` if it is given.

    The file may be of word2vec, fastText or GloVe (:func:`fairseq_attn_plugin.word_vectors.read_word_vectors`).

    Raises:
        OptionError: the file cannot be read, its vectors have another dimension, or it has no word of the vocabulary
    """
    embedding = _random(dictionary, dim)
    if path is not None:
        (vectors,) = read_word_vectors(path, [dictionary], "--word-embeddings")
        if vectors.shape[1] != dim:
            raise OptionError(
                f"--word-embeddings {path}: its vectors have {vectors.shape[1]} dimensions; give --word-embed-dim "
                f"{vectors.shape[1]} (now {dim})"
            )
        found = torch.from_numpy(vectors.any(axis=1))
        words = len(dictionary) - dictionary.nspecial
        if not found.any():
            raise OptionError(f"--word-embeddings {path}: has a vector for none of the {words} words of the vocabulary")
        logger.info(f"--word-embeddings {path}: vectors of {int(found.sum())} of {words} words")
        with torch.no_grad():
            embedding.weight[found] = torch.from_numpy(vectors)[found]
    embedding.weight.requires_grad = not freeze
    return embedding
