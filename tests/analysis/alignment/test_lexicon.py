"""Translation lexicons: counts by hand, the file, fairseq's reading of them, the command."""

import re
from dataclasses import replace

import numpy as np
import pytest
from records_for_tests import PAIRS, record, write_records
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.alignment.lexicon import count_records, estimate_lexicon
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lexicon import Entry, read_lexicon

# source "klei@@ nes haus </s>", target "a hou@@ se </s>"; rows sum to other numbers than one
WEIGHTS = [
    [0.3, 0.3, 0.2, 0.2],
    [0.0, 0.2, 1.4, 0.4],
    [0.2, 0.0, 0.6, 0.2],
    [0.9, 0.0, 0.1, 0.0],
]
ONE = record(0, "klei@@ nes haus", "a hou@@ se", np.array(WEIGHTS))
END = {"</s>": {"</s>": 1.0}}


def test_hard_counts_by_hand():
    # words: kleines 0.6 of "a"; haus (1.4 + 0.6) / 2 = 1.0 of "house"; the row of the end is not counted
    assert count_records([ONE]) == {"kleines": {"a": 1.0}, "haus": {"house": 1.0}, **END}
    # subwords: the first of the two equal weights of "a"
    assert count_records([ONE], level="subwords") == {"klei@@": {"a": 1.0}, "haus": {"hou@@": 1.0, "se": 1.0}, **END}


def test_soft_counts_by_hand():
    # "house": the mean of its rows is (0.1, 0.1, 1.0, 0.3), sum 1.5
    counts = count_records([ONE], soft=True)
    assert {f: {e: pytest.approx(c) for e, c in of.items()} for f, of in counts.items()} == {
        "kleines": {"a": 0.6, "house": 0.2 / 1.5},
        "haus": {"a": 0.2, "house": 1.0 / 1.5},
        **END,
    }
    counts = count_records([ONE], soft=True, level="subwords")
    assert counts["haus"] == {"a": pytest.approx(0.2), "hou@@": pytest.approx(0.7), "se": pytest.approx(0.6)}
    assert counts["klei@@"] == {"a": pytest.approx(0.3), "se": pytest.approx(0.2)}, "no weight, no pair"


