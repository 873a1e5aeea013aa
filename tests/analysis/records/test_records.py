"""The files of fairseq-attn extract: what is written is read again, and damage is named."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import portalocker
import pytest
from records_for_tests import diagonal, record, write_records
from refusals import refuses

from fairseq_attn_plugin.analysis.drawing.panels import panel_of
from fairseq_attn_plugin.analysis.outputs.comparison import compare
from fairseq_attn_plugin.analysis.records import files
from fairseq_attn_plugin.analysis.records.files import open_records, partial_path
from fairseq_attn_plugin.analysis.records.record import Record, shown_units
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.errors import OptionError


def test_round_trip(tmp_path):
    given = [
        record(0, "ein klei@@ nes haus", "a small house", reference='a "tiny" <house>'),
        record(3, "a", ""),
        record(4, "", "b"),
    ]
    given[0].scores[1] = -np.inf  # a word of probability zero
    for one in given:
        one.weights["posterior"] = diagonal(len(one.target), len(one.source), peak=0.9)
    path = write_records(tmp_path / "x.jsonl", records=given, weights=("attention", "posterior"), sentences=5)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # a byte order mark is no part of the header
    records = open_records(path)
    assert records.header.sentences == 5 and records.label == "soft"
    for _ in range(2):  # read anew each time
        read = list(records)
        assert [one.id for one in read] == [0, 3, 4]
        for one, other in zip(given, read):
            assert (one.source, one.target, one.reference) == (other.source, other.target, other.reference)
            assert one.scores == pytest.approx(other.scores, abs=1e-5)
            for name in ("attention", "posterior"):
                np.testing.assert_allclose(one.weights[name], other.weights[name], atol=1e-5)
    assert not partial_path(path).exists() and set(records.find([3, 9])) == {3}


def headers(path):
    """That of a file, and one of another run."""
    header = open_records(path).header
    return header, replace(header, target="beam 5")


def test_words_sum_over_the_source_and_average_over_the_target():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.3, 0.1, 0.2, 0.4], [0.0, 0.5, 0.5, 0.0], [0, 0, 0, 1]])
    one = record(0, "a@@ b c", "x@@ y z", weights)
    assert one.source_words == ["ab", "c"] and one.target_words == ["xy", "z"]
    np.testing.assert_allclose(one.word_attention(), [[0.35, 0.25], [0.5, 0.5]])
    np.testing.assert_allclose(one.word_attention(end=True), [[0.35, 0.25, 0.4], [0.5, 0.5, 0], [0, 0, 1]])
    one = record(0, "\u2581a b \u2581c", "", np.array([[0.1, 0.2, 0.3, 0.4]]), subwords="sentencepiece")
    assert one.source_words == ["ab", "c"] and one.target_words == [] and one.score == -0.5
    assert one.word_attention().shape == (0, 2)
    np.testing.assert_allclose(one.word_attention(end=True), [[0.3, 0.3, 0.4]])


@refuses(
    ("x.txt", "", "which ends in .jsonl"),
    ("x.jsonl", "", "must be a file of fairseq-attn extract"),
    ("x.jsonl", '{"format": "other"}\n', "must be a file of fairseq-attn extract"),
)
def test_other_files_are_refused(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    open_records(tmp_path / name)


OF_A_LINE = [
    lambda values: values.pop("attention"),
    lambda values: values["attention"][0].pop(),
    lambda values: values["scores"].pop(),
    lambda values: values.update(target=None),
    lambda values: values.update(id="first"),
    lambda values: values.update(id=True),
    lambda values: values.update(reference=["a"]),
    lambda values: values["attention"][0].__setitem__(0, -0.25),
    lambda values: values["attention"][0].__setitem__(0, "0.5"),
    lambda values: values["scores"].__setitem__(0, float("inf")),
    lambda values: values["scores"].__setitem__(0, 10**400),
]
OF_THE_HEADER = [
    lambda values: values.update(weights=[]),
    lambda values: values.update(weights=[1]),
    lambda values: values.update(sentences=1e400),
    lambda values: values.update(sentences="3"),
    lambda values: values.update(name=3),
    lambda values: values.update(options=1),
]


@pytest.mark.parametrize(
    ("number", "damage"),
    [(number, damage) for number, several in ((2, OF_A_LINE), (0, OF_THE_HEADER)) for damage in (*several, None)],
)
def test_damage_is_named(tmp_path, number, damage):
    """None is JSON that is nested without end."""
    path = write_records(tmp_path / "x.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines()
    values = json.loads(lines[number])
    if damage is not None:
        damage(values)
    lines[number] = json.dumps(values) if damage else "[" * 100_000 + "]" * 100_000
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    said = "x.jsonl, line 3: must be a sentence" if number else "x.jsonl: must be a file of .* extract, with a header"
    with pytest.raises(OptionError, match=said):
        list(open_records(path))


def test_a_sentence_too_long_for_a_file_is_named(tmp_path, monkeypatch):
    path = write_records(tmp_path / "x.jsonl")
    longest = max(map(len, path.read_text().splitlines(keepends=True)[1:]))
    monkeypatch.setattr(files, "LONGEST", longest)
    assert len(list(open_records(path))) == 3
    monkeypatch.setattr(files, "LONGEST", longest - 1)
    with pytest.raises(OptionError, match=rf"x.jsonl, line \d: is longer than {longest - 1}"):
        list(open_records(path))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [((1, 0, 1), "has sentence 1 twice"), ((7,), "has a sentence 7; its corpus has 5 sentences, counted from 0")],
)
def test_numbers_of_sentences(tmp_path, numbers, message):
    given = [record(number, "a", "b") for number in numbers]
    path = write_records(tmp_path / "x.jsonl", records=given, sentences=5)
    with pytest.raises(OptionError, match=rf"x\.jsonl: {message}"):
        list(open_records(path))


def test_what_holds_no_sentence_is_no_interrupted_run(tmp_path):
    """Another run's header alone: its first batch failed, or it was never begun."""
    path = tmp_path / "x.jsonl"
    lines = write_records(tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)
    header, other = headers(tmp_path / "all.jsonl")
    for content in (lines[0], lines[0] + lines[1][:50], b"", b"{"):
        partial_path(path).write_bytes(content)
        with pytest.raises(OptionError, match="interrupted; run the same"):
            open_records(path)
        writer = RecordWriter(path, other)
        assert writer.done == writer.next == 0
        writer.close()
        assert not partial_path(path).exists()


