"""Documents: files, sentences, lines for fairseq-preprocess, splits; and mistakes in them, each one line."""

import gzip
import json
import re

import pytest
from fairseq.data import Dictionary

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.documents import (
    Document,
    class_names,
    documents_of,
    split_documents,
    to_line,
    write_documents,
)
from fairseq_attn_plugin.text.reading import Reading, split_sentences


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("it cost 3.5 , see www.x.org for more . yes", ["it cost 3.5 , see www.x.org for more .", "yes"]),
        ('he said " stop ! " and left .', ['he said " stop ! "', "and left ."]),
        ("well . . . no .", ["well . . .", "no ."]),
        ("(Good.) Bad", ["(Good.)", "Bad"]),
        ("a line\nanother  line", ["a line", "another line"]),
        ("没有。是的！", ["没有。", "是的！"]),
        ("هل هو هنا؟ نعم.", ["هل هو هنا؟", "نعم."]),
        ("वह सोता है। ठीक है।", ["वह सोता है।", "ठीक है।"]),
        ("no end", ["no end"]),
        ("", []),
        (" \n . ", ["."]),
    ],
)
def test_sentences_end_at_punctuation_and_lines_or_at_the_separator(text, sentences):
    assert split_sentences(text) == sentences
    assert split_sentences("a. b <sssss> c <sssss>  <sssss>", "<sssss>") == ["a. b", "c"]


def test_jsonl_has_sentences_as_text_or_words_or_one_text(tmp_path):
    lines = [
        {"label": "pos", "sentences": ["The film .", ["I", "liked", "it"]], "name": "cv1"},
        {"label": 3, "text": "Good . Bad !", "id": 7},
        {"label": "neg", "sentences": ["", [], "  "]},
    ]
    path = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    expected = [
        Document([["The", "film", "."], ["I", "liked", "it"]], "pos", "cv1"),
        Document([["Good", "."], ["Bad", "!"]], "3", "7"),
        Document([], "neg", None),
    ]
    assert list(documents_of(path)) == expected
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert list(documents_of(zipped)) == expected
    zipped.write_bytes(zipped.read_bytes()[:-9])
    with pytest.raises(OptionError, match="a.jsonl.gz: cannot be read"):
        list(documents_of(zipped))
    assert next(iter(documents_of(path, Reading(lowercase=True)))).sentences[1] == ["i", "liked", "it"]


def test_text_has_a_label_before_a_tab_or_none(tmp_path):
    path = written(tmp_path, "a.txt", "pos\tGood film. Yes.\r\nneg\tBad\n")
    assert [d.label for d in documents_of(path)] == ["pos", "neg"]
    first, _ = documents_of(path, Reading(tokenize=True, lowercase=True))
    assert first.sentences == [["good", "film", "."], ["yes", "."]]
    path = written(tmp_path, "b.txt", "no label here\n")
    assert list(documents_of(path, labels=False)) == [Document([["no", "label", "here"]])]


def test_the_first_row_may_name_the_columns(tmp_path):
    expected = [Document([["Bad"]], "neg"), Document([["text"]], "label")]
    assert list(documents_of(written(tmp_path, "a.tsv", "Label\tText\nneg\tBad\nlabel\ttext\n"))) == expected
    path = written(tmp_path, "b.tsv", "text\tyear\tlabel\tID\nBad\t1999\tneg\tx7\n \t\t\t\nGood\t2000\t\t\n")
    first, second = documents_of(path, labels=False)
    assert (first, first.line) == (Document([["Bad"]], "neg", "x7"), 2)
    assert (second, second.line) == (Document([["Good"]]), 4)
    with pytest.raises(OptionError, match="b.tsv, line 4: has no label"):
        list(documents_of(path))
    path = written(tmp_path, "id.tsv", "id\ttext\n17\tBad\n")
    assert list(documents_of(path, labels=False)) == [Document([["Bad"]], None, "17")]
    path = written(tmp_path, "c.tsv", "label\ttext\nneg\tBad\tx\n")
    with pytest.raises(OptionError, match="c.tsv, line 2: has 3 columns; must have as many as the first row, 2"):
        list(documents_of(path))


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_tables_of_spreadsheets(tmp_path, separator):
    rows = ["label,text", 'neg,"Bad, film\r\nYes; ""no"""', "pos,Good"]
    text = "\ufeff" + "\r\n".join(row.replace(",", separator, 1) for row in rows) + "\r\n"
    expected = [Document([["Bad,", "film"], ["Yes;", '"no"']], "neg"), Document([["Good"]], "pos")]
    path = written(tmp_path, "a.csv", text)
    assert list(documents_of(path)) == expected and [one.line for one in documents_of(path)] == [3, 4]
    zipped = tmp_path / "a.CSV.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert list(documents_of(zipped)) == expected
    path = written(tmp_path, "long.csv", f'pos{separator}"{"word " * 40000}"\n')
    assert [one.words for one in documents_of(path)] == [40000]


