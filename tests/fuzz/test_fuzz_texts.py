"""Damaged texts, links, lexica, documents, vectors, logs, settings and data folders, read by what reads them."""

import gzip
import json
import shutil

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import damaged_bytes, damaged_lines, damaged_value
from test_fuzz_records import check_links, check_page, strict

from fairseq_attn_plugin.attention.positional.election_files import ELECTION_FORMAT, read_recommendation
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.text.documents import documents_of, to_line
from fairseq_attn_plugin.text.lexicon import best_translations, read_lexicon
from fairseq_attn_plugin.text.vocabulary import describe_vocabulary
from fairseq_attn_plugin.text.word_vectors import read_word_vectors

SOURCE = "das haus\nder kleine hund schläft\n\nguten tag\n"
TARGET = "the house\nthe small dog sleeps\n\ngood day\n"
LINKS = "0-0 1-1\n0-0 1p1 2-2 3-3\n\n0-0 1-1\n"
WPT = "1 1 1\n1 2 2 S\n2 1 1 P\n2 2 2 S 0.5\n4 1 1\n"
LEXICON = "haus\thouse\t0.75\t3\nhaus\thome\t0.25\t1\nhund\tdog\t1\t2\n"
GENERATED = (
    "S-0\tdas <unk>\nT-0\tthe house\nH-0\t-0.5\tthe <unk>\nD-0\t-0.5\tthe <unk>\nP-0\t-0.1 -0.2 -0.3\nA-0\t0-0 1-1\n"
    "S-1\tguten tag\nT-1\tgood day\nH-1\t-0.5\tgood day\nD-1\t-0.5\tgood day\nP-1\t-0.1 -0.2 -0.3\nA-1\t0-0 1-1\n"
)
REFERENCE = "the house\ngood day\n"
DOCUMENTS = [
    {"label": "pos", "sentences": ["the film is long .", ["i", "liked", "it"]], "id": "a"},
    {"label": "neg", "text": "the film is long . i left"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, text in {"source": SOURCE, "target": TARGET, "links": LINKS, "reference": REFERENCE}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def damaged(text: str) -> st.SearchStrategy:
    return damaged_bytes(text.encode())


def read(folder, kind, data, arguments, check, out="out"):
    """Runs a command that reads the damaged file."""
    (folder / "damaged").write_bytes(data)
    for made in folder.glob("out*"):  # of an earlier case
        made.unlink()
    attempt(kind, lambda: main(list(map(str, arguments))), lambda: check(folder / out))


@fuzz(st.one_of(damaged(LINKS), damaged(WPT)))
def test_gold(folder, data):
    arguments = ["aer", folder / "links", "--gold", folder / "damaged", "--json", folder / "out"]
    read(folder, "gold links", data, arguments, lambda out: strict(out.read_text()))


@fuzz(damaged(LINKS), st.sampled_from(["links", "source", "target"]))
def test_links(folder, data, which):
    links, source, target = (folder / ("damaged" if name == which else name) for name in ("links", "source", "target"))
    arguments = ["align", links, "--convert", "--source", source, "--target", target, "--out", folder / "out"]
    read(folder, "links and texts", data, arguments, check_links)


@fuzz(damaged(LEXICON))
def test_lexicon(folder, data):
    (folder / "damaged").write_bytes(data)
    attempt("lexicon", lambda: best_translations(read_lexicon(folder / "damaged", "--replace-unk")))


@fuzz(damaged(GENERATED))
def test_output_of_generate(folder, data):
    common = [folder / "damaged", "--reference", folder / "reference"]
    given = ["compare", *common, "--out", folder / "out.html"]
    check = lambda out: check_page(out) if '<script id="data"' in out.read_text() else None  # noqa: E731
    read(folder, "outputs of generate", data, given, check, "out.html")
    given = ["frequency", *common, "--train", folder / "target", "--json", folder / "out"]
    read(folder, "outputs of generate", data, given, lambda out: strict(out.read_text()))


@fuzz(damaged_lines(DOCUMENTS), st.sampled_from([".jsonl", ".txt", ".jsonl.gz"]), st.data())
def test_documents(folder, data, suffix, drawn):
    file = folder / f"documents{suffix}"
    if suffix.endswith(".gz"):
        data = gzip.compress(data)
        data = drawn.draw(damaged_bytes(data)) if drawn.draw(st.booleans()) else data
    file.write_bytes(data)
    read = []

    def run():
        read[:] = documents_of(file, labels=drawn.draw(st.booleans()))

    def check():
        for document in read:
            line = to_line(document.sentences)
            assert "\n" not in line and isinstance(line.encode("utf-8"), bytes)

    attempt("documents", run, check)


@fuzz(damaged("3 2\nama 0.5 -1\nbel 0.25 1e-3\ncor 1 2\n"))
def test_vectors(folder, data):
    (folder / "damaged").write_bytes(data)
    read = []

    def check():
        assert all(abs(one).max() < float("inf") for one in read[0])

    attempt(
        "word vectors",
        lambda: read.append(read_word_vectors(str(folder / "damaged"), [dictionary()], "--embeddings")),
        check,
    )


def dictionary() -> Dictionary:
    made = Dictionary()
    for word in ("ama", "bel", "cor"):
        made.add_symbol(word)
    return made


@fuzz(st.data())
def test_election(folder, data):
    vocabulary = describe_vocabulary(dictionary())
    valid = {
        "format": ELECTION_FORMAT,
        "source_vocabulary": vocabulary,
        "target_vocabulary": vocabulary,
        "recommended": {"rule": "log2", "sigma": 1.5, "mean": 0.25},
        "length_ratio": 1.0,
        "rules": [{"rule": "log2", "mean_k": 2.5}],
    }
    text = json.dumps(data.draw(damaged_value(valid))).encode()
    (folder / "damaged").write_bytes(data.draw(damaged_bytes(text)) if data.draw(st.booleans()) else text)
    attempt("elections", lambda: read_recommendation(str(folder / "damaged"), dictionary(), dictionary()))


NAME = "train.xx-yy.xx"


@pytest.fixture(scope="module")
def data_folder(tiny_data, tmp_path_factory):
    return shutil.copytree(tiny_data, tmp_path_factory.mktemp("data") / "bin")


@fuzz(st.sampled_from([f"{NAME}.idx", f"{NAME}.bin", "dict.xx.txt"]), st.data())
def test_data_folders(data_folder, tiny_data, name, data):
    whole = (tiny_data / name).read_bytes()
    (data_folder / name).write_bytes(data.draw(damaged_bytes(whole)))

    def load():
        dictionary = Dictionary.load(str(data_folder / "dict.xx.txt"))
        corpus = load_indexed_dataset(str(data_folder / NAME), dictionary)
        for number in range(len(corpus)):
            assert dictionary.string(corpus[number]) is not None

    try:
        attempt(f"data {name[-3:]}", load)
    finally:
        (data_folder / name).write_bytes(whole)
