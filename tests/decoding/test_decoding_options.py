"""Mistakes in the options of decoding, which one line explains."""

import pytest
from in_process import run_tool

from fairseq_attn_plugin import cli as analysis
from fairseq_attn_plugin.decoding import stepper
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR


def symbols(dictionary):
    return [line.split()[0] for line in dictionary.read_text().splitlines()]


@pytest.mark.parametrize("name", ["shortlist_size", "shortlist_frequent"])
def test_numbers_of_a_shortlist_need_one(name):
    with pytest.raises(OptionError, match=f"--{name.replace('_', '-')} 7: needs --shortlist"):
        DecodingOptions(**{name: 7})
    assert DecodingOptions(shortlist="lexicon.tsv", **{name: 7}).changed()[name] == 7


@pytest.mark.parametrize(
    "options, line",
    [
        (["--beam", 0], "--beam 0: must be at least 1"),
        (["--beam", -2, "--decoding-engine", "stock"], "--beam -2: must be at least 1"),
        (["--nbest", 0], "--nbest 0: must be at least 1"),
        (["--lenpen", "nan"], "--lenpen nan: must be a finite number"),
        (["--unkpen", "inf"], "--unkpen inf: must be a finite number"),
        (["--decoding-precision", "int4"], "--decoding-precision int4: must be float32 or"),
        (["--sampling", "--nbest", 5, "--sampling-topk", 99], "--sampling-topk 99: must be at most"),
        (["--score-reference", "--decoding-precision", "int8"], "--decoding-precision int8: --score-reference"),
        (["--score-reference", "--shortlist", "x"], "--shortlist x: --score-reference"),
        (["--shortlist-size", 0], "--shortlist-size 0: needs --shortlist"),
        (["--max-len-b", 0], "--min-len 1: greater than the greatest length"),
        (["--max-len-b", 0, "--decoding-engine", "stock"], "--min-len: is greater than the greatest length"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_mistakes(options, line, zoo, tiny_data):
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    assert run_tool(*command, "--gen-subset", "test", *options, fails=True).error.startswith(line)


@pytest.mark.parametrize(
    "options, line",
    [
        ([], "--bpe-codes is missing: what the other options choose needs it"),
        (["--bpe-codes", "no-such-file"], "file no-such-file not found"),
    ],
)
def test_subwords_of_raw_text_need_their_file(options, line, zoo, tiny_data):
    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    assert run_tool(*command, "--bpe", "subword_nmt", *options, fails=True).error == line


def test_text_that_is_not_utf8(zoo, tiny_data, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"a \xff b\n")
    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    assert run_tool(*command, "--input", text, fails=True).error.startswith("--input (default: stdin) is not UTF-8")


@pytest.mark.parametrize("search", [[], ["--sampling", "--sampling-topk", 10]], ids=["beam", "sampling"])
def test_a_shortlist_has_the_words_that_the_search_needs(search, zoo, tiny_data, tmp_path):
    source, target = (symbols(tiny_data / name)[0] for name in ("dict.xx.txt", "dict.yy.txt"))
    (tmp_path / "lexicon.tsv").write_text(f"{source}\t{target}\t1\n")
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    command += ["--gen-subset", "test", "--shortlist", tmp_path / "lexicon.tsv", "--shortlist-size", 1]
    command += ["--shortlist-frequent", 0, "--beam", 8, "--nbest", 8, "--max-len-b", 5, *search]
    hypotheses = [line for line in run_tool(*command).stdout.splitlines() if line.startswith("H-0\t")]
    assert len(hypotheses) == 8


def test_extraction_translates_in_the_precision_and_with_the_shortlist(zoo, tiny_data, tmp_path, monkeypatch):
    pairs = zip(*(symbols(tiny_data / name) for name in ("dict.xx.txt", "dict.yy.txt")))
    (tmp_path / "lexicon.tsv").write_text("".join(f"{source}\t{target}\t1\n" for source, target in pairs))
    made = []
    plain = stepper.ModelStepper
    monkeypatch.setattr(stepper, "ModelStepper", lambda *options: made.append(options) or plain(*options))
    command = ["extract", str(tiny_data), "--path", str(zoo("lstm_soft").last), "--gen-subset", "test", "--cpu"]
    command += ["--decoding-precision", "int8", "--shortlist", str(tmp_path / "lexicon.tsv")]
    with pytest.raises(OptionError, match="--decoding-precision int8: without --beam nothing is translated"):
        analysis.main([*command, "--out", str(tmp_path / "forced.jsonl")])
    analysis.main([*command, "--beam", "2", "--out", str(tmp_path / "translated.jsonl")])
    ((_, _, precision, shortlist),) = made
    assert precision == "int8" and shortlist is not None
    assert len((tmp_path / "translated.jsonl").read_text().splitlines()) == 41
