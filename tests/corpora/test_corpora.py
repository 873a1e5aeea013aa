"""What ``fairseq-attn prepare`` makes of the text of each corpus; and the baseline for documents."""

import gzip
import json
import re

import miniature_corpora as miniatures
import pytest
from miniature_corpora import reviews, sentences, write

from fairseq_attn_plugin import toy_corpus
from fairseq_attn_plugin.corpora import tfidf
from fairseq_attn_plugin.corpora.documents import polarity
from fairseq_attn_plugin.errors import OptionError


def sizes(done, side):
    return [len(done.lines(f"{split}.{side}")) for split in ("train", "valid", "test")]


def test_published_tokenisation_is_taken(prepare, corpus_folder):
    miniatures.multi30k(corpus_folder)
    assert all(
        line == line.lower() and " , doesn &apos;t it ?" in line
        for line in prepare("multi30k", data=corpus_folder, out=corpus_folder / "a").lines("train.en")
    )
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = gzip.decompress((corpus_folder / f"{name}.{language}.gz").read_bytes()).decode().splitlines()
            write(corpus_folder / f"{name}.tok.{language}", ["TOK " + line for line in lines], zipped=True)
    done = prepare("multi30k", data=corpus_folder)
    assert done.lines("test.en")[0].startswith("tok the ") and done.lines("test.raw.en")[0].startswith("The ")


def test_subwords_are_of_both_languages(prepare, corpus_folder):
    miniatures.multi30k(corpus_folder)
    done = prepare("multi30k", data=corpus_folder, subword_size=60, cut=20, longest=18)
    assert len((done.out / "codes").read_text().splitlines()) > 50
    lengths = [len(line.split()) for line in (done.out / "segmented" / "train.de").read_text().splitlines()]
    assert 10 < len(lengths) < 120 and max(lengths) == 18 and "to 20 tokens" in done.stdout, "of training alone"
    for name in ("valid.de", "test.en"):
        segmented = (done.out / "segmented" / name).read_text()
        assert "@@ " in segmented and segmented.replace("@@ ", "").splitlines() == done.lines(name)


def test_setimes_is_appended_to_the_training_text(prepare, corpus_folder):
    miniatures.wmt16_en_ro(corpus_folder)
    for language, lines in zip(("en", "ro"), sentences(5, 7)):
        write(corpus_folder / f"SETIMES.en-ro.{language}", lines)
    done = prepare("wmt16_en_ro", data=corpus_folder, setimes=True)
    assert "note: dropped 1 pairs with an empty side" in done.stdout
    for language in ("en", "ro"):
        lines = done.lines(f"train.{language}")
        assert len(lines) == 125 and lines[120:] == done.lines(f"setimes.{language}")


def test_pairs_of_the_election_have_equally_many_words(prepare, corpus_folder, tmp_path):
    miniatures.tatoeba(corpus_folder)
    equal = prepare("tatoeba_election", data=corpus_folder, equal_words=True)
    for line, other in zip(equal.lines("train.en"), equal.lines("train.es")):
        assert len(line.split()) == len(other.split()) and line == line.lower() and not line.endswith("?")
    every = prepare("tatoeba_election", data=corpus_folder, out=tmp_path / "all")
    assert any(line.endswith(" ?") for line in every.lines("test.en")) and every.lines("test.raw.es")


def test_links_of_the_synthetic_corpus_are_those_of_the_generator(prepare, corpus_folder):
    miniatures.toy(corpus_folder)
    done = prepare("toy_corpus", data=corpus_folder)
    for name in ("train.vr", "test.dm", "test.align"):
        assert (done.out / "text" / name).read_bytes() == (corpus_folder / name).read_bytes()
    links = [pair.links for pair in toy_corpus.generate(1, {"train": 60, "valid": 8, "test": 8})["test"]]
    assert done.lines("test.dm-vr.align") == [" ".join(f"{j}-{i}" for i, j in pair) for pair in links]


def test_the_archive_of_iwslt14_becomes_the_usual_split(prepare, corpus_folder):
    archive = corpus_folder / "de-en"
    archive.mkdir()
    miniatures.iwslt14_de_en(archive)
    for language, end in (("de", " zu" * 30), ("en", "")):  # a pair with a side much longer than the other
        path = archive / f"train.tags.de-en.{language}"
        path.write_text(path.read_text() + f"One \u2013 two.{end}\n", encoding="utf-8")
    done = prepare("iwslt14_de_en", data=corpus_folder)
    assert "cleaning left 120 of 121 training pairs" in done.stdout
    names = [f"{split}.{language}" for split in ("test", "test.raw", "train", "valid") for language in ("de", "en")]
    assert sorted(path.name for path in (done.out / "text").iterdir()) == names and sizes(done, "en") == [115, 5, 15]
    tokens = [
        line.lower().replace(",", " ,").replace("n't", "n &apos;t").replace("?", " ?") for line in sentences(120, 0)[0]
    ]
    assert done.lines("valid.en") == tokens[22::23]
    assert done.lines("train.en") == [line for number, line in enumerate(tokens, 1) if number % 23]
    assert done.lines("test.raw.en") == [line for seed in range(1, 6) for line in sentences(3, seed)[0]]


def test_iwslt14_keeps_punctuation_except_apostrophes_of_the_test_set(prepare, corpus_folder, tmp_path):
    miniatures.iwslt14_de_en(corpus_folder)
    for path in corpus_folder.iterdir():
        text = re.sub("(it|ti)[?]", "\\1 \u2013 it\u2019s \u201eit\u201c?", path.read_text())  # ti: the foreign side
        path.write_text(text, encoding="utf-8")
    done = prepare("iwslt14_de_en", data=corpus_folder)
    assert "it \u2013 it &apos;s \u201e it \u201c ?" in done.lines("test.en")[0]
    assert "it \u2013 it \u2019 s \u201e it \u201c ?" in done.lines("train.en")[0]
    for path in corpus_folder.glob("*.xml"):
        path.write_text("<mteval></mteval>")
    refused = prepare("iwslt14_de_en", data=corpus_folder, out=tmp_path / "empty", check=False)
    assert "the test split is empty" in refused.error


