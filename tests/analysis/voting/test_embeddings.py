"""Word vectors of two languages: text files with all their oddities, the training pairs, a model's own."""

import gzip
import sys

import numpy as np
import pytest
from fairseq.data import Dictionary
from refusals import refuses

from fairseq_attn_plugin.analysis.voting.embeddings import (
    TrainingPairs,
    read_training_pairs,
    read_vectors,
    translation_task,
    vectors_of_pairs,
)
from fairseq_attn_plugin.errors import OptionError


def dictionary(*words):
    result = Dictionary()
    for word in words:
        result.add_symbol(word)
    return result


ENGLISH, SPANISH = dictionary("dog", "cat", "no", "<s>"), dictionary("perro", "gato", "no", "añejo")


def write(folder, text):
    path = folder / "vectors.vec"
    path.write_bytes(text.encode("utf-8"))
    return str(path)


def row(vectors, words, word):
    return vectors[words.index(word)].tolist()


VECTORS = "the 9 9\ndog 3 4\nno 0 -2.5e1\nperro -6 8\nañejo 1 0\n</s> 1 1\n"


@pytest.mark.parametrize(
    "text",
    [
        VECTORS,
        "6 2\n" + VECTORS,
        VECTORS.replace("\n", " \n"),  # as fastText ends its lines
        VECTORS.replace("\n", "\r\n"),
        VECTORS.replace(" ", "\t"),
        VECTORS[:-1],
        VECTORS + "dog 1 0\n",  # of a word that comes twice the first counts
        "of the 1 2\n1\u00a02 3 4\n\u2028 5 6\n".replace("of the", "the") + VECTORS,  # no space, no end of line
        VECTORS + "New York 1 2\nname . 1 2\n",  # a word with a space, which no vocabulary has
        VECTORS + "the nan inf\n",  # numbers that nobody needs
    ],
)
def test_reads_text_files(tmp_path, text):
    english, spanish = read_vectors(write(tmp_path, text), [ENGLISH, SPANISH], "--embeddings")
    assert english.shape == (len(ENGLISH), 2) and spanish.shape == (len(SPANISH), 2)
    assert row(english, ENGLISH, "dog") == pytest.approx([0.6, 0.8])
    assert row(spanish, SPANISH, "perro") == pytest.approx([-0.6, 0.8])
    assert row(spanish, SPANISH, "añejo") == [1, 0]
    assert row(english, ENGLISH, "no") == row(spanish, SPANISH, "no") == [0, -1]
    # cat and gato are not in the file, and the end of the sentence is not a word
    assert np.abs(english).sum(1).astype(bool).sum() == 2 and np.abs(spanish).sum(1).astype(bool).sum() == 3


START = r"^--embeddings-source \S*vectors.vec"


@refuses(
    ("dog 1 2\nthe 1 2 3\n", START + ", line 2: has 3 numbers after the word 'the', must have 2 as the first line"),
    ("2 3\nthe 1 2\n", START + ", line 2: has 2 numbers after the word 'the', must have 3 as the first line says"),
    ("the 1 2\ncat 1 nan\n", START + ", line 2: the values after the word 'cat' must be finite numbers"),
    ("the 1 2\ncat 1 1e39\n", START + ", line 2: the values after the word 'cat' must be finite numbers"),
    ("the\n", START + ", line 1: has 0 numbers after the word 'the', must have some"),
    ("", START + ": has no vectors"),
)
def test_malformed_files(text, tmp_path):
    read_vectors(write(tmp_path, text), [ENGLISH], "--embeddings-source")


def test_compressed_files(tmp_path):
    path = tmp_path / "wiki.vec.gz"
    path.write_bytes(gzip.compress(VECTORS.encode()))
    assert row(read_vectors(str(path), [ENGLISH], "--embeddings")[0], ENGLISH, "dog") == pytest.approx([0.6, 0.8])
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(OptionError, match="wiki.vec.gz: cannot be read: Compressed file ended"):
        read_vectors(str(path), [ENGLISH], "--embeddings")


def test_bytes_that_are_no_utf_8_in_a_word_that_nobody_needs_do_no_harm(tmp_path):
    path = tmp_path / "latin.vec"
    path.write_bytes("größe 1 2\ndog 0 2\n".encode("latin-1"))
    assert row(read_vectors(str(path), [ENGLISH], "--embeddings")[0], ENGLISH, "dog") == [0, 1]


def some_pairs(sentences=60, words=9, seed=3):
    """Sentence pairs in which target word w + 4 is mostly the translation of source word w, also as lists."""
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(sentences):
        source = rng.integers(4, 4 + words, size=rng.integers(1, 6)).tolist()
        target = [int(w) if rng.random() < 0.8 else int(rng.integers(4, 4 + words)) for w in source]
        lists.append((source, target))
    flat = [(np.concatenate([pair[i] for pair in lists])).astype(np.int32) for i in (0, 1)]
    numbers = [np.repeat(np.arange(sentences), [len(pair[i]) for pair in lists]) for i in (0, 1)]
    return TrainingPairs(flat[0], numbers[0], flat[1], numbers[1], sentences), lists


def slow_rows(lists, side, word):
    """The formula of the module for one word, its row brought to length one."""
    values = []
    for pair in lists:
        different = len(set(pair[0])) + len(set(pair[1]))
        values.append(1 / different if word in pair[side] else 0.0)
    length = sum(value**2 for value in values) ** 0.5
    return [value / length for value in values]


def test_vectors_of_pairs_are_those_of_the_formula():
    pairs, lists = some_pairs()
    sizes = (13, 15)  # two target words never occur
    counts = [np.bincount(pairs.source_words, minlength=13), np.bincount(pairs.target_words, minlength=15)]
    frequent = sorted(counts[0][4:])[2]  # two source words at least are too rare, unless they tie
    kept = [(side, w) for side in (0, 1) for w in range(4, 13) if counts[side][w] >= frequent]
    assert 3 < len(kept) < 18
    left, singular, _ = np.linalg.svd(np.array([slow_rows(lists, side, w) for side, w in kept]))
    for dim in (4, 100):
        vectors = vectors_of_pairs(pairs, sizes, dim, min_count=int(frequent))
        assert [part.shape for part in vectors] == [(13, min(dim, len(kept))), (15, min(dim, len(kept)))]
        found = np.array([vectors[side][w] for side, w in kept])
        expected = left[:, :dim] * singular[:dim]
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-3 if dim == 4 else 1e-5)
        assert sum(int(part.any(1).sum()) for part in vectors) == len(kept)


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.decomposition", None)
    with pytest.raises(OptionError, match=r"needs scikit-learn: pip install 'fairseq_attn_plugin\[analysis\]'"):
        vectors_of_pairs(some_pairs(10)[0], (13, 13))


def test_training_pairs(tiny_data):
    task = translation_task(str(tiny_data))
    pairs = read_training_pairs(task, str(tiny_data))
    assert pairs.sentences == 400
    for words, numbers, language, own in (
        (pairs.source_words, pairs.source_pairs, "xx", task.source_dictionary),
        (pairs.target_words, pairs.target_pairs, "yy", task.target_dictionary),
    ):
        lines = (tiny_data.parent / "text" / f"train.{language}").read_text().splitlines()
        expected = [(number, word) for number, line in enumerate(lines) for word in line.split()]
        assert [(number, own[word]) for number, word in zip(numbers.tolist(), words.tolist())] == expected
