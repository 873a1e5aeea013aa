"""fairseq-attn extract --nbest: the hypotheses of a search with ranks."""

import json
from argparse import Namespace

import pytest
from test_extract import loaded_of

from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.analysis.records.files import open_records, open_systems, partial_path
from fairseq_attn_plugin.errors import OptionError


def with_config(data):
    """An untrained model with what a checkpoint knows of it."""
    return loaded_of(data, "lstm_soft")._replace(config=Namespace(model=Namespace(arch="lstm_soft")))


def test_nbest_lists_have_ranks(tiny_data, tmp_path):
    loaded = with_config(tiny_data)
    sentences = SplitSentences(loaded, "test")
    best = list(extract(loaded, sentences, Extraction(beam=3, max_tokens=4000)))
    extraction = Extraction(beam=3, nbest=3)
    path = tmp_path / "n.jsonl"
    done = extract_file(loaded, sentences, path, describe_extraction(loaded, sentences, extraction), extraction)
    assert done.written == len(sentences) and done.left_out == 0
    records = open_records(path)
    assert [(one.id, one.target) for one in records] == [(one.id, one.target) for one in best]
    lists = {}
    for one in records.hypotheses():
        lists.setdefault(one.id, []).append(one)
    for hypotheses in lists.values():
        assert [one.rank for one in hypotheses] == [1, 2, 3]
        assert len({tuple(one.target) for one in hypotheses}) == 3
        assert all(len(one.scores) == len(one.target) + 1 for one in hypotheses)
    second = open_records(f"{path}@2")
    assert [one.target for one in second] == [hypotheses[1].target for hypotheses in lists.values()]
    assert [one.label for one in open_systems([str(path), f"two={path}@2"])] == [records.label, "two"]
    assert open_records(f"{path}@3").label == f"{records.label}, rank 3"
    with pytest.raises(OptionError, match="@4: has hypotheses of rank 1 to 3"):
        open_records(f"{path}@4")


def test_an_interrupted_list_is_written_anew(tiny_data, tmp_path):
    loaded = with_config(tiny_data)
    sentences = SplitSentences(loaded, "test")
    extraction = Extraction(beam=2, nbest=2)
    header = describe_extraction(loaded, sentences, extraction)
    whole, path = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    extract_file(loaded, sentences, whole, header, extraction)
    lines = whole.read_bytes().splitlines(keepends=True)
    partial_path(path).write_bytes(b"".join(lines[:6]))  # sentence 2 has one of two hypotheses
    assert json.loads(lines[5])["id"] == 2 and "rank" not in json.loads(lines[5])
    done = extract_file(loaded, sentences, path, header, extraction)
    assert done.resumed == 2 and done.written == len(sentences) and path.read_bytes() == whole.read_bytes()


def test_a_rank_of_a_file_without_lists(tiny_data, tmp_path):
    loaded = with_config(tiny_data)
    sentences = SplitSentences(loaded, "test")
    extract_file(loaded, sentences, tmp_path / "x.jsonl", describe_extraction(loaded, sentences), Extraction())
    with pytest.raises(OptionError, match="@2: has hypotheses of rank 1 to 1"):
        open_records(tmp_path / "x.jsonl@2")
