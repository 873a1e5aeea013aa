"""``fairseq-attn prepare``: folders that are whole or absent, and damaged corpora, each one line."""

import errno
import json
import os
import re
import threading
from pathlib import Path

import miniature_corpora as miniatures
import pytest
from miniature_corpora import damage, files_of, lose_a_line, multi30k, tatoeba, truncate

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.corpora import tools
from fairseq_attn_plugin.corpora.tools import locked
from fairseq_attn_plugin.errors import OptionError


def with_text(text):
    return lambda path: path.write_text(text)


def with_one_review(name):
    return with_text(json.dumps({"label": "pos", "sentences": ["a"], "name": name}) + "\n")


def add_a_line(path):
    path.write_text(path.read_text() + "One more.\n")


# a miniature (of the corpus with the name in brackets, if it has another), a file, its harm, parts of the message
DAMAGES = [
    ("multi30k", "train.de.gz", Path.unlink, "train.de.gz (or train.de) is missing", "test_2016_flickr, each"),
    ("multi30k", "train.en.gz", truncate, "train.en.gz is truncated"),
    ("multi30k", "val.de.gz", lose_a_line, "val.de.gz has 11 lines", "12: the two must be parallel"),
    ("multi30k", "val.en.gz", damage, "val.en.gz, line 1: is not UTF-8"),
    ("wmt16_en_ro", "newsdev2016-roen-src.ro.sgm", truncate, "newsdev2016-roen-src.ro.sgm is truncated"),
    ("iwslt14_de_en", "IWSLT14.TED.tst2011.de-en.en.xml", Path.unlink, "tst2011.de-en.en.xml: missing", "de-en.tgz"),
    ("iwslt14_de_en", "IWSLT14.TED.dev2010.de-en.de.xml", truncate, "dev2010.de-en.de.xml is truncated"),
    ("iwslt14_de_en", "train.tags.de-en.en", add_a_line, "train.tags.de-en.de has 120 sentences, and 121 in English"),
    ("multi30k (iwslt14_de_en)", "train.de.gz", Path.unlink, "train.de.gz (or train.de) is missing", "de-en.tgz"),
    ("toy (toy_corpus)", "valid.align", Path.unlink, "valid.align is missing"),
    ("polarity_archive (polarity_han)", "review_polarity.tar.gz", Path.unlink, "has no reviews: expected review_"),
    ("polarity_archive (polarity_han)", "review_polarity.tar.gz", with_text("no archive"), "truncated or damaged"),
    ("polarity_archive (polarity_han)", "polarity.jsonl", with_one_review("review1"), "review1, must be cvNNN"),
    ("polarity_archive (polarity_han)", "polarity.jsonl", with_one_review("cv000"), "the train split is empty"),
    ("yelp (yelp2013_han)", "yelp-2013-dev.txt.ss", with_text("a\t\tb\t\t7\t\tc\n"), "dev.txt.ss, line 1: must be"),
    ("yelp (yelp2013_han)", "yelp-2013-dev.txt.ss", Path.unlink, "yelp-2013-dev.txt.ss is missing", "7z x"),
    ("yahoo (yahoo_answers_han)", "test.csv", with_text('"11","a","b","c"\n'), "test.csv, row 1: must be class"),
    ("yahoo (yahoo_answers_han)", "test.csv", Path.unlink, "test.csv (or test.csv.gz) is missing"),
    ("yahoo (yahoo_answers_han)", "test.csv", with_text('"1","' + "a" * 200000), "test.csv is truncated or damaged"),
    ("imdb_archive (imdb_han)", "aclImdb_v1.tar.gz", truncate, "aclImdb_v1.tar.gz is truncated"),
    ("imdb_archive (imdb_han)", "aclImdb_v1.tar.gz", Path.unlink, "has no reviews of train", "test as .tsv"),
    ("imdb (imdb_han)", "val.tsv.xz", truncate, "val.tsv.xz is truncated"),
    ("imdb (imdb_han)", "val.tsv", with_text("pos\t7\tgood\n"), "val.tsv, line 1: must be label (neg or pos)"),
]


