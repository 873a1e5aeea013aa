"""The prepare stage: damaged corpora, an interruption, a lock, and the text of every corpus."""

import gzip
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from recipe_corpora import (
    complaint,
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

from fairseq_attn_plugin.corpora.locks import locked
from fairseq_attn_plugin.recipes.cli import main
from fairseq_attn_plugin.recipes.commands import Shell

pytestmark = pytest.mark.usefixtures("tools")


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
def test_a_damaged_corpus_is_one_line_and_loses_nothing(harm, file, names, recipe, corpus_folder, tmp_path):
    settings = {"DATA": corpus_folder, "OUT": tmp_path / "out", "BPE": "none"}
    multi30k(corpus_folder)
    harm(corpus_folder / file)
    done = recipe("multi30k", "prepare", check=False, **settings)
    notes = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert done.returncode == 1
    assert len(notes) == 1, done.stderr
    for part in names:
        assert part in notes[0]
    assert not list((tmp_path / "out").rglob("done")), "no stamp"
    multi30k(corpus_folder)
    recipe("multi30k", "prepare", **settings)
    assert len(list((tmp_path / "out").rglob("done"))) == 1


def test_truncated_sgml_is_found(recipe, tmp_path):
    wmt16_en_ro(tmp_path)
    path = tmp_path / "newsdev2016-roen-src.ro.sgm"
    path.write_bytes(path.read_bytes()[:-20])
    done = recipe("wmt16_en_ro", "prepare", check=False, DATA=tmp_path, OUT=tmp_path / "out", BPE="none")
    assert done.returncode == 1
    assert "newsdev2016-roen-src.ro.sgm is truncated" in done.stderr


def test_a_failing_tool_shows_the_end_of_its_log(recipe, corpus_folder, tmp_path, monkeypatch):
    def fails(shell, words, stdout=None, stderr=None):
        assert words[0] == "fairseq-preprocess" and stderr == subprocess.STDOUT
        stdout.write(b"a line\nthe reason\n")
        return 1

    monkeypatch.setattr(Shell, "execute", fails)
    multi30k(corpus_folder)
    settings = {"DATA": corpus_folder, "OUT": tmp_path / "out", "BPE": "none"}
    lines = recipe("multi30k", "prepare", check=False, **settings).stderr.splitlines()
    log = tmp_path / "out" / "de-en.none" / "preprocess.log"
    assert lines[-3:] == ["a line", "the reason", f"multi30k: fairseq-preprocess failed, see {log}"]
    assert not list((tmp_path / "out").rglob("done"))


def test_an_interrupted_preparation_is_done_again(recipe, corpus_folder, tmp_path):
    multi30k(corpus_folder, zipped=False)
    work = tmp_path / "out" / "de-en.none"
    partial = work / "data.partial" / "text"
    partial.mkdir(parents=True)
    (partial / "train.de").write_text("half of a line")
    recipe("multi30k", "prepare", DATA=corpus_folder, OUT=tmp_path / "out", BPE="none")
    assert not partial.exists()
    text = (work / "data" / "text" / "train.en").read_text(encoding="utf-8").splitlines()
    assert len(text) == 120
    assert all(line == line.lower() and " , doesn &apos;t it ?" in line for line in text), "lower-cased, tokenised"
    stamp = (work / "data" / "done").read_text().split("\n")
    assert stamp == ["recipe multi30k de-en none cut 0 ", f"DATA {corpus_folder}", ""]


def test_another_preparation_of_the_same_folder_is_awaited(recipe, corpus_folder, tmp_path):
    """This process holds the lock: the recipe waits, and finds the data prepared."""
    multi30k(corpus_folder)
    settings = {"DATA": str(corpus_folder), "OUT": str(tmp_path / "out"), "BPE": "none", "DEVICE": "cpu", "JOBS": "1"}
    recipe("multi30k", "prepare", **settings)
    work, hidden = tmp_path / "out" / "de-en.none", tmp_path / "hidden"
    before = files_of(work / "data")
    with locked(work / "prepare.lock"):
        (work / "data").rename(hidden)
        waiting = threading.Thread(target=main, args=(["multi30k", "prepare"], settings))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and not (work / "data.partial").exists()
        hidden.rename(work / "data")
    waiting.join(60)
    assert not waiting.is_alive()
    assert files_of(work / "data") == before, "not prepared again"


def test_a_lock_is_not_held_twice_and_ends_with_its_process(tmp_path):
    program = (
        "import os, portalocker, sys; stream = open(sys.argv[1], 'a')\n"
        "portalocker.lock(stream, portalocker.LockFlags.EXCLUSIVE)\n"
        "print('held', flush=True); sys.stdin.read(); os._exit(1)"
    )
    path = tmp_path / "lock"
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with locked(path, wait=False) as held:
            assert not held
        other.stdin.close()
        other.wait(60)
        with locked(path, wait=False) as held:
            assert held


def test_published_tokenisation_is_taken(recipe, tmp_path):
    multi30k(tmp_path)
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = gzip.decompress((tmp_path / f"{name}.{language}.gz").read_bytes()).decode().splitlines()
            write(tmp_path / f"{name}.tok.{language}", ["TOK " + line for line in lines], zipped=True)
    recipe("multi30k", "prepare", DATA=tmp_path, OUT=tmp_path / "out", BPE="none")
    text = tmp_path / "out" / "de-en.none" / "data" / "text"
    assert (text / "test.en").read_text().startswith("tok the ")
    assert (text / "test.raw.en").read_text().startswith("The ")


def test_training_sentences_are_cut(recipe, tmp_path):
    iwslt15_en_vi(tmp_path)
    recipe("iwslt15_en_vi", "prepare", DATA=tmp_path, OUT=tmp_path / "out", CUT="3")
    (segmented,) = tmp_path.rglob("segmented")
    assert {len(line.split()) for line in (segmented / "train.vi").read_text().splitlines()} == {3}
    assert max(len(line.split()) for line in (segmented / "test.en").read_text().splitlines()) > 3


def test_setimes_is_appended_to_the_training_text(recipe, tmp_path):
    wmt16_en_ro(tmp_path)
    for language, lines in zip(("en", "ro"), sentences(5, 7)):
        write(tmp_path / f"SETIMES.en-ro.{language}", lines)
    settings = {"DATA": tmp_path, "OUT": tmp_path / "out", "BPE": "none"}
    recipe("wmt16_en_ro", "prepare", **settings, CORPORA="europarl setimes")
    text = tmp_path / "out" / "en-ro.none" / "data" / "text"
    for language in ("en", "ro"):
        lines = (text / f"train.{language}").read_text().splitlines()
        assert len(lines) == 125
        assert lines[120:] == (text / f"setimes.{language}").read_text().splitlines()
    line = complaint(recipe("wmt16_en_ro", "prepare", check=False, **settings))
    assert "corpora europarl setimes" in line and "choose another OUT" in line


def test_another_corpus_below_the_same_folder_is_refused(recipe, corpus_folder, tmp_path):
    """Without DATA the prepared text serves; the same folder by another spelling is the same."""
    tatoeba(corpus_folder)
    settings = {"OUT": tmp_path / "out", "BPE": "none"}
    recipe("tatoeba", "prepare", DATA=corpus_folder, **settings)
    other = tmp_path / "other"
    other.mkdir()
    line = complaint(recipe("tatoeba", "prepare", check=False, DATA=other, **settings))
    assert "choose another OUT" in line and f"not from DATA={other}" in line
    for again in ({}, {"DATA": f"{other}/../data"}):
        assert "prepare: done before" in recipe("tatoeba", "prepare", **again, **settings).stdout
