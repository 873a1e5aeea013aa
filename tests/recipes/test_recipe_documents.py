"""The recipes of document classification: folds, stages that run once, the baseline, the table, and their YAML."""

import json
import re

import pytest
from recipe_corpora import complaint, files_of, polarity_archive, polarity_jsonl, reviews, yelp

from fairseq_attn_plugin.corpora.locks import locked
from fairseq_attn_plugin.recipes.commands import Shell
from fairseq_attn_plugin.recipes.documents import baseline, table
from fairseq_attn_plugin.recipes.errors import CorpusError
from fairseq_attn_plugin.corpora import polarity

TINY = "--word-embed-dim 8 --word-hidden-size 4 --sentence-hidden-size 4 --max-epoch 1".split()


@pytest.fixture
def settings(corpus_folder, tmp_path):
    polarity_jsonl(corpus_folder)
    return {"DATA": corpus_folder, "OUT": tmp_path / "out", "THRESHOLD": 1}


@pytest.mark.parametrize("write", [polarity_jsonl, polarity_archive])
def test_folds_are_those_of_the_names(write, tmp_path):
    write(tmp_path)
    documents = polarity.read_reviews(tmp_path)
    assert len(documents) == 80
    splits = polarity.splits_of(documents, 9)
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
        polarity.read_reviews(tmp_path)
    polarity_archive(tmp_path)
    path = tmp_path / "review_polarity.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorpusError, match="truncated or not an archive"):
        polarity.read_reviews(tmp_path)
    path.unlink()
    (tmp_path / "polarity.jsonl").write_text('{"label": "pos", "sentences": ["a"], "name": "review1"}\n')
    with pytest.raises(CorpusError, match="review1, must be cvNNN"):
        polarity.splits_of(polarity.read_reviews(tmp_path), 0)


def test_a_download_that_is_too_short_is_refused(tmp_path):
    polarity_jsonl(tmp_path)
    with pytest.raises(CorpusError, match="holds 80 reviews, the corpus 2000: the download is truncated"):
        polarity.write_fold(tmp_path, 0, tmp_path / "text", strict=True)


def test_recipe_runs(recipe, settings, tmp_path):
    """With fairseq's own commands."""
    out = tmp_path / "out"
    done = recipe("polarity_han", "--", *TINY, FOLDS="1", MODELS="han_flat", **settings)
    text = (out / "table.md").read_text()
    assert text in done.stdout and "| `han_flat`" in text and "| TF-IDF" in text
    (run,) = json.loads((out / "table.json").read_text())["systems"]["han_flat"]["runs"]
    scores = json.loads((out / "fold1" / "han_flat.seed1" / "test.json").read_text())
    assert run["accuracy"] == scores["accuracy"] and run["documents"] == 8 and run["epochs"] == 1
    assert (out / "fold1" / "han_flat.seed1" / "test.html").read_text().count("<h2") == 5


def test_finished_stages_do_not_run_again(recipe, tools, settings, tmp_path):
    stages = ["prepare", "train", "evaluate", "baseline"]
    settings.update(FOLDS="1 4", MODELS="han han_flat")
    recipe("polarity_han", *stages, **settings)
    assert tools.count("fairseq-preprocess") == 4 and tools.count("fairseq-train") == 4
    count, before = len(tools.commands), files_of(tmp_path / "out")
    again = recipe("polarity_han", *stages, **settings)
    assert len(tools.commands) == count and again.stdout.count("done before") == 12
    assert files_of(tmp_path / "out") == before
    # a training continues with its own options alone
    line = complaint(recipe("polarity_han", "train", "--", "--lr", "0.1", check=False, **settings))
    assert "other options" in line and "--lr 0.1" in line
    recipe("polarity_han", "evaluate", SPLIT="valid", **settings)
    assert len(list((tmp_path / "out").rglob("valid.json"))) == 4
    line = complaint(recipe("polarity_han", "prepare", check=False, **{**settings, "THRESHOLD": 2}))
    assert "threshold 1" in line and "threshold 2" in line


def test_a_model_that_another_process_trains_is_left_to_it(recipe, tools, settings, tmp_path):
    settings.update(FOLDS="1", MODELS="han han_flat")
    with locked(tmp_path / "out" / "fold1" / "han.seed1" / "train.lock"):
        done = recipe("polarity_han", "prepare", "train", **settings)
    assert "han.seed1 is being trained by another process" in done.stdout
    assert tools.count("fairseq-train") == 1
    assert not (tmp_path / "out" / "fold1" / "han.seed1" / "train.done").exists()


