"""The election command: its figures against a slow count, its files, and a line for every mistake."""

import json
import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.extraction import extract
from fairseq_attn_plugin.analysis.inference.loading import load_models
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.analysis.voting.ballots import Tally, fit_gaussian
from fairseq_attn_plugin.analysis.voting.election import FORMAT
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.messages import explain

RULES = "half,log2,log3,log4,1"


@pytest.fixture(scope="module")
def teacher(zoo):
    """A teacher that has learnt its corpus, in which words stand in reverse order."""
    return zoo("reversal").last


def hold(capsys, data, *options):
    cli.main(["election", str(data), "--path", *map(str, options), "--cpu"])
    return capsys.readouterr().out


def test_json_and_table_have_the_counts_of_the_votes(tiny_data, teacher, tmp_path, capsys):
    out = hold(capsys, tiny_data, teacher, "--rules", RULES, "--out", tmp_path / "a.json", "--max-tokens", 60)
    found = json.loads((tmp_path / "a.json").read_text())
    tally, loaded = Tally(RULES.split(",")), load_models(str(tiny_data), str(teacher), cpu=True)
    for record in extract(loaded, SplitSentences(loaded, "valid")):
        tally.add(record.attention[:-1, :-1], 1.0)
    assert found["format"] == FORMAT and found["languages"] == ["xx", "yy"] and found["split"] == "valid"
    assert (found["sentences"], found["sentences_left_out"], found["voters"]) == (40, 0, tally.voters)
    assert found["length_ratio"] == 1.0 and 0 < found["end_of_sentence"] < 1

    assert [row["rule"] for row in found["rules"]] == [result.rule for result in tally.results()]
    for row, result in zip(found["rules"], tally.results()):
        assert row.pop("satisfaction") == pytest.approx(result.satisfaction, abs=1e-4)
        assert row == pytest.approx({name: getattr(result, name) for name in row}, abs=1e-4)
        # what is printed is what is written
        (line,) = [line.split() for line in out.splitlines() if line.startswith(row["rule"] + " ")]
        printed = [f"{row['mean_k']:.2f}", f"{row['mean_window']:.2f}", f"{100 * row['share']:.1f}"]
        assert line[1:4] == printed and line[8] == f"{100 * row['mass']:.2f}"
    offsets = tally.offsets()
    for offset, *values in zip(*(column.tolist() for column in offsets[:4])):
        assert list(found["offsets"][str(offset)].values()) == pytest.approx(values, abs=1e-5), offset
    assert found["gaussian"] == pytest.approx(fit_gaussian(offsets.offset, offsets.mass)._asdict(), abs=1e-4)
    choice = found["recommended"]
    inside = fit_gaussian(offsets.offset, offsets.inside[choice["rule"]])
    assert [choice["mean"], choice["sigma"]] == pytest.approx(inside[:2], abs=1e-4)
    assert re.search(rf"^recommended: {choice['rule']} \(", out, re.MULTILINE)
    assert f"recommended Gaussian: mean {choice['mean']:.2f}, sigma {choice['sigma']:.2f};" in out
    assert f"{tally.voters} voters in 40 sentences; 1 target words per source word (measured on train)" in out


