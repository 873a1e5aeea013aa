"""Corpora of documents: the folds of polarity, IMDB, and the baseline."""

import json
import shutil

import miniature_corpora as miniatures
import pytest
from miniature_corpora import reviews, truncate

from fairseq_attn_plugin.corpora import tfidf
from fairseq_attn_plugin.corpora.documents import polarity, write_corpus
from fairseq_attn_plugin.corpora.files import CorpusError


@pytest.mark.parametrize("unpacked", [False, True])
def test_folds_are_those_of_the_names(unpacked, tmp_path):
    miniatures.polarity(tmp_path)
    if unpacked:
        shutil.unpack_archive(tmp_path / "review_polarity.tar.gz", tmp_path, filter="data")
        (tmp_path / "review_polarity.tar.gz").unlink()
    splits = polarity(tmp_path, 9)
    documents = [document for part in splits.values() for document in part]
    assert len(documents) == 80
    assert {split: {document.id[2] for document in part} for split, part in splits.items()} == {
        "train": set("12345678"), "valid": {"0"}, "test": {"9"},
    }  # fmt: skip
    assert [len(part) for part in splits.values()] == [64, 8, 8]
    by_name = {document.id: document for document in documents if document.label == "pos"}
    name, _, sentences = [review for review in reviews() if review[1] == "pos"][7]
    assert by_name[name].sentences == [*(one.split() for one in sentences[:-1]), [*sentences[-1].split(), "caf\xe9"]]


def test_damaged_corpora_are_one_line(tmp_path):
    with pytest.raises(CorpusError, match="has no reviews: expected review_polarity.tar.gz"):
        polarity(tmp_path, 0)
    miniatures.polarity(tmp_path)
    path = tmp_path / "review_polarity.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorpusError, match="truncated or not an archive"):
        polarity(tmp_path, 0)


def test_an_empty_split_is_refused(tmp_path):
    miniatures.polarity(tmp_path)
    splits = {**polarity(tmp_path, 0), "valid": []}
    with pytest.raises(CorpusError, match="the valid split is empty"):
        write_corpus(splits, tmp_path / "text")


def test_a_fold_is_prepared(prepare, corpus_folder):
    miniatures.polarity(corpus_folder)
    text = prepare("polarity_han", data=corpus_folder, fold=4).out / "text"
    assert {path.name for path in text.iterdir()} == {
        f"{split}.{side}" for split in ("train", "valid", "test") for side in ("input0", "label")
    }
    assert "was prepared with fold 4, not 5" in prepare("polarity_han", check=False, fold=5).error


def test_imdb(prepare, corpus_folder):
    miniatures.imdb(corpus_folder)
    text = prepare("imdb_han", data=corpus_folder).out / "text"
    lines = {path.name: path.read_text().splitlines() for path in text.iterdir()}
    assert lines["valid.input0"][2:] == ["a dull film . </s> number 5 .", "a fine film . </s> number 5 ."]
    assert lines["train.label"] == ["neg", "pos"] * 8 and len(lines["test.label"]) == 20


def test_damaged_files_of_imdb_are_one_line(prepare, corpus_folder, tmp_path):
    miniatures.imdb(corpus_folder)
    truncate(corpus_folder / "aclImdb_v1.tar.gz")
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "a", check=False).error
    assert "aclImdb_v1.tar.gz is truncated" in line
    (corpus_folder / "aclImdb_v1.tar.gz").unlink()
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "b", check=False).error
    assert "has no reviews of train" in line and "aclImdb_v1.tar.gz" in line


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_baseline_finds_the_word_that_tells(classifier, tmp_path, capsys):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    for split, folds in (("train", "2345678"), ("valid", "1"), ("test", "0")):
        chosen = [review for review in reviews(8) if review[0][2] in folds]
        (tmp_path / f"{split}.input0").write_text("".join(" </s> ".join(s) + "\n" for _, _, s in chosen))
        (tmp_path / f"{split}.label").write_text("".join(label + "\n" for _, label, _ in chosen))
    tfidf.main([str(tmp_path), "--classifier", classifier, "--out", str(tmp_path / "seed1" / "test.json")])
    result = json.loads((tmp_path / "seed1" / "test.json").read_text())
    assert result["accuracy"] == 100 and result["documents"] == 16
    assert capsys.readouterr().out.startswith("accuracy 100.00, macro-F1 100.00 (C = ")
    (tmp_path / "test.label").write_text("pos\n")
    with pytest.raises(CorpusError, match="16 documents and 1 labels"):
        tfidf.evaluate(tmp_path)
