"""``fairseq-attn prepare``: damaged corpora, an interruption, a lock, and the text of every corpus of pairs."""

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from miniature_corpora import (
    damage,
    files_of,
    iwslt15_en_vi,
    lose_a_line,
    multi30k,
    sentences,
    tatoeba,
    truncate,
    wmt16_en_ro,
    write,
)

from fairseq_attn_plugin import cli, toy_corpus
from fairseq_attn_plugin.corpora import tools
from fairseq_attn_plugin.corpora.tools import locked
from fairseq_attn_plugin.errors import OptionError

SIZES = {"train": 20, "valid": 5, "test": 6}


@pytest.mark.parametrize(
    ("harm", "file", "names"),
    [
        (Path.unlink, "train.de.gz", ["train.de.gz", "missing", "test_2016_flickr"]),
        (Path.unlink, "test_2016_flickr.en.gz", ["test_2016_flickr.en.gz", "missing"]),
        (truncate, "train.en.gz", ["train.en.gz", "truncated"]),
        (lose_a_line, "val.de.gz", ["val.de.gz", "11", "12", "parallel"]),
        (damage, "val.en.gz", ["val.en.gz", "not UTF-8 at byte 3"]),
    ],
)
def test_a_damaged_corpus_is_one_line_and_loses_nothing(harm, file, names, prepare, corpus_folder):
    multi30k(corpus_folder)
    harm(corpus_folder / file)
    done = prepare("multi30k", check=False, data=corpus_folder)
    for part in names:
        assert part in done.error
    assert not done.out.exists(), "nothing half"
    multi30k(corpus_folder)
    prepare("multi30k", data=corpus_folder)
    assert (done.out / "segmented" / "train.de").is_file()


def test_truncated_sgml_is_found(prepare, corpus_folder):
    wmt16_en_ro(corpus_folder)
    path = corpus_folder / "newsdev2016-roen-src.ro.sgm"
    path.write_bytes(path.read_bytes()[:-20])
    assert "newsdev2016-roen-src.ro.sgm is truncated" in prepare("wmt16_en_ro", check=False, data=corpus_folder).error


