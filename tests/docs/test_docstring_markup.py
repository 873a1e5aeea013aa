"""Docstrings become reStructuredText without being written as such."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "_extensions"))

from docstrings import as_rst


def test_formulas_keep_their_characters() -> None:
    assert as_rst(["a * b, |x|, and x_ of ``a * b``"]) == [r"a \* b, \|x\|, and x\_ of ``a * b``"]
    assert as_rst(["see :func:`a_` and x_j"]) == ["see :func:`a_` and x_j"]


def test_code_may_go_on_in_the_next_line() -> None:
    lines = ["as ``fairseq-generate *", "data*`` and", "x * y"]
    assert as_rst(lines) == ["as ``fairseq-generate *", "data*`` and", r"x \* y"]


def test_an_indented_block_is_shown_as_it_is_written() -> None:
    lines = ["With keys k:", "", "    mqt  s = |k| * 2", "", "    aqt  s_", "", "After * it"]
    expected = ["With keys k:", "::", "", *lines[1:6], r"After \* it"]
    got = as_rst(lines)
    assert [line for line in got if line] == [line for line in expected if line]
    assert got[got.index("::") + 1] == ""


def test_lists_and_tables_stay() -> None:
    lines = ["* one * two", "", "  more of one", "", "====  ====", "a     *b*", "====  ===="]
    assert as_rst(lines) == [r"* one \* two", "", "  more of one", "", "====  ====", "a     *b*", "====  ===="]
