"""The corpus of the agent: the words of its training pairs, and word vectors of both languages in one space.

The vectors come from word2vec or fastText text files, such as those of MUSE (:func:`read_vectors`), or from the
training pairs (:func:`vectors_of_pairs`):

    x_ws = 1 / n_s   if sentence pair s, with n_s different words on both sides together, contains the word w, else 0

The words of both languages are rows of one matrix over sentence pairs, the inverted index of Søgaard et al.
("Inverted indexing for cross-lingual NLP", 2015). Levy et al. ("A strong baseline for learning cross-lingual word
embeddings from sentence alignments", 2017) compare weightings of it. Here each row is divided by its length, and a
truncated singular value decomposition (U S) reduces the matrix to ``dim`` columns. Without the division the most
frequent words dominate the reduced space. With it the weights matter little; 1 / n_s was the best.

In all arrays a row belongs to a word of a fairseq dictionary. It has length one, or is zero if the word has no vector.
Special symbols never have a vector.
"""

import os
from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.word_vectors import ordinary_words, read_word_vectors


class TrainingPairs(NamedTuple):
    """The words of a training split: the k-th word of a side is ``*_words[k]``, in the sentence pair ``*_pairs[k]``.

    The end of the sentence and the other special symbols are left out.
    """

    source_words: np.ndarray
    source_pairs: np.ndarray
    target_words: np.ndarray
    target_pairs: np.ndarray
    sentences: int


def translation_task(data: str) -> Any:
    """fairseq's task of the corpus in the folder ``data``, in the languages of its files.

    Raises ``OptionError`` for another folder.
    """
    from fairseq.data.data_utils import infer_language_pair
    from fairseq.tasks.translation import TranslationConfig, TranslationTask

    if not os.path.isdir(data):
        raise OptionError(f"{data}: is not a folder; give one that fairseq-preprocess wrote")
    source, target = infer_language_pair(data)
    if not source or not target:
        raise OptionError(f"{data}: is no data of two languages; give a folder that fairseq-preprocess wrote")
    config = TranslationConfig(data=data, source_lang=source, target_lang=target, dataset_impl=None)
    # fields that hydra would fill in
    config.train_subset, config.required_seq_len_multiple = "train", 1
    try:
        return TranslationTask.setup_task(config)
    except FileNotFoundError as error:
        raise OptionError(f"{data}: has no {os.path.basename(str(error.filename or error))}") from None


def read_training_pairs(task: Any, data: str) -> TrainingPairs:
    """The training split of a fairseq translation task; raises ``OptionError`` as :func:`read_target_words` does."""
    where = f"{data}: its training split"
    dataset = _split_of(task, "train", where)
    source = _words_and_pairs(dataset.src, task.source_dictionary, f"{where} has no words of the source")
    target = _words_and_pairs(dataset.tgt, task.target_dictionary, f"{where} has no words of the target")
    return TrainingPairs(*source, *target, len(dataset.src))


def read_target_words(task: Any, data: str, split: str) -> np.ndarray:
    """The ordinary words of the target side of a split, one after the other.

    Raises ``OptionError``, which names ``--start-split``, if the folder ``data`` has no such split, or no words in it.
    """
    where = f"--start-split {split}: that split of {data}"
    dataset = _split_of(task, split, where)
    return _words_and_pairs(dataset.tgt, task.target_dictionary, f"{where} has no words of the target")[0]


def _split_of(task: Any, split: str, where: str) -> Any:
    try:
        task.load_dataset(split)
    except FileNotFoundError:
        raise OptionError(f"{where} is not there; binarise it with fairseq-preprocess") from None
    dataset = task.dataset(split)
    if getattr(dataset, "tgt", None) is None:
        raise OptionError(f"{where} has no target side")
    return dataset


