"""fairseq-attn train: reading and splitting a user's sentence pairs; every mistake is one line."""

import gzip
from argparse import Namespace

import pytest
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.corpora.parallel import normalize
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.own_data import pairs as own_pairs
from fairseq_attn_plugin.own_data.pairs import read_pairs, split
from fairseq_attn_plugin.own_data.settings import check_model, fitting_size, tokenizer_of, words_in

ROWS = [("I do not know the way.", "Ich kenne den Weg nicht."), ("The dog is here.", "Der Hund  ist hier.")]
READ = [(a, " ".join(b.split())) for a, b in ROWS]


def table(rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def test_a_table_plain_or_gzipped_and_two_files(tmp_path):
    for suffix, data in (("tsv", b"\xef\xbb\xbf" + table(ROWS).encode()), ("gz", gzip.compress(table(ROWS).encode()))):
        path = tmp_path / f"pairs.{suffix}"
        path.write_bytes(data)
        pairs, about = read_pairs([path], ["en", "de"])
        assert pairs == READ and f"{path}, columns 1 (en) and 2 (de); the first: I do not" in about
    for language, side in (("en", 0), ("de", 1)):
        (tmp_path / f"text.{language}").write_text("".join(row[side] + "\n" for row in ROWS))
    assert read_pairs([tmp_path / "text.en", tmp_path / "text.de"], ["en", "de"])[0] == READ


@pytest.mark.parametrize(
    "rows, given, said",
    [
        ([(*row, "CC-BY 2.0 (France)") for row in ROWS], None, "columns 1 (en) and 2 (de)"),
        ([("17", a, "4711", b) for a, b in ROWS], [2, 4], "columns 2 (en) and 4 (de)"),
        ([("DE", "id", "en"), *((b, "1", a) for a, b in ROWS)], None, "columns 3 (en) and 1 (de)"),
        ([("source", "target", "id"), *((a, b, "1") for a, b in ROWS)], None, "columns 1 (en) and 2 (de)"),
        ([("id", "target", "source"), *(("1", b, a) for a, b in ROWS)], [3, 2], "columns 3 (en) and 2 (de)"),
    ],
)
def test_columns_are_the_first_two_the_named_or_the_given(tmp_path, rows, given, said):
    (tmp_path / "pairs").write_text(table(rows))
    pairs, about = read_pairs([tmp_path / "pairs"], ["en", "de"], given)
    assert said in about and pairs == READ


@pytest.mark.parametrize(
    "name, content",
    [
        ("comma.csv", '"He said ""no"".",Er sagte nein.\n"Go, now.",Geh jetzt.\n'),
        ("semicolon.csv", '"He said ""no"".";Er sagte nein.\nGo, now.;Geh jetzt.\n'),
        ("headed.csv", 'de,en\nEr sagte nein.,"He said ""no""."\n"Geh\njetzt.","Go, now."\n'),
        ("tabs.csv", 'source\ttarget\n"He said ""no""."\tEr sagte nein.\nGo, now.\tGeh jetzt.\n'),
    ],
)
def test_tables_of_spreadsheets(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    pairs, _ = read_pairs([tmp_path / name], ["en", "de"])
    assert pairs == [('He said "no".', "Er sagte nein."), ("Go, now.", "Geh jetzt.")]


def test_a_quotation_mark_without_its_end(tmp_path):
    rows = [f"Satz {number};sentence {number}\n" for number in range(100)]
    rows[40] = '"Satz 40;sentence 40\n'
    (tmp_path / "c.csv").write_text("".join(rows))
    with pytest.raises(OptionError, match=r"c\.csv, line 41: is no row of a table .* must end it"):
        read_pairs([tmp_path / "c.csv"], ["de", "en"])
    rows[70] = 'Satz 70;"sentence" 70\n'
    (tmp_path / "c.csv").write_text("".join(rows))
    with pytest.raises(OptionError, match=r"c\.csv, line 41: is no row of a table"):
        read_pairs([tmp_path / "c.csv"], ["de", "en"])
    (tmp_path / "c.csv").write_text("Ja, gut;Yes, good\n" * 3 + "Nein, danke;No, thanks\n")
    assert read_pairs([tmp_path / "c.csv"], ["de", "en"])[0][3] == ("Nein, danke", "No, thanks")
    (tmp_path / "c.csv").write_text(",\n")
    with pytest.raises(OptionError, match="is empty: expected sentence pairs"):
        read_pairs([tmp_path / "c.csv"], ["de", "en"])


@pytest.mark.parametrize("content", ['"No," he said.\t"Nein", sagte er.\n', 'He said "no".\tEr sagte "nein".\n'])
def test_quoted_speech_is_text(tmp_path, content):
    (tmp_path / "pairs").write_text('"Go!"\t"Geh!"\n' + content)
    pairs, _ = read_pairs([tmp_path / "pairs"], ["en", "de"])
    assert ["\t".join(pair) for pair in pairs] == ['"Go!"\t"Geh!"', *content.splitlines()]


@refuses(
    ({"none.tsv": None}, "there is no such file"),
    ({"": None}, "is a folder"),
    ({"pairs.tsv": b" \n\n"}, "is empty: expected sentence pairs"),
    ({"pairs.tsv": b"a\tb\nc\n"}, "line 2: has 1 column, no column 2: expected a sentence, a tab"),
    ({"pairs.tsv": b"a\tb\nSe\xf1or\tb\n"}, "line 2: is not UTF-8; fetch it again, or convert it, as in iconv -f L"),
    ({"pairs.tsv": "a\tb\n".encode("utf-16")}, "line 1: is not UTF-8; .*, as in iconv -f UTF-16 -t UTF-8"),
    ({"pairs.tsv": b"a\tb\n\0\tb\n"}, "line 2: has a NUL character"),
    ({"pairs.tsv": b"a b\ta b\nc d\tc d\n"}, "source and target are the same text in all lines"),
    ({"pairs.tsv": b"1\t2\n3\t4\n"}, "column 1 holds numbers; choose two columns by --columns"),
    ({"a.en": b"a\nb\n", "a.de": b"a\n"}, "a.en has 2 lines and .*a.de has 1"),
    ({"a": b"a\n", "b": b"b\n", "c": b"c\n"}, "one table or two aligned files"),
    ({"one.tsv": b"a\tb\n\n", "two.tsv": b"a\tb\n"}, "one.tsv and .*two.tsv: have a tab in every line, as tables"),
    ({"pairs.zip": b"something else"}, "pairs.zip: is no text; unpack an archive"),
    ({"pairs.xlsx": b"PK"}, "pairs.xlsx: is no text; .* save a workbook as .csv"),
    ({"pairs.tsv": b"a\tb\rc\td\r"}, r"pairs.tsv: ends lines by CR alone; write LF, as by tr '\\r' '\\n'"),
)
def test_mistakes_in_files(files, tmp_path):
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    read_pairs([tmp_path / name for name in files], ["en", "de"])


def sentences(count):
    return [(f"source {n}", f"target {n}") for n in range(count)]


def test_no_sentence_of_test_is_in_train():
    pairs = sentences(400) + [("Source 1!", "another"), ("more", "target 2")] * 2
    splits, notes = split({"train": pairs, "valid": None, "test": None})
    sides = {name: [{normalize(pair[side]) for pair in part} for side in (0, 1)] for name, part in splits.items()}
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        assert all(sides[one][side].isdisjoint(sides[other][side]) for side in (0, 1))
    assert sum(map(len, splits.values())) == 402 and notes == ["train: 2 pairs are left out, which occur before"]
    assert min(map(len, splits.values())) > 5


def test_a_large_corpus_holds_out_as_many_pairs_as_a_small_one(monkeypatch):
    monkeypatch.setattr(own_pairs, "HELD_OUT", 6)
    parts, _ = split({"train": sentences(600), "valid": None, "test": None})
    assert 0 < len(parts["valid"]) < 15 and 0 < len(parts["test"]) < 15


def test_given_splits_stay_whole():
    given = [("SOURCE 3", "x"), ("y", "target 4"), ("y", "target 4")]
    splits, notes = split({"train": sentences(300), "valid": None, "test": given})
    assert splits["test"] == given and len(splits["train"]) + len(splits["valid"]) == 298 and splits["valid"]
    assert notes == ["train: 2 pairs are left out, which have a sentence of test"]


def test_empty_and_long_pairs_are_left_out():
    splits, notes = split({"train": [*sentences(300), ("", "x"), ("x" * 1001, "y")], "valid": None, "test": None})
    assert sum(map(len, splits.values())) == 300 and len(notes) == 2
    why = "train: 320 pairs are left out, which occur before"
    with pytest.raises(OptionError, match=f"40 different sentence pairs are too few: expected at least 100; {why}"):
        split({"train": sentences(40) * 9, "valid": None, "test": None})
    with pytest.raises(OptionError, match="the valid split is empty: too few sentence pairs that share no sentence"):
        split({"train": [("Yes.", f"target {n}") for n in range(200)], "valid": None, "test": None})


def test_size_of_subwords_and_tokeniser_follow_the_corpus():
    assert [fitting_size(words) for words in (100, 26000, 750000, 10**9)] == [200, 1300, 6900, 32000]
    assert (
        tokenizer_of(READ, ["de", "en"]) == "moses"
        and tokenizer_of([("The dog is here.", "那只狗在这里睡觉而且很高兴。" * 2)], ["en", "xx"]) == "none"
        and all(tokenizer_of([("我喜欢你。", "I like.")], [zh, "en"]) == "none" for zh in ("zh_Hant", "ZH", "zho_Hans"))
        and tokenizer_of([("a b", "b c")], ["my_corpus", "lo_case"]) == "moses"
    )
    # what Moses' rules tear, in the target alone: a question mark, a joiner, an apostrophe within a word
    torn = (("ar", "هل هو هنا؟"), ("fa", "من می\u200cروم."), ("yo", "Ọjọ́ kẹfà ni."), ("tr", "O İzmir'de."))
    for language, text in torn:
        assert tokenizer_of([("I am here.", text)], ["en", language]) == "none"
        assert tokenizer_of([(text, "I am here.")], [language, "en"]) == "moses"
    sides = ((["我喜欢你。", "那只狗 (睡觉)"], "zh"), (["a bc", "d"], "de"), (["我喜欢你。" * 4], "xx"))
    assert [words_in(*side) for side in sides] == [6, 3, 10]


def test_a_folder_of_the_user_stays_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs").write_text(table(sentences(400)))
    corpus = tmp_path / "project" / "training" / "data" / "corpus.txt"
    corpus.parent.mkdir(parents=True)
    corpus.write_text("mine")
    with pytest.raises(OptionError, match="--out project: exists, and is no model folder"):
        cli.main(["train", "pairs", "--from", "de", "--to", "en", "--out", "project"])
    (tmp_path / "project" / "training" / "lock").touch()
    with pytest.raises(OptionError, match="data exists, and fairseq-attn has not prepared it"):
        cli.main(["train", "pairs", "--from", "de", "--to", "en", "--out", "project"])
    assert corpus.read_text() == "mine"


def test_the_default_objective_of_an_architecture():
    import fairseq_attn_plugin.models  # noqa: F401

    wanted = {"lstm_latent_first_order_small": "first-order", "lstm_latent_small": "marginal"}
    wanted.update({"lstm_posterior_small": "elbo-enum", "lstm_adm": ""})
    options = Namespace(objective="", extra=[], seed=1)
    assert {arch: check_model(Namespace(arch=arch, **vars(options))) for arch in wanted} == wanted


@refuses(
    ("--to de", "--from de --to de: must be two languages"),
    ("--to DE", "--from de --to DE: must be two languages"),
    ("--subwords none --subword-size 9", "--subword-size 9: has no effect with --subwords none"),
    ("--from d/e", "--from d/e: must be a language code"),
    ("--columns 1", "--columns 1: must be two numbers from 1"),
    ("--max-epoch 0", "--max-epoch 0: must be at least 1"),
    ("--arch lstm_adn", "--arch lstm_adn: .* did you mean lstm_adm"),
    ("--arch han", "--arch han: there is no such architecture of a transl"),
    (
        "--arch lstm_latent_first_order_small --objective elbo-enum",
        "--objective elbo-enum does not fit --arch lstm_latent_first_order_small: choose --objective first-order",
    ),
    (
        "--arch lstm_latent_small --objective first-order",
        "--objective first-order does not fit --arch lstm_latent_small",
    ),
    ("--objective soft2", "--objective soft2: is unknown"),
    ("--objective soft", "--objective soft needs latent alignments: choose --arch lstm_latent"),
    (f"--out {__file__}", "--out .*: exists, and is no model folder"),
    ("--out 12:30", "--out 12:30: its path has a colon"),
    ("-- --seed 3", "--seed: the seed is chosen by --seed 1"),
    ("-- -a lstm", "-a: the architecture is chosen by --arch lstm_adm, before --"),
    ("-- --attention foo", "--attention foo: unknown"),
    ("-- --attention foo --user-dir own", "--user-dir: the folder of code is given by --user-dir FOLDER"),
    ("-- --no-save", "--no-save: leaves no checkpoint_best.pt, and so no model folder; leave it out"),
    ("-- --disable-validation", "--disable-validation: leaves no checkpoint_best.pt"),
    ("-- --checkpoint-suffix=-x", "--checkpoint-suffix: leaves no checkpoint_best.pt"),
    (
        "-- --restore-file x.pt",
        "--restore-file: counts again when this command continues .*; --finetune",
    ),
    ("-- --reset-optimizer", "--reset-optimizer: counts again when"),
    ("-- --dropout 2", "--dropout 2.0: must be at least 0 and less than 1"),
    ("--arch lstm_latent -- --baseline none", "--baseline none: --objective marginal does not read it"),
    ("-- -s fr", "-s: the languages are given by --from and --to"),
    ("--arch lstm_latent -- --objective=soft", "--objective: the criterion .* are chosen by --objective marginal"),
)
def test_mistakes_in_options(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs").write_text(table(sentences(400)))
    yield lambda: cli.main(["train", "pairs", "--from", "de", "--to", "en", *options.split()])
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]