def test_tables_without_labels(tmp_path):
    assert list(documents_of(written(tmp_path, "a.csv", "text\nGood\n"), labels=False)) == [Document([["Good"]])]
    path = written(tmp_path, "one.csv", 'text\nGood; really\n"Bad, film"\n')
    assert [one.sentences for one in documents_of(path, labels=False)] == [[["Good;", "really"]], [["Bad,", "film"]]]
    path = written(tmp_path, "b.csv", "id;text\n3;Good\n")
    assert list(documents_of(path, labels=False)) == [Document([["Good"]], None, "3")]
    path = written(tmp_path, "c.csv", 'pos,Good\nneg,"Bad\n')
    with pytest.raises(OptionError, match="c.csv, line 2: is no row of a table"):
        list(documents_of(path))


def test_a_word_is_in_memory_once_however_often_it_occurs(tmp_path):
    one, other = documents_of(written(tmp_path, "x.txt", "a\tlong word\nb\tword\n"))
    assert one.sentences[0][1] is other.sentences[0][0]


def test_every_sentence_of_a_line_but_the_last_has_its_end_and_fairseqs_symbols_stay_words(tmp_path):
    (document,) = documents_of(written(tmp_path, "a.txt", "x\ta </s> b <pad> <b> <unk>\n"))
    assert to_line(document.sentences) == "a &lt;/s&gt; b &lt;pad&gt; <b> &lt;unk&gt;"
    assert to_line([["a", "b"], ["c"]]) == "a b </s> c" and to_line([]) == ""


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("a.jsonl", '{"label": "x", "sentences": []}\n{"label": \n', ["a.jsonl, line 2", "must be JSON"]),
        ("a.jsonl", '["x"]\n', ["line 1", '"sentences": [...]']),
        ("a.jsonl", '{"label": "x", "sentences": [3]}\n', ["line 1", "not 3"]),
        ("a.jsonl", '{"label": "so so", "text": "a"}\n', ["'so so'", "without spaces"]),
        ("a.jsonl", '{"label": ["x"], "text": "a"}\n', ["line 1", "must be a word or a whole number"]),
        ("a.jsonl", '{"label": "x", "text": "\\ud83d"}\n', ["line 1", "must be JSON"]),
        ("a.jsonl", '{"text": "a"}\n', ["line 1", "has no label"]),
        ("a.txt", "pos\ta\nno label\n", ["line 2", "has no label", "LABEL<TAB>text"]),
        ("a.txt", "pos\ta\tb\n", ["line 1", "has 3 columns", "LABEL<TAB>text"]),
        ("a.txt", f"{'word ' * 99}\tpos\n", ["line 1", f"the label '{'word ' * 8}' must be one word"]),
        ("a.txt", "<unk>\ta\n", ["line 1", "the label <unk> is a symbol of every vocabulary"]),
        ("a.txt", "", ["a.txt: is empty"]),
    ],
)
def test_mistakes_name_the_line(tmp_path, name, text, parts):
    path = written(tmp_path, name, text)
    with pytest.raises(OptionError) as error:
        list(documents_of(path))
    assert all(part in str(error.value) for part in parts) and "\n" not in str(error.value), error.value


def test_splits_have_a_share_of_every_label_and_lose_nothing():
    documents = [Document([[str(n)]], "ab"[n % 4 == 0]) for n in range(100)]
    splits = split_documents(documents, {"valid": 0.1, "test": 0.2}, seed=3)
    assert {name: len(part) for name, part in splits.items()} == {"train": 71, "valid": 9, "test": 20}
    # 75 a and 25 b: 7 + 2 and 15 + 5
    assert sum(d.label == "b" for d in splits["valid"]) == 2 and sum(d.label == "b" for d in splits["test"]) == 5
    numbers = [[int(d.sentences[0][0]) for d in part] for part in splits.values()]
    assert sorted(sum(numbers, [])) == list(range(100))
    assert all(part == sorted(part) for part in numbers)
    assert split_documents(documents, {"valid": 0.1, "test": 0.2}, seed=3) == splits
    assert split_documents(documents, {"valid": 0.1, "test": 0.2}, seed=4) != splits
    texts = [[["same"]]] * 6 + [[[f"w{number}"]] for number in range(30)]  # equal ones are in one split
    equal = split_documents([Document(text, "a") for text in texts], {"valid": 0.3, "test": 0.3}, seed=3)
    assert sum(any(one.sentences == [["same"]] for one in part) for part in equal.values()) == 1
    with pytest.raises(OptionError, match="the split valid is empty"):
        split_documents(documents[:3], {"valid": 0.1})
    with pytest.raises(OptionError, match="to leave documents for train"):
        split_documents(documents, {"valid": 0.5, "test": 0.5})