@pytest.mark.parametrize("damages", DAMAGES, ids=lambda row: f"{row[0]}-{row[1]}-{row[3]}")
def test_a_damaged_corpus_is_one_line_and_nothing_half(damages, prepare, corpus_folder):
    what, file, harm, *said = damages
    miniature, *name = re.findall(r"\w+", what)
    getattr(miniatures, miniature)(corpus_folder)
    harm(corpus_folder / file)
    done = prepare((name or [miniature])[0], check=False, data=corpus_folder)
    assert all(part in done.error for part in said), done.error
    assert not done.out.exists()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("multi30k", {"fold": 3}, "--fold: is not an option of multi30k; leave it out"),
        ("multi30k", {"data": "/no/such"}, "--data /no/such: is not a folder; must be one with train"),
        ("multi30k", {"cut": -1}, "--cut -1: must be at least 0"),
        ("multi30k", {"jobs": 0}, "--jobs 0: must be at least 1"),
        ("multi30k", {"subwords": "none", "subword_size": 9}, "--subword-size 9: has no effect with --subwords none"),
        ("polarity_han", {"fold": 10}, "--fold 10: must be 0 to 9"),
        ("polarity_han", {"cut": 3}, "--cut: is not an option of polarity_han"),
        ("tatoeba", {"pair": "deutsch"}, "--pair deutsch: must be a name of"),
        ("tatoeba", {"language": "en"}, "--language en: must be es, the language of --pair spa-eng beside English"),
        ("tatoeba", {"pair": "ber-eng", "language": "en"}, "--language en: must be ber, the language of --pair"),
    ],
)
def test_mistakes_are_one_line(name, options, said, prepare):
    done = prepare(name, check=False, **options)
    assert done.error.startswith(said) and not done.out.exists()


def test_a_failing_tool_shows_the_end_of_its_log(prepare, corpus_folder, tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "subword-nmt"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho a line; echo the reason; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(tools, "environment", lambda: {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"})
    multi30k(corpus_folder)
    done = prepare("multi30k", check=False, data=corpus_folder, subword_size=60)
    assert done.error == f"subword-nmt failed, see {done.out}.subwords.log; the same command does what is left"
    assert done.stderr.endswith("a line\nthe reason\n") and not done.out.exists()


def test_a_full_disk_is_one_line(prepare, corpus_folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    multi30k(corpus_folder)
    monkeypatch.setattr(Path, "write_bytes", full)
    done = prepare("multi30k", check=False, data=corpus_folder)
    assert done.error == f"{done.out}: cannot be prepared: [Errno 28] No space left on device"


def test_an_interrupted_preparation_is_done_again(prepare, corpus_folder, tmp_path):
    multi30k(corpus_folder, zipped=False)
    partial = tmp_path / "out.partial" / "text"
    partial.mkdir(parents=True)
    (partial / "train.de").write_text("half of a line")
    done = prepare("multi30k", data=corpus_folder)
    assert not partial.exists() and len(done.lines("train.en")) == 120
    stamp = json.loads((done.out / "prepared.json").read_text())
    assert (stamp["corpus"], stamp["subwords"], stamp["data"]) == ("multi30k", "none", str(corpus_folder))


def test_another_preparation_of_the_same_folder_is_awaited(prepare, corpus_folder, tmp_path, capfd):
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
    assert capfd.readouterr().out.startswith(f"{tmp_path}/out.lock: waiting for another process")


def test_a_lock_is_not_held_twice(tmp_path):
    with locked(tmp_path / "lock") as held:
        assert held > 2
        with pytest.raises(OptionError, match="lock: another process works there"), locked(tmp_path / "lock", False):
            pass
    with locked(tmp_path / "lock", wait=False):
        pass


def test_a_folder_of_something_else_is_refused(prepare, corpus_folder, tmp_path):
    """Without --data the prepared text serves; the same folder by another spelling is the same."""
    tatoeba(corpus_folder)
    prepare("tatoeba", data=corpus_folder)
    other = tmp_path / "other"
    other.mkdir()
    for options, said in (
        ({"data": other}, f"was prepared from {corpus_folder}, not from --data {other}"),
        ({"longest": 9}, "was prepared with longest 0, not 9; name another folder"),
    ):
        assert said in prepare("tatoeba", check=False, **options).error
    for again in ({}, {"data": f"{other}/../data"}):
        assert "prepared before" in prepare("tatoeba", **again).stdout
    unwritable = prepare("tatoeba", check=False, data=corpus_folder, out="/proc/none").error
    assert unwritable.startswith("/proc/none.lock: cannot be written")
    (other / "file").write_text("")
    line = prepare("tatoeba", check=False, data=corpus_folder, out=other).error
    assert line == f"--out: {other} exists, and fairseq-attn has not prepared it; name another folder"
