"""fairseq-attn train and translate, with the real tools on a tiny corpus."""

import functools
import io
import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
from models_for_tests import exactly
from refusals import refuses

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference import translator
from fairseq_attn_plugin.commands import train as command
from fairseq_attn_plugin.commands import translate
from fairseq_attn_plugin.corpora import tools as run_tools
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import open_model_folder
from fairseq_attn_plugin.own_data.progress import follow

from cli import TINY, usual_environment


@pytest.fixture
def tools(monkeypatch, warm_path):
    """The commands start from a warm process."""
    environment = {**usual_environment(), "PATH": warm_path}
    monkeypatch.setattr(run_tools, "environment", lambda: environment)


@pytest.fixture
def pairs(tmp_path, tiny_data):
    sides = [
        (tiny_data.parent / "text" / f"train.{language}").read_text().split("\n")[:-1] for language in ("xx", "yy")
    ]
    (tmp_path / "pairs.tsv").write_text("".join(f'{a.capitalize()}.\t{b}, "so"!\n' for a, b in zip(*sides)))
    return tmp_path / "pairs.tsv"


def train(pairs, *options):
    out = pairs.parent / "model"
    options = ("--cpu", *options, *TINY["lstm"][2:])  # the sizes alone
    cli.main(["train", str(pairs), "--from", "xx", "--to", "yy", "--out", str(out), *options])
    return out


def test_from_pairs_to_a_translation(tools, pairs, capfd, monkeypatch):
    with pytest.raises(OptionError, match="fairseq-train failed, see .*; the same command does what is left"):
        train(pairs, "--max-epoch", "1", "--", "--continue-once", "/no/such/file.pt")
    with pytest.raises(OptionError, match="its training has not ended; run the same fairseq-attn train again"):
        cli.main(["translate", str(pairs.parent / "model"), "Ama."])
    capfd.readouterr()
    out = train(pairs, "--max-epoch", "1", "--")
    first = capfd.readouterr().out
    assert "prepare: done before" in first and "$ fairseq-train " in first and "epoch 1/1" in first
    assert "$ fairseq-preprocess" not in first and "BLEU" in first.splitlines()[-2]

    model = open_model_folder(out)
    assert model.languages == ("xx", "yy") and set(model.settings["scores"]) == {"bleu", "chrf", "ter"}
    assert model.settings["bpe"] == "subword_nmt" and model.settings["tokenizer"]["escape"] is False
    assert (out / "README.md").read_text().startswith('---\nlanguage:\n- "xx"\n- "yy"\n')
    test = model.test_file("reference").read_text().splitlines()
    assert all(line.endswith(', "so"!') for line in test) and model.settings["pairs"]["test"] == len(test)
    assert "&quot;" not in (out / "training" / "data" / "text" / "train.yy").read_text()

    stamp = (out / "settings.json").stat().st_mtime_ns
    with monkeypatch.context() as context:  # a finished training reads no corpus
        context.setattr(command, "read_pairs", None)
        train(pairs, "--max-epoch", "1", "--")
    again = capfd.readouterr().out
    assert "$ " not in again and (out / "settings.json").stat().st_mtime_ns == stamp
    train(pairs, "--max-epoch", "2", "--")
    assert "epoch 2/2" in capfd.readouterr().out and (out / "settings.json").stat().st_mtime_ns != stamp
    with pytest.raises(OptionError, match="holds a training with other options .*: choose another --out"):
        train(pairs, "--max-epoch", "2", "--", "--dropout", "0.5")

    # a file that was lost is written again
    (out / "dict.xx.txt").unlink()
    train(pairs, "--max-epoch", "2", "--")
    assert open_model_folder(out) is not None and "Traceback" not in (out / "training/fairseq-train.log").read_text()

    # a report has the scores of the training
    cli.main(["report", str(out), "--out", str(pairs.parent / "report"), "--cpu"])
    page, scores = (pairs.parent / "report" / "report.md").read_text(), open_model_folder(out).settings["scores"]
    head, row = (re.findall(rf"^\| *{name} .*", page, re.MULTILINE)[0].split("|") for name in ("system", "model"))
    shown = {name.strip(): cell.strip() for name, cell in zip(head, row)}
    assert [shown[name] for name in ("BLEU", "chrF2", "TER")] == [
        f"{scores[name]['score']:,.2f}" for name in ("bleu", "chrf", "ter")
    ]
    assert "tok:13a" in scores["bleu"]["signature"] and "tok:13a" in page

    # the folder alone is enough
    (out / "training").rename(pairs.parent / "elsewhere")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Ama bel.\n\nBel\rama\n" + b"Bel " * 2000 + b"\n")))
    capfd.readouterr()
    cli.main(["translate", str(out)])
    read = capfd.readouterr()
    lines = read.out.split("\n")
    assert len(lines) == 5 and lines[1] == lines[3] == "" and "@@" not in "".join(lines)
    assert "line 4: the sentence is too long" in read.err
    cli.main(["translate", str(out), "Ama bel.", "--nbest", "2", "--alignments", "--out", str(out / "it")])
    rows = [line.split("\t") for line in (out / "it").read_text().splitlines()]
    assert [row[0] for row in rows] == ["0", "0"] and float(rows[0][1]) >= float(rows[1][1])
    assert all(int(link.split("-")[0]) < 3 for row in rows for link in row[3].split())

    # lines of a file are searched together, and are the same; in float64, since weights are nearly equal
    monkeypatch.setattr(translator, "load_models", exactly(translator.load_models))
    text = pairs.parent / "some.xx"
    text.write_text((out / "test.xx").read_text() + "\n" + "Bel " * 2000 + "\nAma bel.\n")
    written = []
    for size in (1, 1024):
        monkeypatch.setattr(translate, "BUFFER", size)
        cli.main(["translate", str(out), "--input", str(text), "--nbest", "3", "--alignments"])
        written.append(capfd.readouterr())
    assert written[0] == written[1] and len(written[0].out.splitlines()) > 3 * len(text.read_text().splitlines()) - 6


