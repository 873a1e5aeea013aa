"""Declarations and checks of options."""

from dataclasses import dataclass

import pytest

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import file_options, need, option, or_default, parse_boolean, parse_integers


@dataclass
class Config:
    size: int = option(3, "size of it")
    words: str = option("", "file of words", file=True)
    word_table: str = option("", "file of a table", file=True)


def test_options_of_files_declare_themselves():
    assert file_options(Config) == file_options(Config()) == ["words", "word_table"]
    assert Config.__dataclass_fields__["words"].metadata["help"] == "file of words"


def test_a_wrong_value_is_named_with_what_would_be_right():
    need(True, Config(), "word_table", "there")
    with pytest.raises(OptionError, match="^--word-table x: must be there$"):
        need(False, Config(word_table="x"), "word_table", "there")


@pytest.mark.parametrize(("value", "expected"), [("True", True), (True, True), ("no", False), ("0", False)])
def test_booleans(value, expected):
    assert parse_boolean("--flag", value) is expected


@pytest.mark.parametrize("value", ["", "maybe", None, "__import__('os')"])
def test_other_words_are_not_booleans(value):
    with pytest.raises(OptionError, match=r"^--flag .*: must be True or False$"):
        parse_boolean("--flag", value)


def test_integers():
    assert parse_integers("--cuts", "10,20") == parse_integers("--cuts", [10, 20]) == [10, 20]
    for value in ("", "10;20", "1.5"):
        with pytest.raises(OptionError, match="^--cuts .*: must be integers separated by commas"):
            parse_integers("--cuts", value)


def test_defaults_replace_none_only():
    assert (or_default(None, 3), or_default(0, 3), or_default("", 3)) == (3, 0, "")