@pytest.mark.parametrize("write_corpus", [miniatures.polarity_jsonl, miniatures.polarity_archive])
def test_folds_are_those_of_the_names(write_corpus, tmp_path):
    write_corpus(tmp_path)
    splits = polarity(tmp_path, 9)
    folds = {split: {document.id[2] for document in part} for split, part in splits.items()}
    assert folds == {"train": set("12345678"), "valid": {"0"}, "test": {"9"}}
    assert [len(part) for part in splits.values()] == [64, 8, 8]
    by_name = {document.id: document for part in splits.values() for document in part if document.label == "pos"}
    name, _, lines = [review for review in reviews() if review[1] == "pos"][7]
    expected = [line.split() for line in lines]
    if write_corpus is miniatures.polarity_archive:
        expected[-1].append("caf\xe9")
    assert by_name[name].sentences == expected


def test_a_fold_is_prepared(prepare, corpus_folder):
    miniatures.polarity_jsonl(corpus_folder)
    done = prepare("polarity_han", data=corpus_folder, fold=4)
    assert sizes(done, "label") == sizes(done, "input0") == [64, 8, 8]
    assert "was prepared with fold 4, not 5" in prepare("polarity_han", check=False, fold=5).error


def test_yelp_is_read_from_a_folder(prepare, corpus_folder):
    (corpus_folder / "emnlp").mkdir()
    miniatures.yelp(corpus_folder / "emnlp")
    done = prepare("yelp2013_han", data=corpus_folder)
    assert sizes(done, "input0") == [40, 10, 10] and set(done.lines("train.label")) == set("12345")
    assert any("</s>" in line for line in done.lines("train.input0"))


def test_every_tenth_question_of_yahoo_validates(prepare, corpus_folder):
    miniatures.yahoo(corpus_folder)
    done = prepare("yahoo_answers_han", data=corpus_folder)
    assert sizes(done, "label") == [54, 6, 20]
    assert done.lines("train.input0")[0] == 'why is it 0 ? </s> i ask . </s> twice . </s> because " so " it is .'
    assert done.lines("valid.input0")[0].startswith("why is it 9 ?")


def test_imdb_from_tables_and_from_its_archive(prepare, corpus_folder, tmp_path):
    miniatures.imdb(corpus_folder)
    done = prepare("imdb_han", data=corpus_folder)
    assert sizes(done, "label") == [40, 10, 20] and done.lines("train.label")[:3] == ["neg", "pos", "neg"]
    assert done.lines("train.input0")[1] == "a fine film . </s> i say : fine , number 0 ."
    archive = tmp_path / "archive"
    archive.mkdir()
    miniatures.imdb_archive(archive)
    done = prepare("imdb_han", data=archive, out=tmp_path / "b")
    assert done.lines("valid.input0")[2:] == ["a dull film . </s> number 5 .", "a fine film . </s> number 5 ."]
    assert sizes(done, "label") == [16, 4, 20]


@pytest.fixture
def of_reviews(tmp_path):
    """Documents for the baseline, in ``tmp_path``."""
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    for split, folds in (("train", "2345678"), ("valid", "1"), ("test", "0")):
        chosen = [review for review in reviews(8) if review[0][2] in folds]
        (tmp_path / f"{split}.input0").write_text("".join(" </s> ".join(s) + "\n" for _, _, s in chosen))
        (tmp_path / f"{split}.label").write_text("".join(label + "\n" for _, label, _ in chosen))


def test_of_equal_models_the_first_is_the_baseline(of_reviews, tmp_path, monkeypatch):
    monkeypatch.setattr("sklearn.metrics.accuracy_score", lambda *_: 1 / 3)  # more than its percent by a hundred
    best = tfidf.evaluate(tmp_path, "svm")
    assert (best["C"], best["ngrams"]) == (tfidf.SVM[0], [1, 1])


@pytest.mark.parametrize("classifier", ["logistic", "svm"])
def test_baseline_finds_the_word_that_tells(classifier, of_reviews, tmp_path, capsys):
    tfidf.main([str(tmp_path), "--classifier", classifier, "--out", str(tmp_path / "seed1" / "test.json")])
    result = json.loads((tmp_path / "seed1" / "test.json").read_text())
    assert result["accuracy"] == 100 and result["documents"] == 16
    assert capsys.readouterr().out.startswith("accuracy 100.00, macro-F1 100.00 (C = ")
    (tmp_path / "test.label").write_text("pos\n")
    with pytest.raises(OptionError, match="16 documents and 1 labels"):
        tfidf.evaluate(tmp_path)
    (tmp_path / "test.label").write_text("pos\n" * 16)
    (tmp_path / "train.label").write_text("pos\n" * len((tmp_path / "train.label").read_text().splitlines()))
    with pytest.raises(OptionError, match="^.*: cannot be classified: .*class"):
        tfidf.main([str(tmp_path), "--classifier", classifier, "--out", str(tmp_path / "x.json")])
    for out, reason in (("test.label", "is one of the files that are read"), ("seed1", "it is a folder")):
        with pytest.raises(OptionError, match=f"--out .*{out}: .*{reason}"):
            tfidf.main([str(tmp_path), "--classifier", classifier, "--out", str(tmp_path / out)])