def test_yelp_is_read_from_a_folder(recipe, tools, corpus_folder, tmp_path):
    (corpus_folder / "emnlp").mkdir()
    yelp(corpus_folder / "emnlp")
    settings = {"DATA": corpus_folder, "THRESHOLD": 1}
    recipe("yelp2013_han", "prepare", OUT=tmp_path / "out", **settings)
    text = tmp_path / "out" / "all" / "data" / "text"
    labels = (text / "train.label").read_text().split()
    assert len(labels) == 40 and set(labels) == set("12345")
    assert any("</s>" in line for line in (text / "train.input0").read_text().splitlines())
    (corpus_folder / "emnlp" / "yelp-2013-dev.txt.ss").write_text("user\t\tplace\t\t7\t\ttext\n")
    done = recipe("yelp2013_han", "prepare", OUT=tmp_path / "b", check=False, **settings)
    assert done.returncode == 1 and "yelp-2013-dev.txt.ss, line 1" in done.stderr


def test_yelp_is_unpacked_once_with_the_tool_that_is_there(recipe, tmp_path, monkeypatch):
    raw = tmp_path / "out" / "raw"
    raw.mkdir(parents=True)
    (raw / "emnlp-2015-data.7z").write_bytes(b"")
    commands = []
    monkeypatch.setattr(Shell, "execute", lambda shell, words, **options: commands.append(words) or 0)
    monkeypatch.setattr("shutil.which", lambda tool: None)
    line = complaint(recipe("yelp2013_han", "prepare", OUT=tmp_path / "out", check=False))
    assert "needs 7z, 7za or bsdtar" in line and "DATA=folder" in line
    monkeypatch.setattr("shutil.which", lambda tool: "/bin/bsdtar" if tool == "bsdtar" else None)
    for _ in range(2):
        line = complaint(recipe("yelp2013_han", "prepare", OUT=tmp_path / "out", check=False))
        assert "yelp-2013-train.txt.ss is missing" in line
    assert commands == [["bsdtar", "-x", "-f", str(raw / "emnlp-2015-data.7z"), "-C", str(raw)]]


def test_table_has_mean_and_standard_deviation_over_folds():
    runs = [{"accuracy": a, "macro_f1": a - 1, "seconds_per_epoch": t} for a, t in ((80.0, 9), (84.0, 20), (85.0, 10))]
    # mean 83; deviations -3, 1, 2: sqrt(14 / 2) = 2.6458
    content = table.summary(runs)
    assert content["accuracy"] == 83 and content["accuracy_sd"] == pytest.approx(7**0.5, abs=1e-4)
    rows = table.rows_of({"han": runs, "tfidf": [{"accuracy": 90.0, "macro_f1": 89.0}]})
    assert rows[0][1:] == ["83.00 ± 2.65", "82.00 ± 2.65", "80.0, 84.0, 85.0", "10"]
    assert rows[1][1:] == ["90.00", "89.00", "90.0", ""]


def test_table_is_written_for_all_folds(tmp_path, capsys):
    runs = []
    for fold, accuracy in (("a", 80.0), ("b", 90.0)):
        place = tmp_path / fold / "tfidf.json"
        place.parent.mkdir()
        place.write_text(json.dumps({"accuracy": accuracy, "macro_f1": 1.0, "documents": 3}))
        runs.append(("tfidf", place))
    table.write_table("Title", "test", runs, tmp_path / "table.md", tmp_path / "table.json")
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert text == capsys.readouterr().out
    assert text.startswith("## Title (test, 2 folds)\n\n| system")
    assert re.search(r"\| TF-IDF, logistic regression +\| +85.00 ± 7.07 \| +1.00 ± 0.00 \| 80.0, 90.0 +\|", text)
    content = json.loads((tmp_path / "table.json").read_text())["systems"]["tfidf"]
    assert content["accuracy"] == 85
    assert [run["file"] for run in content["runs"]] == ["a/tfidf.json", "b/tfidf.json"]


def test_table_asks_for_what_is_missing(tmp_path):
    with pytest.raises(CorpusError, match="cannot be read"):
        table.run_of(tmp_path / "tfidf.json", "test")
    (tmp_path / "tfidf.json").write_text("{}")
    with pytest.raises(CorpusError, match="holds no scores"):
        table.run_of(tmp_path / "tfidf.json", "test")


def test_baseline_finds_the_word_that_tells(tmp_path, capsys):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    for split, folds in (("train", "2345678"), ("valid", "1"), ("test", "0")):
        chosen = [review for review in reviews(8) if review[0][2] in folds]
        (tmp_path / f"{split}.input0").write_text("".join(" </s> ".join(s) + "\n" for _, _, s in chosen))
        (tmp_path / f"{split}.label").write_text("".join(label + "\n" for _, label, _ in chosen))
    baseline.write_baseline(tmp_path, "test", tmp_path / "tfidf.json")
    result = json.loads((tmp_path / "tfidf.json").read_text())
    assert result["accuracy"] == 100 and result["documents"] == 16
    assert capsys.readouterr().out.startswith("accuracy 100.00, macro-F1 100.00 (C = ")
    (tmp_path / "test.label").write_text("pos\n")
    with pytest.raises(CorpusError, match="16 documents and 1 labels"):
        baseline.evaluate(tmp_path, "test")
