"""Tokens that links count: white space that some programs take for a separator is refused by the number of its line."""

import pytest

from fairseq_attn_plugin.analysis.alignment.subword_links import convert_file
from fairseq_attn_plugin.analysis.importing.formats import beside
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import tokens

PRICE = "10\u00a0000 Euro kosten viel"


@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2028", "\r", "\x0b", "\x1c", "\x85"])
def test_other_white_space(space):
    with pytest.raises(ValueError, match=f"has the white space U\\+{ord(space):04X}, which ends a word for fairseq"):
        tokens(f"10{space}000 Euro\n")


@pytest.mark.parametrize("line", ["a b\tc", " a  b c \r\n", "a b c\n"])
def test_spaces_and_tabs(line):
    assert tokens(line) == ["a", "b", "c"]


def test_the_line_is_named(tmp_path):
    for name, lines in (
        ("de", ["eins", PRICE]),
        ("en", ["one", "10,000 euros cost much"]),
        ("links", ["0-0", "0-0 1-1"]),
    ):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    de, en, links = (str(tmp_path / name) for name in ("de", "en", "links"))
    with pytest.raises(OptionError, match=r"links, line 2: has the white space U\+00A0"):
        convert_file(links, de, en, tmp_path / "out")
    pairs = beside(iter("ab"), "x", "--source", de)
    assert next(pairs) == ("a", ["eins"])
    with pytest.raises(OptionError, match=r"^--source .*de, line 2: has the white space U\+00A0"):
        next(pairs)