def _words_and_pairs(sentences: Any, dictionary: Any, message: str) -> Tuple[np.ndarray, np.ndarray]:
    """The ordinary words of one side, and the numbers of their sentence pairs."""
    ordinary = ordinary_words(dictionary)
    parts: List[np.ndarray] = []
    for number in tqdm(range(len(sentences)), desc="words", unit=" sentences", disable=None, leave=False):
        words = np.asarray(sentences[number])
        parts.append(words[ordinary[words]].astype(np.int32))
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    if not lengths.sum():
        raise OptionError(message)
    return np.concatenate(parts), np.repeat(np.arange(len(parts), dtype=np.int32), lengths)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """``vectors`` [V, d] in float32 with rows of length one; zero rows stay zero."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0).astype(np.float32)


def vectors_of_pairs(
    pairs: TrainingPairs, sizes: Tuple[int, int], dim: int = 100, min_count: int = 5, seed: int = 1
) -> Tuple[np.ndarray, np.ndarray]:
    """Vectors of the words of both languages over sentence pairs, by the formula of the module's docstring.

    Args:
        pairs: the training split
        sizes: sizes of the source and the target vocabulary
        dim: width of the vectors; at most the number of words and of sentence pairs
        min_count: a word that occurs less often in its side of the split gets no vector
        seed: of the random projection that starts the decomposition

    Returns:
        ``[Vs, d]`` and ``[Vt, d]``

    Raises:
        OptionError: no word of a side is frequent enough, or scikit-learn is not installed
    """
    try:
        from sklearn.decomposition import TruncatedSVD
    except ImportError:
        raise OptionError(
            "making embeddings from the training pairs needs scikit-learn: pip install "
            "'fairseq_attn_plugin[analysis]'; or give a file with --embeddings"
        ) from None
    # the words of the target follow those of the source
    words = np.concatenate([pairs.source_words.astype(np.int64), pairs.target_words.astype(np.int64) + sizes[0]])
    frequent = np.bincount(words, minlength=sum(sizes)) >= min_count
    for side, of_side in zip(("source", "target"), np.split(frequent, sizes[:1])):
        if not of_side.any():
            raise OptionError(f"--min-count {min_count}: no word of the {side} is that frequent in the training split")
    matrix = _unit_matrix(pairs, words, np.flatnonzero(frequent), sum(sizes))
    components = min(dim, *matrix.shape)
    vectors = np.zeros((sum(sizes), components), dtype=np.float32)
    vectors[frequent] = unit_rows(TruncatedSVD(components, n_iter=4, random_state=seed).fit_transform(matrix))
    return vectors[: sizes[0]], vectors[sizes[0] :]


def _unit_matrix(pairs: TrainingPairs, words: np.ndarray, kept: np.ndarray, size: int) -> Any:
    """The sparse matrix x of ``size`` words of both languages, rows ``kept`` only, each divided by its length.

    Rare words have no row but count in n_s, the different words of a pair.
    """
    from scipy.sparse import csr_matrix, diags

    entries = (np.ones(len(words), dtype=np.float32), (words, np.concatenate([pairs.source_pairs, pairs.target_pairs])))
    matrix = csr_matrix(entries, shape=(size, pairs.sentences))
    matrix.data[:] = 1.0  # scipy adds up repeated words of a pair
    different = np.asarray(matrix.sum(axis=0)).ravel()
    matrix = matrix[kept] @ diags(1 / np.maximum(different, 1))
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return csr_matrix(diags(1 / lengths) @ matrix, dtype=np.float32)


def read_vectors(path: str, dictionaries: Sequence[Any], option: str) -> List[np.ndarray]:
    """Vectors of :func:`fairseq_attn_plugin.text.word_vectors.read_word_vectors`, divided by their lengths."""
    return [unit_rows(vectors) for vectors in read_word_vectors(path, dictionaries, option)]


class Vectors(NamedTuple):
    """Word vectors of both vocabularies, and their origin."""

    source: np.ndarray
    target: np.ndarray
    origin: str


def find_vectors(args: Any, task: Any, pairs: TrainingPairs) -> Vectors:
    """The vectors of the vocabularies of a task, by the options of :func:`.word_table.add_agent_options`.

    Raises ``OptionError`` for an unreadable file, files of different widths, or a vocabulary without any vector.
    """
    dictionaries = (task.source_dictionary, task.target_dictionary)
    if not args.embeddings:
        sizes = (len(dictionaries[0]), len(dictionaries[1]))
        made = vectors_of_pairs(pairs, sizes, min_count=args.min_count, seed=args.seed)
        return Vectors(*made, "training pairs")
    if len(args.embeddings) > 2:
        raise OptionError(f"--embeddings: {len(args.embeddings)} files are given; must be one, or one a language")
    files = (args.embeddings[0], args.embeddings[-1])
    if files[0] == files[1]:
        found = read_vectors(files[0], dictionaries, "--embeddings")
    else:
        found = [read_vectors(file, [one], "--embeddings")[0] for file, one in zip(files, dictionaries)]
    widths = [vectors.shape[1] for vectors in found]
    if widths[0] != widths[1]:
        raise OptionError(
            f"--embeddings {' '.join(files)}: have vectors of width {widths[0]} and {widths[1]}; must be of one space"
        )
    languages = (("source", task.cfg.source_lang), ("target", task.cfg.target_lang))
    for file, vectors, (side, language) in zip(files, found, languages):
        if not vectors.any():
            raise OptionError(f"--embeddings {file}: has no vector for any word of the {side} vocabulary ({language})")
    return Vectors(found[0], found[1], f"--embeddings {' '.join(args.embeddings)}")


def coverage(vectors: np.ndarray, dictionary: Any, words: np.ndarray) -> str:
    """The share of the vocabulary, and of the running text of the training split, that has a vector."""
    has = np.any(vectors, axis=1)
    ordinary = ordinary_words(dictionary)
    return (
        f"{int(has.sum())} of {int(ordinary.sum())} words have a vector, {np.mean(has[words]):.1%} of the running text"
    )
