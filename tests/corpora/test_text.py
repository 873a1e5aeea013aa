"""Text of published corpora: splits of pairs, words, damaged files, subwords."""

import hashlib
import random
import re
import time
from pathlib import Path

import pytest
from miniature_corpora import sentences, tatoeba, write
from refusals import refuses
from sacremoses import MosesTokenizer

from fairseq_attn_plugin.corpora.files import read_lines
from fairseq_attn_plugin.corpora.parallel import (
    CHUNK,
    assign,
    bare_words,
    in_processes,
    normalize,
    read_sides,
    read_table,
    shorten,
    split_pairs,
    tokenize,
)
from fairseq_attn_plugin.corpora.subwords import segment
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.reading import moses_tokenizer

LANGUAGES = ("en", "es")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tatoeba")
    tatoeba(folder)
    return read_table(folder, "spa.txt")


def test_no_sentence_is_in_two_splits_in_whatever_order_the_lines_are(pairs):
    splits = split_pairs(pairs)
    assert list(splits) == ["train", "valid", "test"]
    for side in (0, 1):  # up to case and punctuation
        a, b, c = ({" ".join(re.findall(r"\w+", pair[side].casefold())) for pair in part} for part in splits.values())
        assert a.isdisjoint(b) and a.isdisjoint(c) and b.isdisjoint(c)
    assert len(pairs) == sum(map(len, splits.values())) == 630 and 0.85 < len(splits["train"]) / 630 < 0.95
    shuffled = random.Random(1).sample(pairs, len(pairs))
    assert {split: sorted(part) for split, part in split_pairs(shuffled).items()} == {
        split: sorted(part) for split, part in splits.items()
    }


def test_a_smaller_share_is_a_part_of_the_greater():
    many = [(f"source {n}", f"target {n}") for n in range(20000)]
    small, usual = assign(many, 0.5), assign(many)
    assert all(60 < len(small[split]) < 140 and set(small[split]) < set(usual[split]) for split in ("valid", "test"))


def test_pairs_of_equally_many_words_keep_their_split(pairs, capsys):
    every, equal = split_pairs(pairs), split_pairs(pairs, equal_words=True)
    assert "note: 330 of 630 pairs have equally many words on both sides" in capsys.readouterr().out
    for split, kept in equal.items():
        assert kept == [(a, b) for a, b in every[split] if len(a.split()) == len(b.split())] != every[split]


def test_a_group_of_many_pairs_goes_to_train():
    """The sentences of a group are hashed like those of others, but 30 of 1,200 pairs are too many for a test set."""
    splits = assign([(f"Hello {n} of {group}.", f"Hola {group}.") for group in range(40) for n in range(30)])
    assert {split: len(part) for split, part in splits.items()} == {"train": 1200, "valid": 0, "test": 0}


def test_the_split_is_that_of_the_first_sentence_of_a_group():
    """Published splits are those of this hash: another one would move sentences from training to test."""
    many = [(f"Source {n}!", f"target {n}") for n in range(400)]
    percent = {pair: int(hashlib.sha1(f"en {normalize(pair[0])}".encode()).hexdigest(), 16) % 100 for pair in many}
    assert assign(many)["test"] == [pair for pair in many if 5 <= percent[pair] < 10]


def test_sentences_are_equal_up_to_case_marks_and_form():
    assert normalize("\u00bfE\u0301s  \uff21 it's?") == normalize("\u00c9S a It s") != normalize("Es a it s")


@refuses(
    (["a\tb", "alone"], "spa.txt, line 2: expected English TAB foreign"),
    (["a\tb", " \tc"], "spa.txt, line 2: expected English TAB foreign"),
    (["a\tb"], "1 pairs are too few, the .* split is empty"),
    (None, r"spa.txt \(or spa.txt.gz\) is missing"),
)
def test_damaged_files_of_pairs_are_named(lines, tmp_path):
    if lines is not None:
        write(tmp_path / "spa.txt", lines)
    split_pairs(read_table(tmp_path, "spa.txt"))


def test_bare_words_are_as_many_as_before():
    text = ["\u00bfEs de Tom\u2019s, \u00abel\u00bb?", "Add 5 + 10 \u2014 it's \u20ac7.50!", "well-known ... U.S."]
    assert list(map(bare_words, text)) == ["Es de Tom's el", "Add 5 + 10 \u2014 it's \u20ac7.50", "well-known ... U.S"]


