"""Word vectors of two languages in one space, for the vocabularies of a binarised corpus.

They come from files of word2vec or fastText in text form, such as MUSE (:func:`read_vectors`), from the embeddings of
a trained model (:func:`teacher_vectors`), or from the training pairs themselves (:func:`vectors_of_pairs`):

    x_ws = 1 / n_s   if sentence pair s, which has n_s different words on both sides together, has the word w, else 0

The words of both languages are rows of one matrix over sentence pairs, the inverted index of Søgaard et al.
("Inverted indexing for cross-lingual NLP", 2015). Levy et al. ("A strong baseline for learning cross-lingual word
embeddings from sentence alignments", 2017) compare its weightings. Here each row is brought to length one and the
matrix reduced to ``dim`` columns by a truncated singular value decomposition (U S). The lengths decide: without them
the reduced space goes to the most frequent words, and fewer words have their translation as their nearest neighbour,
with counts, positive pointwise mutual information and tf-idf alike. With them the weights matter little (the idf of a
word is one factor on its row, which the length takes away again); 1 / n_s, by which short pairs say more than long
ones, was the best of them.

In all arrays a row is a word of a fairseq dictionary, of length one, or zero where the word has no vector. The special
symbols never have one.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.word_vectors import ordinary_words, read_word_vectors

__all__ = ["TrainingPairs", "read_training_pairs", "read_vectors", "teacher_vectors", "unit_rows", "vectors_of_pairs"]


class TrainingPairs(NamedTuple):
    """The words of a training split: the k-th word of a side is ``*_words[k]``, in the sentence pair ``*_pairs[k]``.

    End of sentence and the other special symbols are left out.
    """

    source_words: np.ndarray
    source_pairs: np.ndarray
    target_words: np.ndarray
    target_pairs: np.ndarray
    sentences: int


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """``vectors`` [V, d] with rows of length one; zero rows stay zero. float32."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0).astype(np.float32)


def read_training_pairs(task: Any, data: str) -> TrainingPairs:
    """The training split of a fairseq translation task.

    Raises ``OptionError`` if the folder ``data`` has none, or one without words or without a target side.
    """
    try:
        task.load_dataset("train")
    except FileNotFoundError:
        raise OptionError(
            f"{data}: has no training split; binarise it with fairseq-preprocess --trainpref, or name the languages"
        ) from None
    dataset = task.dataset("train")
    if getattr(dataset, "tgt", None) is None:
        raise OptionError(f"{data}: the training split has no target side")
    sides: List[np.ndarray] = []
    for sentences, dictionary in ((dataset.src, task.source_dictionary), (dataset.tgt, task.target_dictionary)):
        ordinary = ordinary_words(dictionary)
        count = len(sentences)
        lengths = np.empty(count, dtype=np.int64)
        parts = []
        for number in tqdm(range(count), desc="training split", unit=" sentences", disable=None, leave=False):
            words = np.asarray(sentences[number])
            parts.append(words[ordinary[words]].astype(np.int32))
            lengths[number] = len(parts[-1])
        flat = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
        if not len(flat):
            raise OptionError(f"{data}: the training split has no words of the {len(sides) and 'target' or 'source'}")
        sides += [flat, np.repeat(np.arange(count, dtype=np.int32), lengths)]
    return TrainingPairs(sides[0], sides[1], sides[2], sides[3], len(dataset.src))


def vectors_of_pairs(
    pairs: TrainingPairs, sizes: Tuple[int, int], dim: int = 100, min_count: int = 5, seed: int = 1
) -> Tuple[np.ndarray, np.ndarray]:
    """Vectors of the words of both languages over sentence pairs; the formula stands at the top of the module.

    Args:
        pairs: the training split
        sizes: sizes of the source and the target vocabulary
        dim: width of the vectors; at most as many as there are words and sentence pairs
        min_count: a word that its side of the split has less often gets no vector
        seed: of the random projection that the decomposition begins with

    Returns:
        ``[Vs, d]`` and ``[Vt, d]``

    Raises:
        OptionError: no word of a side is frequent enough, or scikit-learn is not installed
    """
    try:
        from scipy.sparse import csr_matrix, diags
        from sklearn.decomposition import TruncatedSVD
    except ImportError:
        raise OptionError(
            "making embeddings from the training pairs needs scikit-learn: pip install "
            "'fairseq_attn_plugin[analysis]'; or give a file with --embeddings"
        ) from None
    kept = []  # of each side the words that get a vector
    rows: List[np.ndarray] = []
    columns: List[np.ndarray] = []
    sides = ((pairs.source_words, pairs.source_pairs), (pairs.target_words, pairs.target_pairs))
    for (words, sentences), size, side in zip(sides, sizes, ("source", "target")):
        frequent = np.flatnonzero(np.bincount(words, minlength=size) >= min_count)
        if not len(frequent):
            raise OptionError(f"--min-count {min_count}: no word of the {side} is that frequent in the training split")
        kept.append(frequent)
        # the rows of the infrequent ones are dropped below; they count as words of their pair
        rows.append(words.astype(np.int64) + (len(rows) and sizes[0]))
        columns.append(sentences)
    row, column = np.concatenate(rows), np.concatenate(columns)
    shape = (sum(sizes), pairs.sentences)
    # entries of the same place are summed, whence one is made of them
    matrix = csr_matrix((np.ones(len(row), dtype=np.float32), (row, column)), shape=shape)
    matrix.data[:] = 1.0
    different = np.asarray(matrix.sum(axis=0)).ravel()
    matrix = matrix[np.concatenate([kept[0], kept[1] + sizes[0]])] @ diags(1 / np.maximum(different, 1))
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix = csr_matrix(diags(1 / lengths) @ matrix, dtype=np.float32)
    components = min(dim, *matrix.shape)
    reduced = unit_rows(TruncatedSVD(components, n_iter=4, random_state=seed).fit_transform(matrix))
    source = np.zeros((sizes[0], components), dtype=np.float32)
    target = np.zeros((sizes[1], components), dtype=np.float32)
    source[kept[0]], target[kept[1]] = np.split(reduced, [len(kept[0])])
    return source, target


def teacher_vectors(model: Any, path: str, pairs: TrainingPairs) -> Tuple[np.ndarray, np.ndarray]:
    """The embeddings of a model's encoder and decoder, of the words that the training split has.

    Raises ``OptionError``, which names ``--path``, if it has none or they differ in width.
    """
    result = []
    for part, words in (("encoder", pairs.source_words), ("decoder", pairs.target_words)):
        weight = getattr(getattr(getattr(model, part, None), "embed_tokens", None), "weight", None)
        if weight is None:
            raise OptionError(f"--path {path}: a {type(model).__name__} has no word embeddings of an {part} to take")
        vectors = weight.detach().float().cpu().numpy()
        # words that no update has seen have the vectors that the training began with
        seen = np.bincount(words, minlength=len(vectors)) > 0
        result.append(unit_rows(np.where(seen[:, None], vectors, 0.0)))
    source, target = result
    if source.shape[1] != target.shape[1]:
        raise OptionError(
            f"--path {path}: its source embeddings are {source.shape[1]} wide and its target embeddings "
            f"{target.shape[1]}; they must be equal, and share a space, as with --share-all-embeddings"
        )
    return source, target


def read_vectors(path: str, dictionaries: Sequence[Any], option: str) -> List[np.ndarray]:
    """As :func:`fairseq_attn_plugin.text.word_vectors.read_word_vectors`, of length one."""
    return [unit_rows(vectors) for vectors in read_word_vectors(path, dictionaries, option)]