def test_the_attention_reads_it(tiny_data, teacher, tmp_path, capsys):
    hold(capsys, tiny_data, teacher, "--out", tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    sides = [Dictionary.load(str(tiny_data / f"dict.{language}.txt")) for language in ("xx", "yy")]
    attention = build_attention("gaussian", 4, 6, election=str(tmp_path / "a.json"))
    attention.read_files(*sides)  # refuses those of other vocabularies
    assert float(attention.log_sigma.exp()) == pytest.approx(found["recommended"]["sigma"])
    assert float(attention.mean) == pytest.approx(found["recommended"]["mean"])
    assert float(attention.log_ratio.exp()) == pytest.approx(found["length_ratio"])


def test_length_ratio_of_the_training_data(tiny_data, teacher, tmp_path, capsys):
    """Sums of words, the end of sentence not counted."""
    data = shutil.copytree(tiny_data, tmp_path / "data")
    put(data, "train.xx-yy.xx", [[4, 5, 6, 2], [4, 2]])
    put(data, "train.xx-yy.yy", [[4, 2], [4, 5, 2]])
    assert "; 0.75 target words per source word (measured on train);" in hold(capsys, data, teacher)
    put(data, "train.xx-yy.xx", [[2], [2]])
    with pytest.raises(OptionError, match="the training split has 0 source and 3 target words, and no ratio"):
        hold(capsys, data, teacher)


def test_sentences_that_do_not_vote(tiny_data, teacher, capsys):
    lengths = [len(line.split()) for line in (tiny_data.parent / "text" / "valid.xx").read_text().splitlines()]
    out = hold(capsys, tiny_data, teacher, "--model-overrides", "{'max_source_positions': 6}")
    short = [n for n in lengths if n <= 5]
    assert f"{sum(short)} voters in {len(short)} sentences ({len(lengths) - len(short)} left out: " in out
    with pytest.raises(OptionError, match="--gen-subset valid: has no voters; all 40 sentences are empty, or longer"):
        hold(capsys, tiny_data, teacher, "--model-overrides", "{'max_source_positions': 2}")


# --- mistakes


def put(folder, name, sentences):
    """A file of a split as fairseq-preprocess writes it."""
    builder = make_builder(str(folder / (name + ".bin")), "mmap", vocab_size=20)
    for sentence in sentences:
        builder.add_item(torch.tensor(sentence))
    builder.finalize(str(folder / (name + ".idx")))


@pytest.mark.parametrize(
    ("missing", "split", "message"),
    [
        ("empty", "valid", "^--gen-subset valid: is empty; it has no sentence"),
        ("target", "valid", "^--gen-subset valid: has no target side"),
        ("", "dev", r"has no split 'dev'.*it has test \(xx-yy\), train \(xx-yy\), valid \(xx-yy\)"),
    ],
)
def test_splits_that_cannot_be_read(tiny_data, teacher, tmp_path, capsys, missing, split, message):
    data = shutil.copytree(tiny_data, tmp_path / "data")
    if missing == "target":
        for file in data.glob("valid.xx-yy.yy.*"):
            file.unlink()
    if missing == "empty":
        for language in ("xx", "yy"):
            put(data, f"valid.xx-yy.{language}", [])
    with pytest.raises((OptionError, FileNotFoundError)) as caught:
        hold(capsys, data, teacher, "--gen-subset", split)
    assert re.search(message, explain(caught.value) or str(caught.value))


def test_teacher_that_has_diverged(tiny_data, teacher, tmp_path, capsys):
    state = torch.load(teacher, map_location="cpu")
    for name, value in state["model"].items():
        if "attention" in name:
            value.fill_(3e38)  # finite, as its scores are not
    torch.save(state, tmp_path / "huge.pt")
    with pytest.raises(OptionError, match="^--path .*huge.pt: its attention is not finite; the training has diverged"):
        hold(capsys, tiny_data, tmp_path / "huge.pt")
    with pytest.raises(OptionError, match="^--out .*huge.pt: is a checkpoint, and would be lost"):
        hold(capsys, tiny_data, tmp_path / "huge.pt", "--out", tmp_path / "huge.pt")


@refuses(
    (["data", "--rules", "log2,log5"], "^--rules log5: must be one of log4, log3, log2, half, or a number of pos"),
    (["data", "--rules", "0"], "^--rules 0: must be at least 1 position on either side"),
    (["data", "--rules", " ,"], "^--rules: name at least one rule, such as log2"),
    (["data", "--seed", "3"], "^--seed 3: needs --agent FILE"),
    (["data", "--model-overrides", "1"], "^--model-overrides 1: must be a dictionary"),
    (["data:more"], "^data:more: give one data folder at a time"),
)
def test_wrong_options(options):
    cli.main(["election", *options, "--path", "checkpoint.pt"])
