"""Pharaoh files, subword merging and the alignment error rate, against cases worked out by hand."""

import pytest

from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.links import (
    GoldAlignment,
    format_alignment,
    parse_alignment,
    read_alignments,
    read_gold,
)
from fairseq_attn_plugin.errors import OptionError


def gold(sure, possible=()):
    return GoldAlignment(frozenset(sure), frozenset(sure) | frozenset(possible))


def test_parse_and_format():
    alignment = parse_alignment(" 0-1 2p0  10-3\n")
    assert alignment == gold([(0, 1), (10, 3)], [(2, 0)])
    assert format_alignment(alignment) == "0-1 2p0 10-3"
    assert parse_alignment("") == gold([])
    # a link that is listed both ways is sure
    assert parse_alignment("1p1 1-1") == gold([(1, 1)])


@pytest.mark.parametrize("item", ["1", "1-", "-1", "a-b", "1-2-3", "1_2", "1,2", "1P2", "-1-2", "1--2", "²-1"])
def test_anything_else_is_refused(item):
    with pytest.raises(ValueError, match="must be a link i-j"):
        parse_alignment(f"0-0 {item}")


def test_files(tmp_path):
    alignments = [gold([(0, 0)]), gold([]), gold([(1, 0)], [(0, 2)])]
    path = tmp_path / "test.align"
    path.write_text("".join(format_alignment(one) + "\n" for one in alignments))
    assert path.read_text() == "0-0\n\n0p2 1-0\n"
    assert read_alignments(path) == alignments
    path.write_text("0-0\n1-1 x-2\n")
    with pytest.raises(OptionError, match=r"test\.align, line 2: 'x-2' must be a link"):
        read_alignments(path)


def test_error_rate_sums_over_the_corpus():
    predicted = [{(0, 0), (1, 1), (2, 2), (3, 1)}, [(0, 0), (0, 0)], set()]
    reference = [
        gold([(0, 0), (1, 2), (2, 2)], [(1, 1), (1, 3)]),
        gold([(0, 0)]),
        gold([(4, 4), (5, 5)]),
    ]
    score = alignment_error_rate(predicted, reference)
    # |A n S| = 3, |A n P| = 4, |A| = 5 (a repeated link counts once), |S| = 6
    assert score == pytest.approx((1 - 7 / 11, 4 / 5, 3 / 6))


def test_error_rate_at_its_ends():
    assert alignment_error_rate([{(0, 0)}], [gold([(0, 0)])]) == (0, 1, 1)
    assert alignment_error_rate([{(0, 1)}], [gold([(0, 0)])]) == (1, 0, 0)
    assert alignment_error_rate([{(0, 0)}], [gold([], [(0, 0)])]) == (0, 1, 1)
    assert alignment_error_rate([set()], [gold([])]) == (0, 1, 1)
    with pytest.raises(ValueError, match="1 predicted alignments, but 0 gold ones"):
        alignment_error_rate([set()], [])


WPT = """\
0001 1 1 S
0001 2 3 P
0003 1 2

0003 2 1 P 0.75
0003 0 2 P
3 2 2 S
"""


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("0-0 1p2\n\n0-1 1p0 1-1\n", {}),
        ("0-0 1p2\r\n\r\n0-1 1p0 1-1", {"wpt": False}),
        ("1-1 2p3\n\n1-2 2p1 2-2\n", {"one_based": True}),
        (WPT, {}),
        (WPT, {"wpt": True, "one_based": True}),
        ("\n" + WPT, {}),
    ],
)
def test_gold_in_either_format(tmp_path, content, options):
    path = tmp_path / "gold"
    path.write_bytes(content.encode())
    expected = [gold([(0, 0)], [(1, 2)]), gold([]), gold([(0, 1), (1, 1)], [(1, 0)])]
    assert read_gold(path, **options) == expected
    assert read_gold(path, **options, lengths=[(2, 3), None, (2, 2)]) == expected
    if content.endswith(WPT):  # a last sentence without a link is not in the file
        assert read_gold(path, **options, lengths=[None] * 4) == [*expected, gold([])]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("0-0\n1-2 0-x\n", {}, "gold, line 2: '0-x' must be a link i-j .* counted from 0$"),
        ("1-1\n1-2 0-1\n", {"one_based": True}, "gold, line 2: '0-1' counts from 0, must count from 1$"),
        ("0001 1 1 S\n0001 1-1\n", {}, "gold, line 2: '0001 1-1' must be a link in WPT's format: sentence, source"),
        ("0001 1 1 X\n", {"wpt": True}, "gold, line 1: '0001 1 1 X' must be a link in WPT's format"),
        ("0000 1 1 S\n", {}, "gold, line 1: sentence 0: must be at least 1$"),
        ("0001 1 1\n0003 1 1\n", {"lengths": [None] * 2}, "line 2: sentence 3: must be from 1 to 2, the sentences"),
        ("0001 1 1\n0002 1 4 P\n", {"lengths": [(3, 3)] * 2}, "link 1-4: the target has 3 words, counted from 1$"),
        ("0-0\n3-0\n", {"lengths": [(3, 3)] * 2}, "line 2: link 3-0: the source has 3 words, .* 0; .* --one-based"),
        ("1-1\n2-4\n", {"lengths": [(3, 3)] * 2, "one_based": True}, "line 2: link 2-4: the target has 3 words, .* 1$"),
        ("0-0\n1-1\n", {"lengths": [None] * 3}, "gold: has 2 lines, the corpus has 3 sentences$"),
    ],
)
def test_gold_that_does_not_serve(tmp_path, content, options, message):
    path = tmp_path / "gold"
    path.write_text(content)
    with pytest.raises(OptionError, match=message):
        read_gold(path, **options)
