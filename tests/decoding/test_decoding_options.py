"""Options of decoding and of the search: refused in one line by every tool that translates, or obeyed."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import search
from in_process import run_tool
from models_for_tests import build, dictionary
from refusals import refuses
from test_search import final, generator, models_of

from fairseq_attn_plugin import cli as analysis
from fairseq_attn_plugin.decoding import stepper
from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ranges import check_search

from cli import USER_DIR


def symbols(dictionary):
    return [line.split()[0] for line in dictionary.read_text().splitlines()]


@pytest.fixture
def command(zoo, tiny_data):
    given = [tiny_data, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last]
    return lambda tool, *options, **more: run_tool(f"fairseq-{tool}", *given, *options, **more)


# --- values


def test_defaults():
    assert DecodingOptions().changed() == {}
    assert DecodingOptions(shortlist="lexicon.tsv", shortlist_size=7).changed()["shortlist_size"] == 7


@refuses(
    ({"shortlist_size": 7}, "^--shortlist-size 7: needs --shortlist"),
    ({"shortlist_frequent": 7}, "^--shortlist-frequent 7: needs --shortlist"),
    ({"shortlist": "x", "shortlist_size": 0}, "^--shortlist-size 0: must be at least 1"),
    ({"shortlist": "x", "shortlist_frequent": -1}, "^--shortlist-frequent -1: must be at least 0"),
    ({"wu_penalty": -1.0}, "^--wu-penalty -1.0: must be 0 or more and at most 10"),
    ({"wu_penalty": math.inf}, "^--wu-penalty inf: must be 0 or more"),
    ({"eos_norm": -1.0}, "^--eos-norm -1.0: must be 0 or more"),
    ({"eos_norm": math.inf}, "^--eos-norm inf: must be 0 or more"),
    ({"decoding_precision": "half"}, "^--decoding-precision half: must be float32 or bfloat16 or int8"),
    ({"decoding_engine": "fast"}, "^--decoding-engine fast: must be plugin or stock"),
    ({"decoding_engine": None}, "^--decoding-engine None: must be plugin or stock"),
    ({"wu_penalty": None}, "^--wu-penalty None: must be a number"),
    ({"eos_norm": "1"}, "^--eos-norm '1': must be a number"),
    ({"shortlist": 5}, "^--shortlist 5: must be a text"),
    ({"shortlist": "x", "shortlist_size": 2.5}, "^--shortlist-size 2.5: must be a whole number"),
)
def test_wrong_values_of_decoding(options):
    DecodingOptions(**options)


@pytest.mark.parametrize("options", [{"shortlist": "x"}, {"decoding_precision": "int8"}, {"eos_norm": 1.0}], ids=str)
def test_options_that_another_search_lacks(options):
    for engine, others, why in (("stock", {}, "engine stock"), ("plugin", {"diversity_rate": 0.5}, "DiverseSiblings")):
        with pytest.raises(OptionError, match=f"^--.*: .*{why}.*; leave it out"):
            generator(engine, final(*models_of("soft")), **others, **options)
    with pytest.raises(OptionError, match="^--.*: .*model of another package.*; leave it out"):
        generator("plugin", [build("lstm")], **options)


@refuses(
    ({"beam": 0}, "^--beam 0: must be at least 1"),
    ({"beam": 2, "nbest": 9}, "^--nbest 9: must be at most --beam 2"),
    ({"lenpen": math.nan}, "^--lenpen nan: must be a finite number"),
    ({"lenpen": 1e10}, r"^--lenpen 10000000000\.0: must be from -10 to 10"),
    ({"temperature": 0}, "^--temperature 0: must be above 0"),
    ({"unkpen": -math.inf}, "^--unkpen -inf: must be a finite number"),
    ({"max_len_a": math.inf}, "^--max-len-a inf: must be a finite number"),
    ({"prefix_size": -1}, "^--prefix-size -1: must be 0 or more"),
    ({"sampling_topp": 2.0}, r"^--sampling-topp 2\.0: must be above 0 and at most 1"),
    ({"sampling_topk": -2}, "^--sampling-topk -2: must be at least 1"),
    ({"diverse_beam_groups": 2.5}, r"^--diverse-beam-groups 2\.5: must be at least 1, a whole number"),
    ({"diverse_beam_groups": 2}, "^--diverse-beam-groups 2: must divide --beam 5"),
    ({"beam": None, "nbest": 5}, "^--beam None: must be at least 1"),
    ({"sampling": "yes"}, "^--sampling 'yes': must be true or false"),
    ({"temperature": "hot"}, "^--temperature 'hot': must be above 0"),
    ({"sampling": True, "diversity_rate": 0.5}, "^--sampling and --diversity-rate: are different searches"),
    ({"sampling": True, "constraints": "ordered"}, "^--sampling and --constraints: are different searches"),
    ({"retain_iter_history": True}, "^--retain-iter-history: is for models"),
    ({"iter_decode_max_iter": 5}, "^--iter-decode-max-iter: is for models"),
)
def test_wrong_values_of_the_search(options):
    check_search(Namespace(**options))


def test_what_is_not_given_is_not_checked():
    check_search(Namespace())
    check_search(Namespace(beam=5, nbest=5, diverse_beam_groups=-1, diversity_rate=-1.0, sampling_topk=-1, lenpen=-1.0))
    check_search(Namespace(sampling_topk=0, sampling_topp=0.0, diverse_beam_groups=0))
    check_search(Namespace(diverse_beam_groups=5))  # of the default width


# --- the tools


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--beam -2 --decoding-engine stock", "--beam -2: must be at least 1"),
        ("--sampling --nbest 5 --sampling-topk 99", "--sampling-topk 99: must be at most"),
        ("--score-reference --decoding-precision int8", "--decoding-precision int8: --score-reference"),
        ("--max-len-b 0 --decoding-engine stock", "--min-len: is greater than the greatest length"),
        ("--constraints", "--constraints: fairseq-interactive reads them"),
        ("--num-workers 99999999999", "--num-workers 99999999999: must be 0 to 1000"),
        ("--shard-id 3", "--shard-id 3: must be less than --num-shards 1"),
        ("--max-tokens 3", "--max-tokens 3 (of validation --max-tokens-valid): a sentence is longer; raise it"),
    ],
)
def test_mistakes(options, line, command):
    assert command("generate", "--gen-subset", "test", *options.split(), fails=True).error.startswith(line)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "--bpe-codes is missing: what the other options choose needs it"),
        (["--bpe-codes", "no-such-file"], "file no-such-file not found"),
    ],
)
def test_subwords_of_raw_text_need_their_file(options, line, command):
    assert command("interactive", "--bpe", "subword_nmt", *options, fails=True).error == line


@pytest.mark.parametrize("kind, option", [("subword_nmt", "--bpe-codes"), ("sentencepiece", "--sentencepiece-model")])
def test_a_file_that_is_no_model_of_subwords(kind, option, command, tmp_path):
    (tmp_path / "file").write_bytes(b"\x80\x02")
    failed = command("interactive", "--bpe", kind, option, tmp_path / "file", fails=True)
    assert failed.error.startswith(f"{option} {tmp_path / 'file'}: is no model of subwords (")


@pytest.mark.parametrize(
    "option", ["--print-alignment soft", "--score-reference", "--lm-path none.pt", "--prefix-size 3"]
)
def test_options_that_interactive_translation_lacks(option, command):
    assert command("interactive", *option.split(), fails=True).error.startswith(f"{option}: ")


def test_interactive_translation_copies_no_words_into_joined_ones(command):
    failed = command("interactive", "--replace-unk", "--print-alignment", "hard", "--remove-bpe", fails=True)
    assert failed.error.startswith("--replace-unk: fairseq-interactive copies wrong words beside --post-process")


@pytest.mark.parametrize("option", ["--prefix-size 2", "--score-reference"])
def test_options_that_a_split_without_references_lacks(option, zoo, tiny_data, tmp_path):
    for path in tiny_data.iterdir():
        if ".xx-yy.yy." not in path.name:
            (tmp_path / path.name).symlink_to(path)
    given = [tmp_path, "--user-dir", USER_DIR, "--path", zoo("lstm_soft").last, *option.split(), "-s", "xx", "-t", "yy"]
    assert run_tool("fairseq-generate", *given, fails=True).error.startswith(
        f"{option.split()[0]}: split test has no ref"
    )


def test_a_language_model_with_words_in_another_order_is_refused():
    words = dictionary(15)
    words.symbols[5:7] = words.symbols[6:4:-1]
    words.indices = {symbol: number for number, symbol in enumerate(words.symbols)}
    model = Namespace(decoder=Namespace(dictionary=words))
    with pytest.raises(OptionError, match="^--lm-path lm.pt: has other words than the target language, or another o"):
        generator("plugin", models_of("soft"), {"lm_model": model}, lm_path="lm.pt")


def test_text_that_is_not_utf8(command, tmp_path):
    (tmp_path / "text").write_bytes(b"a \xff b\n")
    failed = command("interactive", "--input", tmp_path / "text", fails=True)
    assert failed.error.startswith("--input (default: stdin) is not UTF-8")


def test_shards_are_translated_apart(command):
    def numbers(*options):
        lines = command("generate", "--gen-subset", "test", "--beam", 1, *options).stdout.splitlines()
        return [line.split("\t")[0] for line in lines if line.startswith("H-")]

    parts = [numbers("--num-shards", 2, "--shard-id", shard, "--batch-size", 5) for shard in (0, 1)]
    assert all(parts) and sorted(parts[0] + parts[1]) == sorted(numbers())
    failed = command("generate", "--gen-subset", "test", "--num-shards", 99, "--shard-id", 98, fails=True)
    assert failed.error.startswith("--num-shards 99: must be less: there are fewer batches")


@pytest.mark.parametrize("search", [[], ["--sampling", "--sampling-topk", 10]], ids=["beam", "sampling"])
def test_a_shortlist_has_the_words_that_the_search_needs(search, command, tiny_data, tmp_path):
    source, target = (symbols(tiny_data / name)[0] for name in ("dict.xx.txt", "dict.yy.txt"))
    (tmp_path / "lexicon.tsv").write_text(f"{source}\t{target}\t1\n")
    options = ["--shortlist", tmp_path / "lexicon.tsv", "--shortlist-size", 1, "--shortlist-frequent", 0]
    options += ["--gen-subset", "test", "--beam", 8, "--nbest", 8, "--max-len-b", 5, *search]
    assert sum(line.startswith("H-0\t") for line in command("generate", *options).stdout.splitlines()) == 8


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


# --- what is mended in fairseq's own search


def test_diverse_search_does_not_depend_on_the_numbers_of_sentences():
    results = []
    for first in (0, 100):
        torch.manual_seed(1)
        searching = search.DiverseBeamSearch(dictionary(6), 2, 0.5)
        numbers, scores = torch.tensor([2, 0, 1]) + first, torch.zeros(3, 4, 0)
        for step in range(4):
            kept = slice(0, None) if step < 2 else slice(1, None)  # the first sentence is finished
            lprobs = torch.randn(3, 4, 10).log_softmax(-1)[kept]
            found = searching.step(step, lprobs, scores[kept], None, numbers[kept])
            results.append(torch.stack([part.double() for part in found]))
            scores = torch.randn(3, 4, step + 1)
    torch.testing.assert_close(results[:4], results[4:], rtol=0, atol=0)