def test_a_failing_tool_shows_the_end_of_its_log(prepare, corpus_folder, tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "subword-nmt"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho a line; echo the reason; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(tools, "environment", lambda: {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"})
    multi30k(corpus_folder)
    done = prepare("multi30k", check=False, data=corpus_folder, subword_size=60)
    assert done.error == f"subword-nmt failed, see {tmp_path / 'subwords.log'}"
    assert done.stderr.endswith("a line\nthe reason\n") and not done.out.exists()


def test_an_interrupted_preparation_is_done_again(prepare, corpus_folder, tmp_path):
    multi30k(corpus_folder, zipped=False)
    partial = tmp_path / "out.partial" / "text"
    partial.mkdir(parents=True)
    (partial / "train.de").write_text("half of a line")
    prepare("multi30k", data=corpus_folder)
    assert not partial.exists()
    text = (tmp_path / "out" / "text" / "train.en").read_text(encoding="utf-8").splitlines()
    assert len(text) == 120
    assert all(line == line.lower() and " , doesn &apos;t it ?" in line for line in text), "lower-cased, tokenised"
    stamp = json.loads((tmp_path / "out" / "prepared.json").read_text())
    assert (stamp["corpus"], stamp["subwords"], stamp["data"]) == ("multi30k", "none", str(corpus_folder))


def test_another_preparation_of_the_same_folder_is_awaited(prepare, corpus_folder, tmp_path):
    """This process holds the lock: the command waits, and finds the text prepared."""
    multi30k(corpus_folder)
    out, hidden = prepare("multi30k", data=corpus_folder).out, tmp_path / "hidden"
    before = files_of(out)
    words = ["prepare", "multi30k", "--subwords", "none", "--data", str(corpus_folder), "--out", str(out)]
    with locked(tmp_path / "out.lock"):
        out.rename(hidden)
        waiting = threading.Thread(target=cli.main, args=(words,))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and not (tmp_path / "out.partial").exists()
        hidden.rename(out)
    waiting.join(60)
    assert not waiting.is_alive()
    assert files_of(out) == before, "not prepared again"


def test_a_lock_is_not_held_twice(tmp_path):
    with locked(tmp_path / "lock") as held:
        assert held > 2
        with pytest.raises(OptionError, match="lock: another process works there"), locked(tmp_path / "lock", False):
            pass
    with locked(tmp_path / "lock", wait=False):
        pass


def test_published_tokenisation_is_taken(prepare, corpus_folder):
    multi30k(corpus_folder)
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = gzip.decompress((corpus_folder / f"{name}.{language}.gz").read_bytes()).decode().splitlines()
            write(corpus_folder / f"{name}.tok.{language}", ["TOK " + line for line in lines], zipped=True)
    text = prepare("multi30k", data=corpus_folder).out / "text"
    assert (text / "test.en").read_text().startswith("tok the ")
    assert (text / "test.raw.en").read_text().startswith("The ")


def test_subwords_are_of_both_languages(prepare, corpus_folder):
    multi30k(corpus_folder)
    out = prepare("multi30k", data=corpus_folder, subword_size=60).out
    assert len((out / "codes").read_text().splitlines()) > 50
    for split, language in (("train", "de"), ("test", "en")):
        segmented = (out / "segmented" / f"{split}.{language}").read_text()
        assert "@@ " in segmented and segmented.replace("@@ ", "") == (out / "text" / f"{split}.{language}").read_text()


def test_training_sentences_are_cut(prepare, corpus_folder):
    iwslt15_en_vi(corpus_folder)
    segmented = prepare("iwslt15_en_vi", data=corpus_folder, cut=3).out / "segmented"
    assert {len(line.split()) for line in (segmented / "train.vi").read_text().splitlines()} == {3}
    assert max(len(line.split()) for line in (segmented / "test.en").read_text().splitlines()) > 3


def test_setimes_is_appended_to_the_training_text(prepare, corpus_folder):
    wmt16_en_ro(corpus_folder)
    for language, lines in zip(("en", "ro"), sentences(5, 7)):
        write(corpus_folder / f"SETIMES.en-ro.{language}", lines)
    text = prepare("wmt16_en_ro", data=corpus_folder, setimes=True).out / "text"
    for language in ("en", "ro"):
        lines = (text / f"train.{language}").read_text().splitlines()
        assert len(lines) == 125
        assert lines[120:] == (text / f"setimes.{language}").read_text().splitlines()
    line = prepare("wmt16_en_ro", check=False, data=corpus_folder).error
    assert "was prepared with setimes True, not False; name another folder" in line


def test_another_corpus_below_the_same_folder_is_refused(prepare, corpus_folder, tmp_path):
    """Without --data the prepared text serves; the same folder by another spelling is the same."""
    tatoeba(corpus_folder)
    prepare("tatoeba", data=corpus_folder)
    other = tmp_path / "other"
    other.mkdir()
    assert (
        f"was prepared from {corpus_folder}, not from --data {other}"
        in prepare("tatoeba", check=False, data=other).error
    )
    for again in ({}, {"data": f"{other}/../data"}):
        assert "prepared before" in prepare("tatoeba", **again).stdout
    (other / "file").write_text("")
    line = prepare("tatoeba", check=False, data=corpus_folder, out=other).error
    assert line == f"--out: {other} exists, and fairseq-attn has not prepared it; name another folder"


def test_pairs_of_the_election_have_equally_many_words(prepare, corpus_folder, tmp_path):
    tatoeba(corpus_folder)
    equal = prepare("tatoeba_election", data=corpus_folder, equal_words=True).out / "text"
    for line, other in zip(
        (equal / "train.en").read_text().splitlines(), (equal / "train.es").read_text().splitlines()
    ):
        assert len(line.split()) == len(other.split()) and line == line.lower() and not line.endswith("?")
    every = prepare("tatoeba_election", data=corpus_folder, out=tmp_path / "all").out / "text"
    assert " ?\n" in (every / "test.en").read_text() and (every / "test.raw.es").is_file()


def test_links_of_the_synthetic_corpus_are_those_of_the_generator(prepare, corpus_folder, tmp_path):
    corpus = toy_corpus.generate(5, SIZES)
    toy_corpus.write(corpus, corpus_folder)
    text = prepare("toy_corpus", data=corpus_folder).out / "text"
    for name in ("train.vr", "test.dm", "test.align"):
        assert (text / name).read_bytes() == (corpus_folder / name).read_bytes()
    turned = [line.split() for line in (text / "test.dm-vr.align").read_text().splitlines()]
    assert turned == [[f"{j}-{i}" for i, j in pair.links] for pair in corpus["test"]]
    (corpus_folder / "valid.align").unlink()
    line = prepare("toy_corpus", check=False, data=corpus_folder, out=tmp_path / "other").error
    assert line.startswith(f"valid.align is missing in {corpus_folder}")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("multi30k", {"fold": 3}, "--fold: is not an option of multi30k; leave it out"),
        (
            "multi30k",
            {"data": "/no/such"},
            "--data /no/such: is not a folder; must be one with train",
        ),
        ("multi30k", {"cut": -1}, "--cut -1: must be at least 0"),
        ("multi30k", {"jobs": 0}, "--jobs 0: must be at least 1"),
        ("polarity_han", {"fold": 10}, "--fold 10: must be 0 to 9"),
        ("polarity_han", {"cut": 3}, "--cut: is not an option of polarity_han"),
        ("tatoeba", {"pair": "deutsch"}, "--pair deutsch: must be a name of"),
        ("tatoeba", {"language": "en"}, "--language en: must be es, the language of --pair spa-eng beside English"),
        ("tatoeba", {"pair": "deu-eng", "language": "es"}, "--language es: must be de, the language of --pair deu-eng"),
        ("tatoeba", {"pair": "ber-eng", "language": "en"}, "--language en: must be ber, the language of --pair"),
    ],
)
def test_mistakes_are_one_line(name, options, said, prepare):
    done = prepare(name, check=False, **options)
    assert done.error.startswith(said) and not done.out.exists()
