"""Stamps: checksums as of cksum, lasting options, differences that a user can read; translations in order."""

import random
import shutil
import subprocess

import pytest

from fairseq_attn_plugin.corpora.errors import CorpusError
from fairseq_attn_plugin.own_data.stages import read_hypotheses
from fairseq_attn_plugin.own_data.stamps import (
    checksum,
    differences,
    lasting_options,
    read_stamp,
    remove_stamp,
    write_stamp,
)


def test_checksum_of_known_files(tmp_path):
    """The check value of CRC-32/CKSUM, and the empty file, as POSIX cksum prints them."""
    (tmp_path / "digits").write_bytes(b"123456789")
    (tmp_path / "empty").write_bytes(b"")
    assert checksum(tmp_path / "digits") == "930766865 9"
    assert checksum(tmp_path / "empty") == "4294967295 0"


@pytest.mark.skipif(shutil.which("cksum") is None, reason="needs cksum")
@pytest.mark.parametrize("size", [1, 255, 256, 70000, 3 << 20])
def test_checksum_is_that_of_cksum(size, tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for seed, path in enumerate(paths):
        path.write_bytes(random.Random(seed).getrandbits(8 * size).to_bytes(size, "little"))
    both = b"".join(path.read_bytes() for path in paths)
    printed = subprocess.run(["cksum"], input=both, capture_output=True, check=True).stdout.decode()
    assert checksum(*paths) == printed.strip()


def test_lasting_options_are_without_those_that_only_say_how_long(tmp_path):
    (tmp_path / "dict.de.txt").write_bytes(b"123456789")
    options = "--arch lstm --max-epoch 3 --adam-betas 0.9 0.98 --cpu --patience=4 --lr=1 --sentence-avg --num-workers 0"
    text = lasting_options(options.split(), [tmp_path / "dict.de.txt"])
    lines = ["", "--arch lstm", "--adam-betas 0.9 0.98", "--lr=1", "--sentence-avg", "930766865 9 dict.de.txt"]
    assert text == "\n".join(lines)


def test_differences_name_both_sides():
    assert differences("\n--a 1\n--b 2", "\n--a 1\n--b 2") == ""
    assert differences("\n--a 1\n--b 2", "\n--a 1\n--b 3\n--c") == "was: --b 2; now: --b 3; now: --c"
    assert differences("\n--a\n12 9 dict.de.txt", "\n--a\n13 9 dict.de.txt") == (
        "was: 12 9 dict.de.txt; now: 13 9 dict.de.txt"
    )
    assert differences("\n--a 1", "") == "was: --a 1"


def test_of_options_given_twice_the_last_one_counts_in_any_order():
    """A training goes on when a default changed and the user gives the old one."""
    begun = "\n--lr 1e-3\n--force-anneal 12\n--max-tokens 2000"
    assert differences(begun, "\n--lr 3e-3\n--force-anneal 5\n--max-tokens 2000\n--lr=1e-3\n--force-anneal 12") == ""
    assert differences(begun, "\n--max-tokens 2000\n--force-anneal 12\n--lr 1e-3\n--lr 3e-3") == (
        "was: --lr 1e-3; now: --lr 3e-3"
    )


def test_stamps_are_read_without_the_newline_at_the_end(tmp_path):
    path = tmp_path / "done"
    assert read_stamp(path) is None
    write_stamp(path, "settings with a space at the end \nDATA ")
    assert path.read_text() == "settings with a space at the end \nDATA \n"
    assert read_stamp(path) == "settings with a space at the end \nDATA "
    remove_stamp(path)
    remove_stamp(path)
    assert read_stamp(path) is None


def test_hypotheses_are_put_in_order_and_none_may_be_missing(tmp_path):
    path = tmp_path / "generate-test.txt"
    path.write_text("S-2\tx\nD-2\t-0.1\tthird\nD-0\t-0.2\tfirst\nD-0\t-0.9\tof --nbest\nD-1\t-0.3\tsecond\n")
    assert read_hypotheses(path, 3) == ["first", "second", "third"]
    for count, said in ((2, "3 translations for 2 sentences: remove it"), (4, r"4 sentences \(number 3 is missing\)")):
        with pytest.raises(CorpusError, match=said):
            read_hypotheses(path, count)
