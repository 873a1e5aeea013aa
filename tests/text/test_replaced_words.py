"""Unknown words replaced: the rules by hand, and what fairseq gives out as alignment."""

import pytest

from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown

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
    ],
)
def test_rules(target, source, links, expected):
    lexicon = {**LEXICON, "hund@@": "hundsomething"}
    assert " ".join(replace_unknown(target.split(), source.split(), links, lexicon)) == expected


def test_alignments_of_fairseq():
    assert positions_of([(3, 0), (1, 1)]) == {0: 3, 1: 1}
    # the last column is the end of the source, the last row the end of the hypothesis
    assert positions_of([["0.1", "0.2", "0.7"], ["0.5", "0.4", "0.1"], ["0.0", "0.0", "1.0"]]) == {0: 1, 1: 0, 2: 0}
    assert positions_of([["1.0"], ["1.0"]]) == {} and positions_of([]) == {}
    # two source positions, the end included: rows of two weights are no pairs
    assert positions_of([["0.2", "0.8"]]) == {0: 0}
