"""The preparation of IWSLT'14: the archive in the usual split, plain files, and what is missing or damaged."""

import re
from pathlib import Path

import pytest
from miniature_corpora import iwslt14_de_en, sentences, truncate, write


def test_iwslt14_archive_becomes_the_usual_split(prepare, tmp_path):
    archive = tmp_path / "data" / "de-en"
    archive.mkdir(parents=True)
    iwslt14_de_en(archive)
    for language, end in (("de", " zu" * 30), ("en", "")):  # a pair with a side much longer than the other
        path = archive / f"train.tags.de-en.{language}"
        path.write_text(path.read_text() + f"One \u2013 two.{end}\n", encoding="utf-8")
    done = prepare("iwslt14_de_en", data=tmp_path / "data")
    assert "cleaning left 120 of 121 training pairs" in done.stdout
    text = tmp_path / "out" / "text"
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in text.iterdir()}
    names = [f"{split}.{language}" for split in ("test", "test.raw", "train", "valid") for language in ("de", "en")]
    assert sorted(lines) == names
    assert [len(lines[split + ".en"]) for split in ("train", "valid", "test")] == [115, 5, 15]
    english, _ = sentences(120, 0)
    tokens = [line.lower().replace(",", " ,").replace("n't", "n &apos;t").replace("?", " ?") for line in english]
    assert lines["valid.en"] == tokens[22::23]
    assert lines["train.en"] == [line for number, line in enumerate(tokens, 1) if number % 23]
    assert lines["test.raw.en"] == [line for seed in range(1, 6) for line in sentences(3, seed)[0]]


def test_iwslt14_keeps_punctuation_except_apostrophes_of_the_test_set(prepare, tmp_path):
    iwslt14_de_en(tmp_path)
    for path in tmp_path.iterdir():
        text = re.sub("(it|ti)[?]", "\\1 \u2013 it\u2019s \u201eit\u201c?", path.read_text())  # ti: the foreign side
        path.write_text(text, encoding="utf-8")
    prepare("iwslt14_de_en", data=tmp_path)
    text = tmp_path / "out" / "text"
    assert "it \u2013 it &apos;s \u201e it \u201c ?" in (text / "test.en").read_text(encoding="utf-8")
    assert "it \u2013 it \u2019 s \u201e it \u201c ?" in (text / "train.en").read_text(encoding="utf-8")


def test_long_training_pairs_are_left_out(prepare, tmp_path):
    for split, count in (("train", 30), ("valid", 5), ("test", 5)):
        for language, lines in zip(("en", "de"), sentences(count, 0)):
            lines = [line + " word" * 10 * (split != "train" or number < 7) for number, line in enumerate(lines)]
            write(tmp_path / f"{split}.{language}", lines, zipped=language == "de")
    prepare("iwslt14_de_en", data=tmp_path, longest=12)
    (segmented,) = tmp_path.rglob("segmented")
    sizes = {path.name: len(path.read_text().splitlines()) for path in segmented.iterdir()}
    assert sizes == {"train.de": 23, "train.en": 23, "valid.de": 5, "valid.en": 5, "test.de": 5, "test.en": 5}
    line = prepare("iwslt14_de_en", check=False, data=tmp_path, longest=125).error
    assert "was prepared with longest 12, not 125" in line, "another limit is another preparation"


@pytest.mark.parametrize(
    ("harm", "file", "names"),
    [
        (Path.unlink, "train.tags.de-en.de", ["train.tags.de-en.de: missing"]),
        (Path.unlink, "IWSLT14.TED.tst2011.de-en.en.xml", ["IWSLT14.TED.tst2011.de-en.en.xml: missing", "de-en.tgz"]),
        (truncate, "IWSLT14.TED.dev2010.de-en.de.xml", ["IWSLT14.TED.dev2010.de-en.de.xml is truncated"]),
        (
            lambda path: path.write_text(path.read_text() + "One more.\n"),
            "train.tags.de-en.en",
            ["train.tags.de-en.de has 120 sentences, and 121 in English"],
        ),
    ],
)
def test_a_damaged_iwslt14_archive_is_one_line(harm, file, names, prepare, tmp_path):
    iwslt14_de_en(tmp_path)
    harm(tmp_path / file)
    line = prepare("iwslt14_de_en", check=False, data=tmp_path).error
    for part in names:
        assert part in line


def test_iwslt14_plain_files_without_training_part(prepare, tmp_path):
    for split in ("valid", "test"):
        for language, lines in zip(("en", "de"), sentences(5, 0)):
            write(tmp_path / f"{split}.{language}", lines)
    line = prepare("iwslt14_de_en", check=False, data=tmp_path).error
    assert f"train.de.gz (or train.de) is missing in {tmp_path}: expected the unpacked archive de-en.tgz" in line
