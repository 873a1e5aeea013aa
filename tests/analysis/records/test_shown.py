"""Words for a reader: without escapes, and the source word beside an unknown one."""

import numpy as np

from fairseq_attn_plugin.analysis.drawing.panels import panel_of
from fairseq_attn_plugin.analysis.outputs.comparison import compare
from fairseq_attn_plugin.analysis.records.record import Record, shown_units

WEIGHTS = np.array([[0.4, 0.1, 0.45, 0.05], [0.5, 0.2, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1], [0, 0, 0, 1]])
RECORD = Record(0, ["Zü@@", "rich", "&apos;s"], ["<unk>", "<unk>", "&quot;"], {"prior": WEIGHTS}, [-1.0] * 4)


def test_words_are_shown_as_typed():
    assert shown_units(RECORD) == (["Zürich", "'s"], ["<unk> (Zürich)", "<unk> (Zürich)", '"'])
    assert shown_units(RECORD, "subwords")[1] == ["<unk> ('s)", "<unk> (Zü@@)", '"']
    assert shown_units(RECORD, escaped=False)[1][2] == "&quot;"


def test_a_source_word_that_is_unknown_says_nothing():
    record = Record(0, ["<unk>"], ["<unk>"], {"attention": np.eye(2)}, [-1.0] * 2, "none")
    assert shown_units(record) == (["<unk>"], ["<unk>"])


def test_pictures_and_comparisons_show_them():
    assert panel_of(RECORD, "prior").target == ["<unk> (Zürich)", "<unk> (Zürich)", '"']
    found = compare({"a": ["it &apos;s"]}, ["it &apos;s &amp;"], ["c&apos;est"]).sentences[0]
    assert found.source == "c'est" and found.outputs[0].spans[0].words == ["it", "'s"]
