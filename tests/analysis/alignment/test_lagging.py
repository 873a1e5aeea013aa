"""Average lagging: against its definition, at its ends, and as a command over records."""

from dataclasses import replace

import numpy as np
import pytest
from records_for_tests import record, write_records
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.alignment.lagging import average_lagging, source_words_read

import oracles


def test_equals_the_definition():
    draw = np.random.default_rng(1)
    for _ in range(50):
        source, target = draw.integers(1, 9, 2)
        reads = np.maximum.accumulate(draw.integers(0, source + 1, target)).tolist()
        assert average_lagging(reads, source) == pytest.approx(oracles.average_lagging(reads, source), abs=1e-12)


def test_words_are_read_up_to_the_last_weight_and_are_not_forgotten():
    weights = np.array([[0.9, 0.1, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert source_words_read(weights) == [2, 2, 3]  # the end is no word
    assert source_words_read(weights, 0.5) == [1, 1, 3]
    assert source_words_read(np.zeros((2, 4))) == [0, 0]


@pytest.fixture
def hard(tmp_path):
    weights = np.zeros((4, 5))
    weights[[0, 1, 2, 3], [0, 2, 3, 4]] = 1.0  # the subwords of "klei@@ nes" are 1 and 2
    one = record(0, "ein klei@@ nes haus", "a small house", weights)
    empty = record(1, "", "good day", np.ones((3, 1)))
    return write_records(tmp_path / "hard.jsonl", "hard", records=[one, empty], sentences=2)


def test_the_command(hard, tmp_path, capsys):
    cli.main(["lagging", f"ha|rd={hard}", str(write_records(tmp_path / "soft.jsonl"))])
    printed = capsys.readouterr()
    rows = [[cell.strip() for cell in line.strip("| ").split(" |")] for line in printed.out.splitlines()]
    assert rows[0] == ["system", "AL", "AP", "sentences"] and rows[2] == [r"ha\|rd", "1.00", "0.667", "1"]
    assert rows[3][0] == "soft" and rows[3][2:] == ["1.000", "3"]
    assert "ha|rd: 1 sentence without words left out" in printed.err


def test_records_of_another_matrix_are_read_by_it(tmp_path, capsys):
    one = record(0, "der hund", "the dog")
    for name in ("attention", "bayes"):
        given = [replace(one, weights={name: one.attention})]
        cli.main(["lagging", str(write_records(tmp_path / f"{name}.jsonl", records=given, weights=(name,)))])
    printed = capsys.readouterr().out.splitlines()
    assert printed[2] == printed[5]


@refuses(
    (["--threshold", "1"], "--threshold 1.0: must be a weight, at least 0 and below 1"),
    (["--threshold", "nan"], "--threshold nan: must be a weight"),
)
def test_wrong_options_are_one_line(options, hard):
    cli.main(["lagging", str(hard), *options])
