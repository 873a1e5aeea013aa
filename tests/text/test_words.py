"""Words of a text: sentences in a line, tokens that links count, unknown words replaced."""

import pytest

from fairseq_attn_plugin.analysis.alignment.subword_links import convert_file
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import tokens
from fairseq_attn_plugin.text.reading import has_several_sentences, is_lowercase
from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("Ein Mann schläft. Eine Frau liest.", True),
        ("Ein Mann schläft . Eine Frau liest .", True),
        ("Wer ist da? Niemand!", True),
        ('Er sagte: "Ich komme morgen." Dann ging er.', True),
        ("Il dort… Élise lit.", True),
        ("Он спит. Она читает.", True),
        ("他在睡觉。她在看书。", True),
        ("الرجل نائم. المرأة تقرأ.", True),
        ("هل هو نائم؟ المرأة تقرأ.", True),
        ("Das ist Dr. Kohl. Er liest.", True),
        ("वह सोता है। वह पढ़ती है।", True),
        ("قال: «هل هو نائم؟»، وذهب.", False),
        ("वह सोता है।", False),
        ("", False),
        ("Ein Mann schläft.", False),
        ("Dr. Meyer wohnt in der Nr. 5 und liest.", False),
        ("Es kostet 3.50 Euro.", False),
        ("ein mann schläft . eine frau liest .", False),
        ("See example.com for the whole story.", False),
        ("他在睡觉。", False),
        ("Um 5 p.m. geht er.", False),
        # within a second
        ("a" * 50_000, False),
        ("Ein Mann." + " " * 50_000 + ".", False),
        ("。" * 50_000, False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_several_sentences(line, several):
    assert has_several_sentences(line) is several


def test_a_script_without_capital_letters_is_not_lower_case():
    assert is_lowercase(["ein hund", "5 ."]) and is_lowercase(["ولد", "twitter"])
    assert not is_lowercase(["ein Hund"]) and not is_lowercase(["ولد", "女孩", "5"])


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2028", "\r", "\x0b", "\x1c", "\x85"])
def test_other_white_space(space):
    with pytest.raises(ValueError, match=f"has the white space U\\+{ord(space):04X}, which ends a word for fairseq"):
        tokens(f"10{space}000 Euro\n")


@pytest.mark.parametrize("line", ["a b\tc", " a  b c \r\n", "a b c\n"])
def test_spaces_and_tabs(line):
    assert tokens(line) == ["a", "b", "c"]


def test_the_line_is_named(tmp_path):
    for name, lines in (
        ("de", ["eins", "10\u00a0000 Euro kosten viel"]),
        ("en", ["one", "10,000 euros cost much"]),
        ("links", ["0-0", "0-0 1-1"]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    de, en, links = (str(tmp_path / name) for name in ("de", "en", "links"))
    with pytest.raises(OptionError, match=r"^\S*de, line 2: has the white space U\+00A0"):
        convert_file(links, de, en, tmp_path / "out")


LEXICON = {"haus": "house", "schäferhund": "shepherd", "hund": "dog"}


@pytest.mark.parametrize(
    ("target", "source", "links", "expected"),
    [
        # words: from the lexicon, copied, to an unknown source word, to nothing
        ("the <unk> of <unk>", "das haus von berlin", {1: 1, 3: 3}, "the house of berlin"),
        ("<unk> <unk> <unk>", "haus <unk> haus", {0: 0, 1: 1}, "house <unk> <unk>"),
        ("<unk> <unk>", "haus haus", {0: 0, 1: 0}, "house house"),
        ("<unk> <unk> <unk> <unk>", "haus berlin <unk>", {0: 0, 1: 1, 2: 2}, "house berlin <unk> <unk>"),
        # a split word: its translation or itself, once
        ("the <unk> .", "der schä@@ fer@@ hund .", {1: 1}, "the shepherd ."),
        ("the <unk> <unk> .", "der schä@@ fer@@ hund .", {1: 1, 2: 2}, "the shepherd ."),
        ("<unk> <unk> , <unk>", "ber@@ lin , ber@@ lin", {0: 0, 1: 0, 3: 3}, "berlin , berlin"),
        ("<unk>", "ber@@ lin", {0: 1}, "berlin"),
        # the hypothesis spells the word
        ("<unk> t@@ <unk> !", "é@@ t@@ é !", {0: 0, 1: 1, 2: 2, 3: 3}, "é@@ t@@ é !"),
        ("Beyon@@ c@@ <unk> sings", "Beyon@@ c@@ é singt", {0: 0, 1: 1, 2: 2, 3: 3}, "Beyon@@ c@@ é sings"),
        ("x@@ <unk> y", "a@@ é@@ b c", {1: 1, 2: 3}, "x@@ é y"),
        # a piece that the lexicon has
        ("<unk>", "hund@@ e", {0: 0}, "hundsomething"),
        # SentencePiece: whole words, spelt words, a translation, a piece that the lexicon has
        ("▁in <unk> <unk> .", "▁in ▁Ber lin .", {1: 2, 2: 1}, "▁in ▁Berlin. ."),
        ("▁in <unk> ▁ein", "▁in ▁ 字 ▁ein", {1: 1, 2: 3}, "▁in ▁字 ▁ein"),
        ("<unk> lin <unk>", "▁Ber lin ▁Bonn", {0: 0, 1: 1, 2: 2}, "▁Ber lin ▁Bonn"),
        ("▁a <unk> ▁b <unk>", "▁haus ▁schäfer hund s", {1: 0, 3: 1}, "▁a ▁house ▁b ▁schäferhunds"),
        ("<unk>", "▁katze n", {0: 0}, "▁cat"),
    ],
)
def test_rules(target, source, links, expected):
    lexicon = {**LEXICON, "hund@@": "hundsomething", "▁katze": "▁cat"}
    subwords = "sentencepiece" if "▁" in source else "bpe"
    assert " ".join(replace_unknown(target.split(), source.split(), links, lexicon, subwords)) == expected


def test_alignments_of_fairseq():
    assert positions_of([(3, 0), (1, 1)]) == {0: 3, 1: 1}
    # the last column is the end of the source, the last row the end of the hypothesis
    assert positions_of([["0.1", "0.2", "0.7"], ["0.5", "0.4", "0.1"], ["0.0", "0.0", "1.0"]]) == {0: 1, 1: 0}
    assert positions_of([["1.0"], ["1.0"]]) == {} and positions_of([]) == {}
    # two source positions, the end included: rows of two weights are no pairs
    assert positions_of([["0.2", "0.8"]]) == {0: 0}