def test_the_last_line_is_a_command_that_runs(capsys):
    scores = {name: {"score": 1.0} for name in ("bleu", "chrf", "ter")}
    command._conclude(Namespace(user_dir=["my code"]), Path("model"), scores, 5)
    assert "\nfairseq-attn translate model --user-dir 'my code' 'A sentence.' " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dropot", "0.3"], "unrecognized arguments: --dropot 0.3; did you mean --dropout?"),
        (["--dropout", "much"], "argument --dropout: invalid float value: 'much'"),
    ],
    ids=["unknown", "wrong"],
)
def test_mistakes_behind_the_dashes_are_found_before_the_preparation(options, said, tools, pairs, capfd):
    with pytest.raises(OptionError) as error:
        cli.main(["train", str(pairs), "--from", "xx", "--to", "yy", "--out", str(pairs.parent / "m"), "--", *options])
    assert str(error.value) == f"options after --: fairseq-train says: {said}"
    assert not (pairs.parent / "m" / "training" / "data").exists() and "$ fairseq" not in capfd.readouterr().out


def test_a_corpus_that_changed_is_another_corpus(tools, pairs, capfd):
    with pytest.raises(OptionError, match="fairseq-train failed"):
        train(pairs, "--", "--continue-once", "/no/such/file.pt")
    held = pairs.with_name("held.tsv")
    held.write_text("Neu hier.\thier neu!\n")
    for option in ("--valid", "--test"):  # the same files in other places
        with pytest.raises(OptionError, match="was prepared with other settings .*, now .*: choose another --out"):
            train(pairs, option, str(held), "--")
    pairs.write_text("".join(line.replace('"so"', "so") for line in pairs.read_text().splitlines(keepends=True)))
    with pytest.raises(OptionError, match="from other sentence pairs; a file has changed since: choose another --out"):
        train(pairs, "--")


def test_text_without_blanks_is_split_by_sentencepiece(tools, pairs, capfd):
    lines = [line.replace(" ", "") for line in pairs.read_text().splitlines()]
    characters = set("".join(lines)) - {"\t"}
    pairs.write_text("\n".join(lines) + "\n")
    out = train(pairs, "--max-epoch", "1", "--tokenizer", "none", "--")
    model = open_model_folder(out)
    assert model.settings["bpe"] == "sentencepiece" and model.settings["tokenizer"] is None
    # beside the characters there are the 200 subwords that so small a text has
    assert f"words of train; and its {len(characters)} characters" in capfd.readouterr().out
    pieces = (out / "dict.yy.txt").read_text().splitlines()
    assert sum(len(line.split()[0]) > 2 for line in pieces) > 50
    cli.main(["translate", str(out), "Amabel."])
    assert "\u2581" not in capfd.readouterr().out
    assert os.path.getsize(out / "test.hyp.yy")


@refuses(
    ([], "is no model folder, checkpoint or exported model"),
    (["--input", "y"], "--input y: is given beside sentences"),
    ([__file__], f"{__file__}: is a file; --input {__file__} translates its lines"),
    (["caf\udce9"], r"^'caf\\udce9': must be UTF-8"),
    (["--nbest", "9"], "--nbest 9"),
)
def test_mistakes_of_translate(options, tiny_data):
    cli.main(["translate", str(tiny_data), "x", *options])


@pytest.mark.parametrize("tool", ["fairseq-train", "sacrebleu"])
def test_the_end_by_sigterm_ends_the_command_that_runs(tmp_path, tool):
    fake = tmp_path / tool
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/partial\nmv {tmp_path}/partial {tmp_path}/pid\nexec sleep 300\n")
    fake.chmod(0o755)
    code = (
        "import os, pathlib, sys\n"
        "from fairseq_attn_plugin.corpora import tools\n"
        "from fairseq_attn_plugin.commands import train as command\n"
        "from fairseq_attn_plugin.own_data import steps\n"
        "tools.environment = lambda: {**os.environ, 'PATH': sys.argv[1] + ':' + os.environ['PATH']}\n"
        "os.environ['PATH'] = sys.argv[1] + ':' + os.environ['PATH']\n"
        "command._run = lambda args: steps.run(pathlib.Path(sys.argv[1]), -1, sys.argv[2])\n"
        "command.run(None)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), tool], env=usual_environment())
    while not (tmp_path / "pid").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.terminate()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    end = time.monotonic() + 20  # an orphan that has ended is there until the system collects it
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < end:
            os.kill(int((tmp_path / "pid").read_text()), 0)
            time.sleep(0.05)


@pytest.mark.parametrize("read", [run_tools.keep, functools.partial(follow, max_epoch=0)])
def test_a_full_disk_under_the_log_is_one_line_and_ends_the_command(read):
    begun = time.monotonic()
    with pytest.raises(OptionError, match="/dev/full: cannot be written: No space left on device; make room, and"):
        run_tools.run_quietly(Path("/dev/full"), "sh", "-c", "echo begun && exec sleep 300", read=read)
    assert time.monotonic() - begun < 200