def test_files_appear_whole_or_not_at_all(tmp_path):
    documents = [Document([["a"], ["b", "c"]], "x"), Document([], "y")]
    assert write_documents(documents, tmp_path / "new" / "train") == (2, 2, 3)
    assert (tmp_path / "new" / "train.input0").read_text() == "a </s> b c\n\n"
    assert (tmp_path / "new" / "train.label").read_text() == "x\ny\n"
    bad = written(tmp_path, "bad.txt", "x\ta\nno label\n")
    with pytest.raises(OptionError):
        write_documents(documents_of(bad), tmp_path / "bad" / "train")
    assert not list((tmp_path / "bad").iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written|cannot be created"):
        write_documents(documents, tmp_path / "file" / "train")


def test_classes_are_the_labels_without_what_fairseq_adds():
    dictionary = Dictionary()
    for label, count in (("pos", 3), ("neg", 5)):
        dictionary.add_symbol(label, count)
    dictionary.finalize()
    dictionary.add_symbol("<mask>")
    assert len(dictionary) > 7 and class_names(dictionary) == ["neg", "pos"]


def test_script_writes_splits(tmp_path, capsys):
    lines = [json.dumps({"label": "ab"[n % 2], "sentences": ["s %d ." % n]}) for n in range(20)]
    path = str(written(tmp_path, "all.jsonl", "\n".join(lines) + "\n"))
    cli.main(["documents", path, "--to", str(tmp_path / "text"), "--split", "valid=0.2", "test=0.2"])
    said = capsys.readouterr().out
    assert f"{tmp_path}/text/train: 12 documents, 12 sentences, 36 words; 2 labels: a 6, b 6\n" in said
    assert len(re.findall("4 documents, 4 sentences, 12 words; 2 labels: (a 2, b 2|b 2, a 2)\n", said)) == 2
    assert len(list((tmp_path / "text").glob("t*.input0"))) == len(list((tmp_path / "text").glob("t*.label"))) == 2
    with pytest.raises(OptionError, match="the split test of an earlier call would stay, .* in train and valid, too"):
        cli.main(["documents", path, "--to", str(tmp_path / "text"), "--split", "valid=0.3", "--seed", "2"])
    with pytest.raises(OptionError, match="--seed 2: needs --split NAME=SHARE, which it draws"):
        cli.main(["documents", path, "--to", str(tmp_path / "out"), "--seed", "2"])
    for split in ("valid", "valid=1", "valid=0.0", "a/b=0.3", "train=0.1"):
        with pytest.raises(OptionError, match=f"--split {split}: must "):
            cli.main(["documents", path, "--to", str(tmp_path / "out"), "--split", split])


@pytest.mark.parametrize(("head", "wrong"), [("kind\ttext", True), ("kind\treview", True), ("label\ttext", False)])
def test_other_names_of_columns_are_pointed_out(tmp_path, capsys, head, wrong):
    path = written(tmp_path, "a.tsv", f"{head}\n" + "".join(f"pos\tGood {n}\nneg\tBad {n}\n" for n in range(20)))
    cli.main(["documents", str(path), "--to", str(tmp_path / "text"), "--split", "valid=0.1"])
    error = capsys.readouterr().err
    assert ("a.tsv: the label kind is that of the first document alone; if its line names" in error) is wrong
    assert "\n" not in error.strip()


def test_text_without_spaces_between_its_words_is_pointed_out(tmp_path, capsys):
    german = "Donaudampfschifffahrtsgesellschaft ist ein Wort."
    for name, text in (("ja", "これは本当にすばらしい映画だ。俳優も音楽もよい。"), ("de", german)):
        path = written(tmp_path, f"{name}.txt", f"a\t{text}\n" * 31)
        cli.main(["documents", str(path), "--to", str(tmp_path / name)])
    found = capsys.readouterr()
    (line,) = found.err.splitlines()
    assert "ja.txt: words have 15 characters on average; split text without spaces between words beforehand" in line
    assert found.out.count("1 label: a 31\n") == 2
    many = written(tmp_path, "many.txt", "".join(f"k{number}\ta\n" for number in range(31)))
    cli.main(["documents", str(many), "--to", str(tmp_path / "many")])
    assert capsys.readouterr().out.endswith("k29 1, ...\n")
