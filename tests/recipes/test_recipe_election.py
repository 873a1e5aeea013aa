"""The election recipe: its systems, what is derived once, a given teacher, and its table."""

import json
import os
import re
import subprocess
import sys

import pytest
from recipe_corpora import TINY, complaint, files_of, lines_of, tatoeba, tool_of, value
from test_recipe_text import shared_sentences

from fairseq_attn_plugin.recipes.election.table import write_table
from fairseq_attn_plugin.recipes.errors import CorpusError


@pytest.fixture
def settings(corpus_folder, tmp_path):
    tatoeba(corpus_folder)
    return {"DATA": corpus_folder, "OUT": tmp_path / "out"}


BEFORE_TABLE = ("prepare teacher election agent mask mask-words gaussian election-model generate score").split()


def test_stages_run_once(recipe, tools, settings, tmp_path):
    recipe("tatoeba_election", *BEFORE_TABLE, **settings)
    assert tools.count("fairseq-train") == 5 and tools.count("fairseq-generate") == 5
    count, before = len(tools.commands), files_of(tmp_path / "out")
    again = recipe("tatoeba_election", *BEFORE_TABLE, **settings)
    assert len(tools.commands) == count and files_of(tmp_path / "out") == before
    assert len(re.findall(r"^\[.*done before", again.stdout, re.MULTILINE)) == 18
    # another election makes another model
    election = tmp_path / "out" / "en-es.equal.none" / "teacher.seed1" / "election.json"
    election.write_text(election.read_text() + " ")
    line = complaint(recipe("tatoeba_election", "gaussian", check=False, **settings))
    assert "gaussian.seed1 holds a training with other options" in line and "election.json" in line


def test_systems_that_are_not_asked_for_are_left_out(recipe, tools, settings, tmp_path):
    recipe("tatoeba_election", *BEFORE_TABLE, SYSTEMS="gaussian", **settings)
    trained = [value(command, "--arch") for command in tools.commands if command[0] == "fairseq-train"]
    assert trained == ["lstm_soft", "lstm_gaussian"], "the teacher is always trained"
    rates = [value(command, "--lr") for command in tools.commands if command[0] == "fairseq-train"]
    assert rates == ["3e-3", "2e-3"]
    generated = [value(command, "--path") for command in tools.commands if command[0] == "fairseq-generate"]
    assert len(generated) == 1 and "gaussian.seed1" in generated[0]


def test_files_are_derived_again_from_another_teacher_or_with_other_options(recipe, tools, settings, tmp_path):
    recipe("tatoeba_election", "prepare", "teacher", "election", "agent", **settings)
    recipe("tatoeba_election", "election", ELECTION_OPTIONS="--rule log3", **settings)
    recipe("tatoeba_election", "agent", AGENT_OPTIONS="--updates 3", **settings)
    work = tmp_path / "out" / "en-es.equal.none"
    (work / "teacher.seed1" / "checkpoint_best.pt").write_text("other")
    recipe(
        "tatoeba_election", "election", "agent", ELECTION_OPTIONS="--rule log3", **settings, AGENT_OPTIONS="--updates 3"
    )
    elections = [command for command in tools.commands if tool_of(command) == "election"]
    assert len(elections) == 3 and value(elections[-1], "--rule") == "log3"
    assert tools.count("q-agent") == 2
    agents = [command for command in tools.commands if tool_of(command) == "q-agent"]
    assert {value(command, "--start-split") for command in agents} == {"valid"}, "as in the paper"
    tools.fails = "q-agent"
    line = complaint(recipe("tatoeba_election", "agent", check=False, **settings))
    assert "agent.seed1/words.json could not be made" in line
    assert not (work / "agent.seed1" / "words.json.done").exists()


def test_a_given_teacher_is_taken(recipe, tools, settings, tmp_path):
    teacher = tmp_path / "teacher.pt"
    teacher.write_text("parameters")
    recipe("tatoeba_election", "prepare", "teacher", TEACHER=teacher, **settings)
    copy = tmp_path / "out" / "en-es.equal.none" / "teacher.seed1" / "checkpoint_best.pt"
    assert copy.read_text() == "parameters" and tools.count("fairseq-train") == 0
    before = files_of(copy.parent)
    recipe("tatoeba_election", "teacher", TEACHER=teacher, **settings)
    assert files_of(copy.parent) == before, "an unchanged copy keeps its time"
    (copy.parent / "train.options").write_text("")
    line = complaint(recipe("tatoeba_election", "teacher", check=False, TEACHER=teacher, **settings))
    assert "holds a teacher that was trained" in line