def test_what_another_run_or_damage_left_is_replaced_where_that_is_wanted(tmp_path):
    path = tmp_path / "x.jsonl"
    content = write_records(tmp_path / "all.jsonl").read_bytes()
    header, other = headers(tmp_path / "all.jsonl")
    # it is the same run wherever the checkpoint was looked for
    assert header.same_run(replace(header, checkpoint="elsewhere/checkpoint_best.pt"))
    for left, with_header in ((content, other), (content[:-2] + b"\n", header), (b"no header\nx\n", header)):
        partial_path(path).write_bytes(left)
        with pytest.raises(OptionError):
            RecordWriter(path, with_header)
        assert partial_path(path).read_bytes() == left
        writer = RecordWriter(path, with_header, replace=True)
        assert writer.done == writer.next == 0
        writer.close()
    partial_path(path).write_bytes(content)
    writer = RecordWriter(path, header, replace=True)  # it is of this run, and is gone on with
    assert (writer.done, writer.next) == (3, 3)
    writer.close()


def test_one_writer_at_a_time(tmp_path, monkeypatch):
    write_records(tmp_path / "all.jsonl")
    header = open_records(tmp_path / "all.jsonl").header
    first = RecordWriter(tmp_path / "x.jsonl", header)
    with pytest.raises(OptionError, match="another process is writing it"):
        RecordWriter(tmp_path / "x.jsonl", header)
    first.write(record(0, "a", "b"))
    first.finish()
    empty, existed = RecordWriter(tmp_path / "y.jsonl", header), []
    monkeypatch.setattr(
        empty, "_stream", SimpleNamespace(closed=False, close=lambda: existed.append(empty.partial.exists()))
    )
    empty.close()
    assert existed == [False], "a file without sentences is gone before another writer can lock it"
    assert len(list(open_records(tmp_path / "x.jsonl"))) == 1


def test_a_writer_that_came_between_locking_and_renaming_begins_anew(tmp_path, monkeypatch):
    """The other process finishes when the file is open, and not yet locked."""
    path = tmp_path / "x.jsonl"
    first = RecordWriter(path, open_records(write_records(tmp_path / "all.jsonl")).header)
    for one in open_records(tmp_path / "all.jsonl"):
        first.write(one)

    def finish_and_lock(*args):
        monkeypatch.undo()
        first.finish()
        portalocker.lock(*args)

    monkeypatch.setattr(portalocker, "lock", finish_and_lock)
    other = replace(first.header, target="beam 5")
    second = RecordWriter(path, other, replace=True)
    assert second.done == 0 and [one.id for one in open_records(path)] == [0, 1, 2]
    second.finish()
    assert open_records(path).header == other and list(open_records(path)) == []


def test_a_record_that_does_not_fit_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="sentence 0: attention is"):
        write_records(tmp_path / "x.jsonl", records=[record(0, "a b", "c", np.ones((2, 2)))])
    weights = np.ones((2, 3))
    weights[1, 2] = np.nan
    with pytest.raises(OptionError, match="^sentence 0 .*: its scores or weights are not numbers; the model's param"):
        write_records(tmp_path / "y.jsonl", records=[record(0, "a b", "c", weights)])


def test_words_for_a_reader():
    """Without escapes, and with the source word beside an unknown one, if it is known."""
    weights = np.array([[0.4, 0.1, 0.45, 0.05], [0.5, 0.2, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0, 0, 0, 1]])
    shown = Record(0, ["Zü@@", "rich", "&apos;s"], ["<unk>", "<unk>", "&quot;"], {"prior": weights}, [-1.0] * 4)
    assert shown_units(shown) == (["Zürich", "'s"], ["<unk> (Zürich)", "<unk> (Zürich)", '"'])
    assert shown_units(shown, "subwords")[1] == ["<unk> ('s)", "<unk> (Zü@@)", '"']
    assert shown_units(shown, escaped=False)[1][2] == "&quot;"
    assert panel_of(shown, "prior").target == ["<unk> (Zürich)", "<unk> (Zürich)", '"']
    unknown = Record(0, ["<unk>"], ["<unk>"], {"attention": np.eye(2)}, [-1.0] * 2, "none")
    assert shown_units(unknown) == (["<unk>"], ["<unk>"])
    at_end = Record(0, ["ein"], ["<unk>"], {"attention": np.eye(2)[::-1]}, [-1.0] * 2, "none")
    assert shown_units(at_end) == (["ein"], ["<unk>"]), "all its weight is on the end"
    found = compare({"a": ["it &apos;s"]}, ["it &apos;s &amp;"], ["c&apos;est"]).sentences[0]
    assert found.source == "c'est" and found.outputs[0].spans[0].words == ["it", "'s"]
