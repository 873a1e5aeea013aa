"""Outputs of systems, whatever file they lie in."""

import pytest
from records_for_tests import PAIRS, record, write_records
from refusals import refuses

from fairseq_attn_plugin.analysis.outputs import reading as outputs
from fairseq_attn_plugin.errors import OptionError

GENERATED = """INFO something | of fairseq
T-1\ta d@@ og
H-1\t-0.5\tthe d@@ og
D-1\t-0.5\tthe dog
P-1\t-0.1 -0.2
H-1\t-0.7\tsecond best
H-2\t-inf\t
H-0\t-1e-05\ta <b> \u2028 $house$
Generate test with beam=2: BLEU4 = 0.00
"""


def text(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def test_the_output_of_fairseq_is_in_the_order_of_the_corpus(tmp_path):
    assert outputs.read_output(text(tmp_path / "test.out", GENERATED)) == ["a <b> \u2028 $house$", "the d@@ og", ""]


def test_plain_text_keeps_its_lines(tmp_path):
    path = text(tmp_path / "hyp", "a \u2028b\n\nH-0 is no line of fairseq\n\u2581klein es \u2581haus")
    assert outputs.read_output(path) == ["a \u2028b", "", "H-0 is no line of fairseq", "\u2581klein es \u2581haus"]


def test_words_of_extracted_hypotheses(tmp_path, capsys):
    path = write_records(tmp_path / "beam.jsonl", target="beam 5")
    assert outputs.read_output(path) == ["a small house", "the dog is sleeping", "good day"]
    some = [record(0, *PAIRS[0], reference="a little house"), record(2, *PAIRS[2], reference="hello")]
    path = write_records(tmp_path / "some.jsonl", records=some, target="beam 5", sentences=4)
    assert outputs.read_output(path) == ["a small house", "", "good day", ""]
    assert f"{path}: 2 of 4 sentences were not extracted and count as empty" in capsys.readouterr().err
    with pytest.raises(OptionError, match="has references of 2 of its 4 sentences only; give their text"):
        outputs.read_reference(path)
    forced = write_records(tmp_path / "forced.jsonl")
    assert outputs.read_reference(forced) == ["a small house", "the dog is sleeping", "good day"]
    assert outputs.read_source(path) == ["ein kleines haus", "", "guten tag", ""]
    with pytest.raises(OptionError, match="contains attention to the references, not translations"):
        outputs.read_output(forced)
    with pytest.raises(OptionError, match="has no references; give their text"):
        outputs.read_reference(write_records(tmp_path / "no.jsonl", target="beam 5"))


def test_labels(tmp_path, monkeypatch):
    paths = []
    for folder in ("soft", "mqt", "lr=0.1"):
        (tmp_path / folder).mkdir()
        paths.append(str(text(tmp_path / folder / "test.hyp", "a\n")))
    odd = str(text(tmp_path / "a=b.hyp", "a\n"))
    records = str(write_records(tmp_path / "beam.jsonl", name="structured", target="beam 5"))
    found = outputs.read_systems([paths[0], f"other={paths[1]}", records, odd])
    assert list(found) == ["test", "other", "structured", "a=b"]
    with pytest.raises(OptionError, match="test: 2 files have this name; give each its own, NAME=FILE"):
        outputs.read_systems(paths[:2])
    monkeypatch.chdir(tmp_path)
    assert list(outputs.read_systems(["lr=0.1=lr=0.1/test.hyp", "lr=1=a=b.hyp"])) == ["lr=0.1", "lr=1"]


@refuses(
    (None, r"^\S*hyp: cannot be read: No such file"),
    (b"good\n\xff\n", r"^\S*hyp: is not UTF-8 after line"),
    (b"H-0\t-1\ta\nH-2\t-1\tb\n", r"^\S*hyp: sentence 1 has no line H-1; fairseq-generate did not finish"),
    (b"D-0\t-0.5\ta b\nD-1\t-0.5\tc\n", r"^\S*hyp: has lines D- of fairseq-generate; give its whole"),
)
def test_files_that_cannot_be_read(content, tmp_path):
    if content is not None:
        (tmp_path / "hyp").write_bytes(content)
    outputs.read_output(tmp_path / "hyp")


def test_lengths_and_tokenisation():
    outputs.check_lengths({"a": ["x"], "b": [""]})
    with pytest.raises(OptionError, match="^b: has 2 sentences, a has 1; they must be of the same corpus$"):
        outputs.check_lengths({"a": ["x"], "b": ["x", "y"]})
    outputs.check_tokenisation({"a": ["klei@@ nes"], "empty": ["", " "], "b": ["hau@@ s"]})
    outputs.check_tokenisation({"a": ["an @@ alone and me@@you are words"], "b": ["x"]})
    for words, pieces in (("x", "klei@@ nes"), ("x", "\u2581x y"), ("klei@@ nes", "\u2581x y")):
        with pytest.raises(OptionError, match="has subwords .* join them to words, as fairseq-generate"):
            outputs.check_tokenisation({"one": [words], "two": ["", pieces]})
    raw, tokenised = ["A dog, e.g.", "No.", "x"], ["a dog .", "z.B. !", "a ...", ""]
    outputs.check_tokenisation({"raw": raw, "words": {".": 2, "z.B.": 1}.keys(), "mixed": ["a .", "a."]})
    outputs.check_tokenisation({"raw": raw, "tokenised": tokenised}, stops=False)
    with pytest.raises(OptionError, match="^tokenised: has full stops apart from words, raw attached to them; tokenis"):
        outputs.check_tokenisation({"raw": raw, "x": ["x"], "tokenised": tokenised})