def test_recipe_runs(recipe, settings, tmp_path):
    """With fairseq's own commands: one system without training, one with, and the table."""
    import torch

    settings.update(
        SYSTEMS="mask-words gaussian",
        AGENT_OPTIONS="--updates 20 --min-count 1 --embedding-dim 8 --threshold 0.1",
        GENERATE_OPTIONS="--max-len-b 12",
    )
    recipe("tatoeba_election", "--", *TINY, "--max-update", "2", **settings)
    work = tmp_path / "out" / "en-es.equal.none"
    assert not shared_sentences(work / "data" / "text")
    train = [lines_of(work / "data" / "text", "train", language) for language in ("en", "es")]
    assert [len(line.split()) for line in train[0]] == [len(line.split()) for line in train[1]]
    assert all(re.fullmatch("the [a-z]+ [a-z]+ a [a-z]+( ;)? doesn't it", line) for line in train[0])
    models = {
        name: torch.load(work / (name + ".seed1") / "checkpoint_best.pt", weights_only=False)["model"]
        for name in ("teacher", "mask-words", "gaussian")
    }
    shared = [name for name in models["teacher"] if name in models["gaussian"]]
    assert "decoder.output_projection.weight" in shared

    def as_the_teacher(system):
        return all(torch.equal(models[system][name], models["teacher"][name]) for name in shared)

    assert as_the_teacher("mask-words"), "nothing was trained"
    assert not as_the_teacher("gaussian")
    table = (work / "table.seed1.md").read_text(encoding="utf-8")
    assert "23.65 |" in table and "trained further" in table and "tok:none" in table
    assert re.search(r"\| log2 +\|[0-9. |]+\| +93.22 \|", table)
    assert "teacher: additive" not in table, "it is not one of SYSTEMS"
    figures = json.loads((work / "table.seed1.json").read_text(encoding="utf-8"))
    assert list(figures["systems"]) == ["mask-words", "gaussian"] and figures["election"]["rules"]
    assert "--arch lstm_gaussian" in figures["options"]["gaussian"] and str(tmp_path) not in str(figures)
    assert figures["versions"]["torch"] == torch.__version__
    for system, found in figures["systems"].items():
        assert f"{found['valid_perplexity']:.2f}" in table and found["valid_perplexities"], system
    hypotheses = lines_of(work / "gaussian.seed1" / "beam5", "test", "hyp")
    assert len(hypotheses) == len(lines_of(work / "data" / "text", "test", "es"))


def test_a_dry_run_needs_no_torch(corpus_folder):
    tatoeba(corpus_folder)
    program = (
        "import sys\nfrom fairseq_attn_plugin.recipes.cli import main\n"
        "status = main(['tatoeba_election', '--dry-run'])\nprint(status, 'torch' in sys.modules)"
    )
    environment = {**os.environ, "DATA": str(corpus_folder), "DEVICE": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["0 False"], done.stderr


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_of_scores(tmp_path, capsys):
    score, to = tmp_path / "score", tmp_path / "table.md"
    score.write_text('{"score": 24.5, "signature": "nrefs:1"}')
    write_table("title", {"teacher": score, "gaussian": score}, None, to)
    lines = to.read_text(encoding="utf-8").splitlines()
    assert lines == capsys.readouterr().out.splitlines()
    assert lines[0] == "## title" and lines[-1] == "BLEU: `nrefs:1`"
    assert [cells(line) for line in lines[2:3] + lines[4:6]] == [
        ["system", "validation perplexity", "BLEU", "paper, BLEU"],
        ["teacher: additive attention", "", "24.50", "24.22"],
        ["`lstm_gaussian`, trained further", "", "24.50", ""],
    ]
    metrics = [{"name": name, "score": 20.0, "signature": "nrefs:1"} for name in ("BLEU", "chrF2", "TER")]
    score.write_text(json.dumps(metrics))
    write_table("title", {"teacher": score}, None, to)
    lines = to.read_text(encoding="utf-8").splitlines()
    assert cells(lines[2])[2:] == ["BLEU", "chrF2", "TER", "paper, BLEU"] and lines[-1] == "TER: `nrefs:1`"
    assert cells(lines[4]) == ["teacher: additive attention", "", "20.00", "20.00", "20.00", "24.22"]


@pytest.mark.parametrize(
    ("log", "perplexity"),
    [
        (
            "x | INFO | valid | epoch 001 | valid on 'valid' subset | loss 3.5 | ppl 9.5 | num_updates 1\n"
            "x | INFO | valid | epoch 002 | valid on 'valid' subset | loss 3.6 | ppl 9.4 | num_updates 2\n",
            "9.50",
        ),
        ("it was cut off\n", ""),
    ],
)
def test_perplexity_of_the_table(tmp_path, log, perplexity):
    """That of the checkpoint with the lowest loss; a log without epochs leaves its cell empty."""
    score, file, to = tmp_path / "score", tmp_path / "train.log", tmp_path / "table.md"
    score.write_text('{"score": 24.5, "signature": "nrefs:1"}')
    file.write_text(log)
    write_table("title", {"teacher": score}, None, to, {"teacher": file})
    assert cells(to.read_text(encoding="utf-8").splitlines()[4])[1:3] == [perplexity, "24.50"]


def test_table_reports_what_is_missing(tmp_path):
    score, election = tmp_path / "score", tmp_path / "election"
    score.write_text('{"score": 24.5, "signature": "nrefs:1"}')
    election.write_text('{"rules": [{"rule": "log2", "mean_k": 2.5}]}')
    for content, message in (
        (None, "has no satisfaction.k-borda: run its stage again"),
        ("{", "is not JSON"),
        ("[]", "has no BLEU"),
        ('{"score": "high"}', "has no score"),
    ):
        if content is not None:
            score.write_text(content)
        with pytest.raises(CorpusError, match=message):
            write_table("x", {"teacher": score}, election, tmp_path / "table")
    assert not (tmp_path / "table").exists()
