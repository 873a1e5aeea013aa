"""The synthetic corpus: reproducible byte by byte, and correctly aligned; and requests that are refused."""

import hashlib

import pytest
from refusals import refuses
from sacrebleu.metrics import BLEU

from fairseq_attn_plugin.toy_corpus import generation as corpus
from fairseq_attn_plugin.toy_corpus import word_forms as lex
from fairseq_attn_plugin.toy_corpus.__main__ import main

SIZES = {"train": 1500, "valid": 100, "test": 200}


@pytest.fixture(scope="module")
def splits():
    return corpus.generate(1, SIZES)


@pytest.fixture(scope="module")
def pairs(splits):
    return [pair for split in splits.values() for pair in split]


def test_the_same_seed_gives_the_same_files(tmp_path, capsys):
    """Whatever the process, the version of Python and the size; and another seed other ones."""
    assert corpus.generate(1, {"train": 5})["train"] == corpus.generate(1, {"train": 50})["train"][:5]
    text = repr([tuple(pair) for pair in corpus.generate(1, {"train": 200})["train"]])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "d21a0e9b5b3ccd6d"
    for name, seed in (("a", 3), ("b", 4)):
        arguments = ["--out", tmp_path / name, "--seed", seed, "--train", 60, "--valid", 7, "--test", 8]
        main([str(argument) for argument in arguments])
    assert "train 60, valid 7, test 8" in capsys.readouterr().out
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{split}.{kind}" for split in corpus.SPLITS for kind in ("vr", "dm", "align"))
    for name in names:
        content = (tmp_path / "a" / name).read_bytes()
        assert content != (tmp_path / "b" / name).read_bytes()
        assert content.count(b"\n") == {"train": 60, "valid": 7, "test": 8}[name.split(".")[0]]


def test_links_are_within_bounds_and_only_the_words_without_counterpart_have_none(pairs):
    unaligned_source = {*lex.ARTICLES.values(), *lex.PRONOUNS.values()}
    unaligned_target = {lex.OBJECT_MARKER, lex.QUESTION_MARKER}
    for pair in pairs:
        assert list(pair.links) == sorted(set(pair.links))
        assert all(0 <= i < len(pair.source) and 0 <= j < len(pair.target) for i, j in pair.links)
        for side, words, unaligned in zip((0, 1), (pair.source, pair.target), (unaligned_source, unaligned_target)):
            linked = {link[side] for link in pair.links}
            for index, word in enumerate(words):
                assert (index in linked) == (word not in unaligned), (pair, word)


def test_sentences_are_different_end_with_their_mark_and_keep_to_the_length(splits, pairs):
    assert {split: len(found) for split, found in splits.items()} == SIZES
    assert len({pair.source for pair in pairs}) == len(pairs)
    for pair in pairs:
        assert pair.source[-1] == pair.target[-1] in (".", "?")
        assert (len(pair.source) - 1, len(pair.target) - 1) in pair.links
        assert (lex.QUESTION_MARKER in pair.target) == (pair.source[-1] == "?")
        assert 3 <= len(pair.source) <= corpus.LONGEST  # pronoun, verb, full stop


def test_neither_copying_nor_translating_from_left_to_right_gets_far(splits):
    references = [" ".join(pair.target) for pair in splits["test"]]
    in_source_order = []
    for pair in splits["test"]:
        order = dict.fromkeys(j for _, j in pair.links)  # links are sorted by source word
        in_source_order.append(" ".join(pair.target[j] for j in order))
    copied = [" ".join(pair.source) for pair in splits["test"]]
    bleu = BLEU(force=True)
    assert bleu.corpus_score(copied, [references]).score < 5
    assert bleu.corpus_score(in_source_order, [references]).score < 50
    assert bleu.corpus_score(references, [references]).score == pytest.approx(100)


@refuses(
    ("--train 0", "--train 0: must be at least 1"),
    ("--test -3", "--test -3: must be at least 1"),
    (f"--out {__file__} --train 1", "test_corpus.py: cannot be created: File exists"),
)
def test_impossible_requests_are_refused(options, tmp_path):
    yield lambda: main(["--out", str(tmp_path / "new"), *options.split()])
    assert not (tmp_path / "new").exists()
