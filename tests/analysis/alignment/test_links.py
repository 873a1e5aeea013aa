"""Links: Pharaoh files, gold alignments, error rates, links of words in subwords, against cases worked out by hand."""

import gzip
import re
import subprocess

import pytest
from fairseq.utils import parse_alignment as fairseq_links
from refusals import refuses

from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import symmetrize
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, parse_alignment, read_gold
from fairseq_attn_plugin.analysis.alignment.subword_links import convert_file
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.text.subwords import spell, words_of

from cli import REPO


def gold(sure, possible=()):
    return GoldAlignment(frozenset(sure), frozenset(sure) | frozenset(possible))


def test_parse():
    assert parse_alignment(" 0-1 2p0  10-3\n") == gold([(0, 1), (10, 3)], [(2, 0)])
    assert parse_alignment("") == gold([])
    # a link that is listed both ways is sure
    assert parse_alignment("1p1 1-1") == gold([(1, 1)])


@pytest.mark.parametrize("item", ["1", "1-", "-1", "a-b", "1-2-3", "1_2", "1,2", "1P2", "-1-2", "1--2", "²-1"])
def test_anything_else_is_refused(item):
    with pytest.raises(ValueError, match="must be a link i-j"):
        parse_alignment(f"0-0 {item}")


def test_error_rate_at_its_ends():
    assert alignment_error_rate([{(0, 0)}], [gold([(0, 0)])]) == (0, 1, 1)
    assert alignment_error_rate([{(0, 1)}], [gold([(0, 0)])]) == (1, 0, 0)
    assert alignment_error_rate([{(0, 0)}], [gold([], [(0, 0)])]) == (0, 1, 1)
    assert alignment_error_rate([set()], [gold([])]) == (0, 1, 1)
    with pytest.raises(ValueError, match="1 predicted alignments, but 0 gold ones"):
        alignment_error_rate([set()], [])


@pytest.mark.parametrize("first", [0, 1])
def test_gold(tmp_path, first):
    content = ("0-0 1p2\n\n0-1 1p0 1-1\n", "1-1 2p3\n\n1-2 2p1 2-2\n")[first].encode()
    expected = [gold([(0, 0)], [(1, 2)]), gold([]), gold([(0, 1), (1, 1)], [(1, 0)])]
    for path, written in ((tmp_path / "gold", content), (tmp_path / "gold.gz", gzip.compress(content))):
        path.write_bytes(written)
        assert read_gold(path, bool(first), lengths=[(2, 3), None, (2, 2)]) == read_gold(path, bool(first)) == expected


def test_the_documented_command_makes_links_of_the_format_of_wpt(tmp_path):
    """Sentences, words counted from 1; word 0 is none; sentence 2 and the last one have no link."""
    page = (REPO / "docs/analysis/alignments.md").read_text(encoding="utf-8")
    command = re.search(r"^awk .*?(?=```)", page, re.MULTILINE | re.DOTALL).group()
    (tmp_path / "test.wa").write_text("0001 1 1 S\n0001 2 3 P\n0003 1 2\n0003 2 1 P 0.75\n0003 0 2 P\n3 2 2 S\n")
    subprocess.run(["bash", "-c", command.replace("n=447", "n=4")], cwd=tmp_path, check=True)
    expected = [gold([(0, 0)], [(1, 2)]), gold([]), gold([(0, 1), (1, 1)], [(1, 0)]), gold([])]
    assert read_gold(tmp_path / "test.align") == expected


@refuses(
    ("0-0\n1-2 0-x\n", {}, "gold, line 2: '0-x' must be a link i-j .* counted from 0$"),
    ("1-1\n1-2 0-1\n", {"one_based": True}, "gold, line 2: '0-1' counts from 0, must count from 1$"),
    ("0-0\n3-0\n", {"lengths": [(3, 3)] * 2}, "line 2: link 3-0: the source has 3 words, .* 0; .* --one-based"),
    ("1-1\n2-4\n", {"lengths": [(3, 3)] * 2, "one_based": True}, "line 2: link 2-4: the target has 3 words, .* 1$"),
    ("0-0\n1-1\n", {"lengths": [None] * 3}, "gold: has 2 lines, the corpus has 3 sentences$"),
)
def test_gold_that_does_not_serve(content, options, tmp_path):
    path = tmp_path / "gold"
    path.write_text(content)
    read_gold(path, **options)


SOURCE = "das@@ selbe ha@@ u@@ s\nja\n\nein Bu@@ ch\n"
TARGET = "the same ho@@ use\nyes\n\na book\n"
WORDS = "0-0 0-1 1p2 1-2\n0p0\n\n1-1 0-0 1-1\n"
# pieces 0 1 | 2 3 4 against 0 | 1 | 2 3
PIECES = "0-0 0-1 1-0 1-1 2-2 2-3 3-2 3-3 4-2 4-3\n\n\n0-0 1-1 2-1\n"


