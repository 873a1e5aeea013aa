"""Text of published corpora: splits of pairs, bare words, the IWSLT'14 archive, hypotheses in order."""

import gzip
import itertools
import random
import re

import pytest
from miniature_corpora import lines_of, tatoeba, write

from fairseq_attn_plugin.corpora.files import CorpusError
from fairseq_attn_plugin.corpora.parallel import (
    Treatment,
    bare_words,
    detokenize,
    drop_split,
    import_split,
    split_pairs,
    tokenize,
)
from fairseq_attn_plugin.corpora.subwords import segment

LANGUAGES = ("en", "es")


def shared_sentences(folder):
    """Sentences, up to case and punctuation, that occur on the same side of two splits."""
    found = []
    for language in LANGUAGES:
        parts = [
            {" ".join(re.findall(r"\w+", line.casefold())) for line in lines_of(folder, split, language)}
            for split in ("train", "valid", "test")
        ]
        found += [sentence for a, b in itertools.combinations(parts, 2) for sentence in a & b]
    return found


def test_no_sentence_is_in_two_splits(tmp_path):
    tatoeba(tmp_path)
    split_pairs(tmp_path, "spa.txt", LANGUAGES, tmp_path)
    assert not shared_sentences(tmp_path)
    sizes = [len(lines_of(tmp_path, split, "en")) for split in ("train", "valid", "test")]
    assert sum(sizes) == 630
    assert 0.85 < sizes[0] / 630 < 0.95


def test_the_split_ignores_the_order_of_lines(tmp_path):
    tatoeba(tmp_path)
    split_pairs(tmp_path, "spa.txt", LANGUAGES, tmp_path)
    lines = gzip.decompress((tmp_path / "spa.txt.gz").read_bytes()).splitlines(True)
    random.Random(1).shuffle(lines)
    shuffled = tmp_path / "shuffled"
    shuffled.mkdir()
    (shuffled / "spa.txt").write_bytes(b"".join(lines))
    split_pairs(shuffled, "spa.txt", LANGUAGES, shuffled)
    for split in ("train", "valid", "test"):
        assert sorted(lines_of(tmp_path, split, "es")) == sorted(lines_of(shuffled, split, "es"))


def test_pairs_of_equally_many_words_keep_their_split(tmp_path, capsys):
    tatoeba(tmp_path)
    for name, equal_words in (("all", False), ("equal", True)):
        (tmp_path / name).mkdir()
        split_pairs(tmp_path, "spa.txt", LANGUAGES, tmp_path / name, equal_words=equal_words)
    assert "note: 330 of 630 pairs have equally many words on both sides" in capsys.readouterr().out
    for split in ("train", "valid", "test"):
        every, kept = (
            list(zip(*(lines_of(tmp_path / name, split, language) for language in LANGUAGES)))
            for name in ("all", "equal")
        )
        assert kept == [(a, b) for a, b in every if len(a.split()) == len(b.split())]
        assert len(kept) < len(every)
    assert not shared_sentences(tmp_path / "equal")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a\tb", "alone"], "spa.txt, line 2: expected English TAB foreign"),
        ([], "spa.txt is empty"),
        (["a\tb"], "1 pairs are too few, the .* split is empty"),
        (None, r"spa.txt \(or spa.txt.gz\) is missing"),
    ],
)
def test_damaged_files_of_pairs_are_named(lines, message, tmp_path):
    if lines is not None:
        write(tmp_path / "spa.txt", lines)
    with pytest.raises(CorpusError, match=message):
        split_pairs(tmp_path, "spa.txt", LANGUAGES, tmp_path)


