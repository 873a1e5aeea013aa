"""Corpora of documents: the folds of polarity, Yelp, Yahoo Answers, and the baseline."""

import json

import pytest
from miniature_corpora import imdb, imdb_archive, polarity_archive, polarity_jsonl, reviews, truncate, yahoo, yelp

from fairseq_attn_plugin.corpora import catalogue, tfidf
from fairseq_attn_plugin.corpora.documents import polarity, write_corpus
from fairseq_attn_plugin.corpora.files import CorpusError


@pytest.mark.parametrize("write", [polarity_jsonl, polarity_archive])
def test_folds_are_those_of_the_names(write, tmp_path):
    write(tmp_path)
    splits = polarity(tmp_path, 9)
    documents = [document for part in splits.values() for document in part]
    assert len(documents) == 80
    assert {split: {document.id[2] for document in part} for split, part in splits.items()} == {
        "train": set("12345678"), "valid": {"0"}, "test": {"9"},
    }  # fmt: skip
    assert [len(part) for part in splits.values()] == [64, 8, 8]
    by_name = {document.id: document for document in documents if document.label == "pos"}
    name, _, sentences = [review for review in reviews() if review[1] == "pos"][7]
    expected = [sentence.split() for sentence in sentences]
    if write is polarity_archive:
        expected[-1].append("caf\xe9")
    assert by_name[name].sentences == expected


def test_damaged_corpora_are_one_line(tmp_path):
    with pytest.raises(CorpusError, match="has no reviews: expected review_polarity.tar.gz"):
        polarity(tmp_path, 0)
    polarity_archive(tmp_path)
    path = tmp_path / "review_polarity.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorpusError, match="is truncated or damaged"):
        polarity(tmp_path, 0)
    path.unlink()
    (tmp_path / "polarity.jsonl").write_text('{"label": "pos", "sentences": ["a"], "name": "review1"}\n')
    with pytest.raises(CorpusError, match="review1, must be cvNNN"):
        polarity(tmp_path, 0)


def test_an_empty_split_is_refused(tmp_path):
    polarity_jsonl(tmp_path)
    splits = {**polarity(tmp_path, 0), "valid": []}
    with pytest.raises(CorpusError, match="the valid split is empty"):
        write_corpus(splits, tmp_path / "text")


def test_a_fold_is_prepared(prepare, corpus_folder):
    polarity_jsonl(corpus_folder)
    text = prepare("polarity_han", data=corpus_folder, fold=4).out / "text"
    assert {path.name for path in text.iterdir()} == {
        f"{split}.{side}" for split in ("train", "valid", "test") for side in ("input0", "label")
    }
    assert "was prepared with fold 4, not 5" in prepare("polarity_han", check=False, fold=5).error


def test_yelp_is_read_from_a_folder(prepare, corpus_folder, tmp_path):
    (corpus_folder / "emnlp").mkdir()
    yelp(corpus_folder / "emnlp")
    text = prepare("yelp2013_han", data=corpus_folder).out / "text"
    labels = (text / "train.label").read_text().split()
    assert len(labels) == 40 and set(labels) == set("12345")
    assert any("</s>" in line for line in (text / "train.input0").read_text().splitlines())
    (corpus_folder / "emnlp" / "yelp-2013-dev.txt.ss").write_text("user\t\tplace\t\t7\t\ttext\n")
    done = prepare("yelp2013_han", data=corpus_folder, out=tmp_path / "b", check=False)
    assert "yelp-2013-dev.txt.ss, line 1" in done.error


def test_yelp_is_unpacked_once_with_the_tool_that_is_there(prepare, tmp_path, monkeypatch):
    raw = tmp_path / "downloads"
    raw.mkdir()
    (raw / "emnlp-2015-data.7z").write_bytes(b"")
    monkeypatch.setattr(
        "fairseq_attn_plugin.commands.prepare.fetch", lambda download, folder, text: raw / download.name
    )
    commands = []
    monkeypatch.setattr(catalogue, "run_quietly", lambda log, *words: commands.append(words))
    monkeypatch.setattr("shutil.which", lambda tool: None)
    line = prepare("yelp2013_han", check=False).error
    assert "needs 7z: install it" in line and "--data FOLDER" in line
    monkeypatch.setattr("shutil.which", lambda tool: "/bin/7za" if tool == "7za" else None)
    for _ in range(2):
        assert "yelp-2013-train.txt.ss is missing" in prepare("yelp2013_han", check=False).error
    assert commands == [("/bin/7za", "x", "-y", f"-o{raw}", raw / "emnlp-2015-data.7z")]


def test_every_tenth_question_of_yahoo_validates(prepare, corpus_folder, tmp_path):
    yahoo(corpus_folder)
    text = prepare("yahoo_answers_han", data=corpus_folder).out / "text"
    sizes = {split: len((text / f"{split}.label").read_text().splitlines()) for split in ("train", "valid", "test")}
    assert sizes == {"train": 54, "valid": 6, "test": 20}
    first = 'why is it 0 ? </s> i ask . </s> twice . </s> because " so " it is .'
    assert (text / "train.input0").read_text().splitlines()[0] == first
    assert (text / "valid.input0").read_text().startswith("why is it 9 ?")
    (corpus_folder / "test.csv").write_text('"11","a","b","c"\n')
    line = prepare("yahoo_answers_han", data=corpus_folder, out=tmp_path / "b", check=False).error
    assert line.endswith("test.csv, row 1: must be class (1 to 10), title, question and answer")


def test_imdb_from_tables_and_from_its_archive(prepare, corpus_folder, tmp_path):
    imdb(corpus_folder)
    text = prepare("imdb_han", data=corpus_folder).out / "text"
    sizes = {split: len((text / f"{split}.label").read_text().splitlines()) for split in ("train", "valid", "test")}
    assert sizes == {"train": 40, "valid": 10, "test": 20}
    assert (text / "train.input0").read_text().splitlines()[1] == "a fine film . </s> i say : fine , number 0 ."
    assert (text / "train.label").read_text().split()[:3] == ["neg", "pos", "neg"]
    archive = tmp_path / "archive"
    archive.mkdir()
    imdb_archive(archive)
    text = prepare("imdb_han", data=archive, out=tmp_path / "b").out / "text"
    assert (text / "valid.input0").read_text().splitlines()[2:] == [
        "a dull film . </s> number 5 .",
        "a fine film . </s> number 5 .",
    ]
    assert (
        len((text / "train.label").read_text().split()) == 16 and len((text / "test.label").read_text().split()) == 20
    )


def test_damaged_files_of_imdb_are_one_line(prepare, corpus_folder, tmp_path):
    imdb_archive(corpus_folder)
    truncate(corpus_folder / "aclImdb_v1.tar.gz")
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "a", check=False).error
    assert "aclImdb_v1.tar.gz is truncated" in line
    (corpus_folder / "aclImdb_v1.tar.gz").unlink()
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "b", check=False).error
    assert "has no reviews of train" in line and "train, val and test as .tsv" in line
    imdb(corpus_folder)
    truncate(corpus_folder / "val.tsv.xz")
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "c", check=False).error
    assert "val.tsv.xz is truncated or damaged" in line
    (corpus_folder / "val.tsv.xz").unlink()
    (corpus_folder / "val.tsv").write_text("pos\t7\tgood\n")
    line = prepare("imdb_han", data=corpus_folder, out=tmp_path / "d", check=False).error
    assert line.endswith("val.tsv, line 1: must be label (neg or pos), rating, id and text, by tabs")


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