def test_tokenisation_by_several_processes_keeps_the_order():
    lines = [f"Sentence number {number}, isn't it?" for number in range(4100)]
    tokens = tokenize(lines, "en", jobs=2)
    assert tokens == tokenize(lines, "en", jobs=1)
    assert tokens[4099] == "Sentence number 4099 , isn &apos;t it ?"


def fail_or_go_on(line):
    if line == "0":
        raise RuntimeError("stopped")
    time.sleep(3)
    Path(line).touch()
    return line


def test_processes_do_not_go_on_after_an_interruption(tmp_path):
    with pytest.raises(RuntimeError, match="stopped"):
        in_processes(fail_or_go_on, ["0", *[str(tmp_path / "went on")] * CHUNK], 2, "wait")
    assert not list(tmp_path.iterdir())


def test_tokens_are_those_of_sacremoses_without_its_sets_of_letters():
    """Its tokeniser makes them anew at each full stop within a line, which took most of the time."""
    line = "The U.S. and Mr. Smith. he has No. 5, e.g. z.B. 1.5. \u00c9t\u00e9. \u00e9t\u00e9 3. Mai. a.b. 1.2. ."
    for language in ("en", "de", "fr"):
        tokens, tokenize = MosesTokenizer(language).tokenize(line), moses_tokenizer(language)
        tokenize.__self__.IsLower = tokenize.__self__.IsAlpha = None
        assert tokenize(line) == tokens


@pytest.mark.parametrize(
    ("options", "tokens"),
    [({}, "a &quot; b &quot;"), ({"escape": False}, 'a " b "'), ({"normalize": False}, "a \u201e b \u201c")],
)
def test_punctuation_is_normalised_and_escaped_unless_it_is_kept(options, tokens):
    assert tokenize(["a \u201eb\u201c"], "de", 1, **options) == [tokens]


def test_only_a_newline_ends_a_sentence(tmp_path):
    (tmp_path / "a").write_bytes("\ufeffone\u2028two\x0bthree\nfour".encode())
    assert read_lines(tmp_path / "a") == ["one two three", "four"]
    with pytest.raises(OptionError, match="b: cannot be read: No such"):
        read_lines(tmp_path / "b")


def test_pairs_are_cut_or_dropped(tmp_path):
    for language, lines in zip(LANGUAGES, sentences(9, 0)):
        write(tmp_path / f"a.{language}", ["one two three four", "one two", *lines])
    with pytest.raises(OptionError, match="every pair of .*a has more than 1 tokens on a side"):
        shorten(tmp_path / "a", LANGUAGES, 0, 1)
    shorten(tmp_path / "a", LANGUAGES, 0, 4)
    assert read_sides(tmp_path, ["a.en", "a.es"]) == [["one two three four", "one two"]] * 2
    shorten(tmp_path / "a", LANGUAGES, 3, 0)
    assert (tmp_path / "a.es").read_text(encoding="utf-8").split("\n")[:-1] == ["one two three", "one two"]


def test_sentencepiece_segments_and_keeps_its_lines(tmp_path):
    lines = ["the house sees the river", "a \uff41 the"] * 20
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        write(tmp_path / "text" / f"{split}.xx", lines)
    segment(tmp_path, ["xx"], "sentencepiece", 20, run=None)
    pieces = (tmp_path / "segmented" / "test.xx").read_text(encoding="utf-8").splitlines()
    assert len(pieces) == 40 and any(len(line.split()) > 5 for line in pieces)
    assert [line.replace(" ", "").replace("\u2581", " ").strip() for line in pieces] == lines, "nothing is normalised"
    (tmp_path / "segmented" / "test.xx").parent.rename(tmp_path / "before")
    write(tmp_path / "text" / "train.xx", ["".join(map(chr, range(0x4E00, 0x4E80))), "\u4e00\u4e01"])
    segment(tmp_path, ["xx"], "sentencepiece", 20, run=None)  # 128 characters take more than 20 pieces
    assert "\u4e7f" in (tmp_path / "spm.model").read_bytes().decode("utf-8", "ignore")