def test_words_that_translate_nothing():
    """Target words whose weight is on the source's end, unknown words, rows without weights."""
    weights = np.array([[0.1, 0.9], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    sentence = record(0, "haus", "the <unk> house", weights)
    assert count_records([sentence]) == END
    assert count_records([sentence], soft=True) == {"haus": {"the": pytest.approx(0.1)}, **END}
    assert count_records([record(0, "<unk>", "house")]) == END
    assert count_records([record(0, "haus", "hou@@ <unk>"), record(1, "hau@@ <unk>", "house")]) == {"</s>": {"</s>": 2}}
    assert count_records([record(0, "", ""), record(1, "", "a"), record(2, "a", "")]) == {"</s>": {"</s>": 3.0}}
    blank = [record(0, "\u2581 \u2581a", "\u2581 \u2581b", subwords="sentencepiece")]  # its fields would be empty
    assert count_records(blank) == {"a": {"b": 1.0}, **END}


COUNTS = {"das": {"the": 3.0, "that": 1.0}, "haus": {"house": 0.4}}


def test_probabilities_by_hand():
    def listed(**options):
        return {f: {e: pytest.approx(p) for e, p, _ in of} for f, of in estimate_lexicon(COUNTS, **options).items()}

    assert listed(min_count=0) == {"das": {"the": 0.75, "that": 0.25}, "haus": {"house": 1.0}}
    assert listed() == {"das": {"the": 0.75, "that": 0.25}}
    assert listed(min_count=3) == {"das": {"the": 0.75}}
    assert listed(min_count=0, top=1) == {"das": {"the": 0.75}, "haus": {"house": 1.0}}
    assert estimate_lexicon({"x": {"b": 1.0, "a": 1.0}}, top=1) == {"x": [Entry("a", 0.5, 1.0)]}, "ties by the alphabet"


# ---- files


def test_the_file(tmp_path):
    from fairseq import utils

    files = [str(write_records(tmp_path / name)) for name in ("one.jsonl", "two.jsonl")]
    table = tmp_path / "lexicon.tsv"
    cli.main(["lexicon", *files, "--out", str(table)])
    # the diagonals of records_for_tests, twice; in the second sentence row t is on word round(3 t / 5) = 0, 1, 1, 2, 2
    single = "ein a kleines small haus house der the schläft sleeping guten good tag day </s> </s>".split()
    expected = {f: {e: 1.0} for f, e in zip(single[::2], single[1::2])}
    expected["hund"] = {"dog": 0.5, "is": 0.5}
    lexicon = read_lexicon(table, "--lexicon", probabilities=True)
    assert {f: {e: p for e, p, _ in of} for f, of in lexicon.items()} == expected
    assert "hund\tis\t0.5\t2\n" in table.read_text() and lexicon["</s>"][0].times == 6
    translations = {f: next(iter(of)) for f, of in expected.items()}
    assert utils.load_align_dict(str(table)) == translations, "the best of several, not the last"


def test_soft_counts_and_subwords_of_the_command(tmp_path, capsys):
    file, out = str(write_records(tmp_path / "a.jsonl")), tmp_path / "lexicon.tsv"
    options = "--soft --level subwords --min-count 0 --top 50".split()
    cli.main(["lexicon", f"LABEL={file}", "--out", str(out), *options])
    expected = estimate_lexicon(
        count_records([record(n, *pair) for n, pair in enumerate(PAIRS)], True, "subwords"), min_count=0
    )
    lexicon = read_lexicon(out, "--lexicon")
    assert lexicon.keys() == expected.keys() >= {"klei@@", "nes"}
    for source, entries in expected.items():
        assert {e: pytest.approx(p, abs=2e-4) for e, p, _ in entries} == {e: p for e, p, _ in lexicon[source]}
    assert re.search(r"lexicon.tsv: \d+ translations of 10 words, 3 sentences", capsys.readouterr().err)


def test_records_of_another_matrix_are_read_by_it(tmp_path):
    for name in ("attention", "bayes"):
        given = [replace(ONE, weights={name: ONE.attention})]
        records = write_records(tmp_path / f"{name}.jsonl", records=given, weights=(name,))
        cli.main(["lexicon", str(records), "--out", str(tmp_path / name)])
    assert (tmp_path / "attention").read_text() == (tmp_path / "bayes").read_text()


@refuses(
    (["a.jsonl", "--weights", "prior"], "^--weights prior: a.jsonl has attention$"),
    (["a.jsonl", "--min-count", "100"], "^--min-count 100: no pair of the 3 sentences occurs so often"),
    (["text"], "^text: must be a file of fairseq-attn extract"),
)
def test_mistakes(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path / "a.jsonl")
    (tmp_path / "text").write_text("ein haus\n")
    yield lambda: cli.main(["lexicon", *options, "--out", "lexicon"])
    assert not (tmp_path / "lexicon").exists()


def test_probabilities_of_a_word_sum_to_one_at_most(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("haus\thouse\t0.9\nhaus\thome\t0.1001\n")
    assert len(read_lexicon(path, "--lexicon", probabilities=True)["haus"]) == 2
    path.write_text("haus\thouse\t0.9\nhaus\thome\t0.9\n")
    with pytest.raises(OptionError, match=r"^--lexicon .*lexicon.tsv: the probabilities .* of haus sum to 1.8, must"):
        read_lexicon(path, "--lexicon", probabilities=True)


def test_words_with_odd_blanks_lines_of_windows_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_bytes("\ufeff10\u00a0000\tten thousand\u3000\t0.5\r\n\r\n".encode())
    assert read_lexicon(path, "--lexicon") == {"10\u00a0000": [Entry("ten thousand\u3000", 0.5)]}