def test_a_group_of_many_pairs_goes_to_train(tmp_path):
    """The sentences of the group are hashed like those of others, but there are too many of them for a test set."""
    tatoeba(tmp_path)
    lines = gzip.decompress((tmp_path / "spa.txt.gz").read_bytes()).decode().splitlines()
    write(tmp_path / "spa.txt", lines + [f"Hello number {n}.\tHola." for n in range(30)], zipped=True)
    split_pairs(tmp_path, "spa.txt", LANGUAGES, tmp_path)
    assert sum(line == "Hola." for line in lines_of(tmp_path, "train", "es")) == 30


def test_bare_words_are_as_many_as_before():
    text = ["\u00bfEs de Tom\u2019s, \u00abel\u00bb?", "Add 5 + 10 \u2014 it's \u20ac7.50!", "well-known ... U.S."]
    assert list(map(bare_words, text)) == [
        "Es de Tom's el",
        "Add 5 + 10 \u2014 it's \u20ac7.50",
        "well-known ... U.S",
    ]


def test_tokenisation_by_several_processes_keeps_the_order():
    lines = [f"Sentence number {number}, isn't it?" for number in range(4100)]
    tokens = tokenize(lines, "en", jobs=2)
    assert tokens == tokenize(lines, "en", jobs=1)
    assert tokens[4099] == "Sentence number 4099 , isn &apos;t it ?"
    assert detokenize(tokens[:1], "en") == lines[:1]


def test_punctuation_is_normalised_unless_it_is_kept():
    assert tokenize(["a \u201eb\u201c"], "de", jobs=1) == ["a &quot; b &quot;"]
    assert tokenize(["a \u201eb\u201c"], "de", jobs=1, normalize=False) == ["a \u201e b \u201c"]


def test_only_a_newline_ends_a_sentence(tmp_path):
    for language in LANGUAGES:
        (tmp_path / f"a.{language}").write_bytes("\ufeffone\u2028two\x0bthree\nfour".encode())
    import_split(tmp_path, ("a.en", "a.es"), LANGUAGES, tmp_path / "b")
    assert lines_of(tmp_path, "b", "en") == ["one two three", "four"]


def test_empty_sides_are_dropped_in_pairs(tmp_path, capsys):
    write(tmp_path / "a.en", ["one", "", "three", "four"])
    write(tmp_path / "a.es", ["uno", "dos", " ", "cuatro"])
    import_split(tmp_path, ("a.en", "a.es"), LANGUAGES, tmp_path / "b", treatment=Treatment(drop_empty=True))
    assert lines_of(tmp_path, "b", "en") == ["one", "four"] and lines_of(tmp_path, "b", "es") == ["uno", "cuatro"]
    assert "note: dropped 2 pairs with an empty side" in capsys.readouterr().err
    write(tmp_path / "a.es", ["", "", "", ""])
    with pytest.raises(CorpusError, match="a.en has no pair with words on both sides"):
        import_split(tmp_path, ("a.en", "a.es"), LANGUAGES, tmp_path / "b", treatment=Treatment(drop_empty=True))


def test_a_corpus_of_long_pairs_alone_is_refused(tmp_path):
    for language in LANGUAGES:
        write(tmp_path / f"a.{language}", ["one two three"])
    with pytest.raises(CorpusError, match="every pair of .*a has more than 2 tokens on a side"):
        drop_split(tmp_path / "a", LANGUAGES, 2)
    drop_split(tmp_path / "a", LANGUAGES, 3)
    assert lines_of(tmp_path, "a", "es") == ["one two three"]


def test_sentencepiece_segments_and_keeps_its_lines(tmp_path):
    lines = ["the house sees the river", "a \uff41 the"] * 20
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        write(tmp_path / "text" / f"{split}.xx", lines)
    segment(tmp_path, ["xx"], "sentencepiece", 20, run=None)
    pieces = (tmp_path / "segmented" / "test.xx").read_text(encoding="utf-8").splitlines()
    assert len(pieces) == 40 and any(len(line.split()) > 5 for line in pieces)
    joined = [line.replace(" ", "").replace("\u2581", " ").strip() for line in pieces]
    assert joined == lines, "nothing is normalised"