@pytest.fixture()
def corpus(tmp_path):
    """Paths of alignments, source, target and output."""
    for name, text in (("words", WORDS), ("source", SOURCE), ("target", TARGET)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return [tmp_path / name for name in ("words", "source", "target", "out")]


def test_words_of_subwords():
    assert words_of("a@@ b@@ c d e@@ f".split()) == [0, 0, 0, 1, 2, 2]
    assert words_of("\u2581a b \u2581c \u2581 d e".split(" "), "sentencepiece") == [0, 0, 1, 2, 2, 2]
    assert words_of(["a", "b", "\u2581c"], "sentencepiece") == [0, 0, 1]  # the mark may lack at the beginning
    assert words_of(["a@@", "b"], "none") == [0, 1]
    assert [words_of([], kind) for kind in ("bpe", "sentencepiece", "none")] == [[], [], []]
    assert spell(["a@@", "b@@", "c", "d", "e@@"]) == ["abc", "d", "e"] and spell([]) == []  # it may break off in a word


@refuses(
    ("0-0\n0-0\n", r"words: ends after line 2; each line of the three files must be a sentence pair$"),
    (WORDS + "0-0\n", r"source and .*target: ends after line 4; each line"),
    ("0-0\n0-0 0:0\n\n\n", r"words, line 2: '0:0' must be a link i-j \(sure\) or ipj"),
    # binarised it would be empty, which fairseq cannot read
    ("\n\n\n\n", r"words: links no word of any of its 4 sentences$"),
    ("0-3\n\n\n\n", r"words, line 1: link 0-3: the target has 3 words, counted from 0$"),
)
def test_faults_name_file_and_line(words, corpus):
    corpus[0].write_text(words)
    yield lambda: convert_file(*corpus)
    assert not corpus[3].exists() and len(list(corpus[3].parent.iterdir())) == 3


def command(*options):
    main(["align", "--convert", *map(str, options)])


def test_command(corpus, capsys):
    paths = [corpus[0], "--source", corpus[1], "--target", corpus[2]]
    command(*paths, "--out", corpus[3])
    assert capsys.readouterr().out == (
        f"{corpus[3]}: 13 links of 4 sentence pairs, 2 of them without links; only possible links left out: 1\n"
    )
    assert corpus[3].read_text() == PIECES
    # what fairseq-preprocess makes of it
    assert fairseq_links(PIECES.splitlines()[3]).tolist() == [0, 0, 1, 1, 2, 1]
    texts = "0-0 1-1\n", "\u2581das selbe \u2581haus\n", "\u2581same \u2581ho use\n"
    for path, text in zip(corpus, texts):
        path.write_text(text, encoding="utf-8")
    command(*paths, "--out", corpus[3], "--subwords", "sentencepiece")
    assert corpus[3].read_text() == "0-0 1-0 2-1 2-2\n"


@refuses(
    ([], "--out is missing: name the file to write"),
    (["--out", "x", "--target="], "^--target is missing: name the target side of the corpus, in subwords$"),
    (["--out", "x", "--end", "null"], "^--end null: excludes --convert; leave one out$"),
    (["--out", "x", "--into-data"], "^--into-data: excludes --convert; leave one out$"),
    (["--out", 0], "is one of the files that are read, and would be lost$"),
    (["--out", 2], "is one of the files that are read, and would be lost$"),
)
def test_options_of_the_command(options, corpus):
    options = [corpus[option] if isinstance(option, int) else option for option in options]
    command(corpus[0], "--source", corpus[1], "--target", corpus[2], *options)


# --- two directions


def grown(forward, backward):
    return sorted(symmetrize(forward, backward, "grow-diag-final-and"))


def test_grow_diag_final_and():
    # both agree on 0-0; 1-1 is beside it diagonally, 2-1 then sideways, since source word 2 has no link yet
    assert grown([(0, 0), (1, 1)], [(0, 0), (2, 1)]) == [(0, 0), (1, 1), (2, 1)]
    # 1-0 and 0-1 lie beside 0-0 and have a free word each; then 1-1 has none left
    assert grown([(0, 0), (0, 1), (1, 0)], [(0, 0), (1, 1)]) == [(0, 0), (0, 1), (1, 0)]
    # 3-3 is beside nothing; final-and takes it, as both of its words are free, and not 3-0, of which one is not
    assert grown([(0, 0), (3, 3)], [(0, 0), (3, 0)]) == [(0, 0), (3, 3)]
    # the forward direction comes first
    assert grown([(0, 0), (2, 3)], [(0, 0), (2, 2)]) == [(0, 0), (2, 3)]
    # nothing in common: final-and begins
    assert grown([(0, 1)], [(1, 0), (0, 0)]) == [(0, 1), (1, 0)]
    assert grown([], []) == []
