"""Recipes of translation: a stage runs once, a training continues with its own options alone, real runs."""

import re
import shutil
from pathlib import Path

import pytest
from recipe_corpora import MINIATURES, PAIRS, TINY, complaint, files_of, multi30k, value

from fairseq_attn_plugin.recipes.commands import Shell
from fairseq_attn_plugin.recipes.data_folder import DataFolder
from fairseq_attn_plugin.recipes.tables import read_scores


@pytest.fixture
def settings(corpus_folder, tmp_path):
    """Of multi30k, with a miniature of it."""
    multi30k(corpus_folder)
    return {"DATA": corpus_folder, "OUT": tmp_path / "out", "BPE": "none", "ARCH": "lstm"}


def test_finished_stages_do_not_run_again(recipe, tools, settings, tmp_path):
    first = recipe("multi30k", **settings)
    names = [command[0] for command in tools.commands]
    assert names == ["fairseq-preprocess", "fairseq-train", "fairseq-generate", "sacrebleu", "sacrebleu"]
    before = files_of(tmp_path / "out")
    again = recipe("multi30k", **settings)
    assert len(tools.commands) == 5 and files_of(tmp_path / "out") == before
    assert len(re.findall(r"^\[multi30k\] .*done before", again.stdout, re.MULTILINE)) == 4
    for out in (first.stdout, again.stdout):
        assert out.count('{"name": "BLEU", "score": 12.5, "signature": "tok:none"}') == 2, (
            "scores are printed in any case"
        )
    run = tmp_path / "out" / "de-en.none" / "lstm.seed1"
    assert (run / "test.hyp").read_text() == "".join(f"word {number}\n" for number in range(12))
    assert str(run / "test.detokenized.json") in again.stdout


def test_other_generate_options_or_another_model_translate_again(recipe, tools, settings, tmp_path):
    recipe("multi30k", **settings)
    recipe("multi30k", "generate", "score", GENERATE_OPTIONS="--beam 3", **settings)
    assert tools.count("fairseq-generate") == 2 and tools.commands[-1][0] == "fairseq-generate"
    (best,) = (tmp_path / "out").rglob("checkpoint_best.pt")
    best.write_text("another")
    recipe("multi30k", "generate", GENERATE_OPTIONS="--beam 3", **settings)
    assert tools.count("fairseq-generate") == 3
    (reference,) = (tmp_path / "out").rglob("text/test.en")
    reference.write_text(reference.read_text().replace("the", "a"))
    recipe("multi30k", "score", **settings)
    assert tools.count("sacrebleu") == 4


def test_a_split_and_topk_have_files_of_their_own(recipe, tools, settings, tmp_path):
    settings.update(ARCH="lstm_latent_small", OBJECTIVE="marginal")
    recipe("multi30k", **settings)
    recipe("multi30k", "generate", "score", SPLIT="valid", TOPK=5, **settings)
    run = tmp_path / "out" / "de-en.none" / "lstm_latent_small.marginal.seed1"
    assert (run / "top5" / "valid.tokenized.json").is_file() and (run / "test.tokenized.json").is_file()
    assert value(tools.commands[-3], "--latent-topk") == "5" and value(tools.commands[-3], "--gen-subset") == "valid"


def test_a_failed_command_is_one_line_and_leaves_no_stamp(recipe, tools, settings, tmp_path):
    recipe("multi30k", "prepare", **settings)
    messages = {
        "fairseq-train": "fairseq-train failed; the same command continues from the last checkpoint in ",
        "fairseq-generate": "fairseq-generate failed with ",
        "sacrebleu": "sacrebleu failed",
    }
    for tool, message in messages.items():
        tools.fails = tool
        assert message in complaint(recipe("multi30k", check=False, **settings))
        stage = {"fairseq-train": "train", "fairseq-generate": "test.generate", "sacrebleu": "test.score"}[tool]
        assert not list((tmp_path / "out").rglob(stage + ".done"))
    assert not list((tmp_path / "out").rglob("*tokenized.json*"))
    tools.fails = ""
    recipe("multi30k", **settings)


def test_a_training_without_a_best_checkpoint_is_refused(recipe, tools, settings, monkeypatch):
    monkeypatch.setattr(tools, "fairseq_train", lambda words, stdout: None)
    recipe("multi30k", "prepare", **settings)
    line = complaint(recipe("multi30k", "train", check=False, **settings))
    assert "left no checkpoint_best.pt" in line and "--no-save" in line


def test_other_options_of_a_training_are_refused(recipe, tools, settings, tmp_path):
    recipe("multi30k", "prepare", "train", **settings)
    (run,) = (path.parent for path in (tmp_path / "out").rglob("checkpoint_last.pt"))
    before = files_of(run)
    line = complaint(recipe("multi30k", "train", "--", "--dropout", "0.5", check=False, **settings))
    assert "holds a training with other options (was: --dropout 0.2; now: --dropout 0.5): choose another OUT" in line
    (dictionary,) = (tmp_path / "out").rglob("bin/dict.de.txt")
    content = dictionary.read_text()
    dictionary.write_text("other 1\n")
    assert "dict.de.txt" in complaint(recipe("multi30k", "train", check=False, **settings))
    dictionary.write_text(content)
    assert files_of(run) == before, "the finished training is untouched"
    recipe("multi30k", "train", "--", "--max-epoch", "30", **settings)
    assert tools.count("fairseq-train") == 2, "a longer training continues"
    assert tools.commands[-1][-3:] == ["--max-epoch", "30", "--cpu"]


def test_an_interrupted_training_continues(recipe, tools, settings, tmp_path):
    recipe("multi30k", "prepare", "train", **settings)
    (done,) = (tmp_path / "out").rglob("train.done")
    done.unlink()
    assert "] train: continuing " in recipe("multi30k", "train", **settings).stdout
    assert done.is_file() and tools.count("fairseq-train") == 2


def test_stamps_are_those_of_earlier_versions(recipe, tools, settings, tmp_path):
    """Folders that earlier versions of the recipes have left are taken for what they are."""
    recipe("multi30k", "prepare", "train", **settings)
    run = tmp_path / "out" / "de-en.none" / "lstm.seed1"
    options = (run / "train.done").read_text()
    assert options.startswith("--arch lstm --encoder-embed-dim 256 ") and options.endswith(" --no-epoch-checkpoints\n")
    lines = (run / "train.options").read_text().split("\n")
    assert lines[:2] == ["", "--arch lstm"] and lines[-1] == "" and "--seed 1" in lines
    assert [line.split(" ")[2] for line in lines[-3:-1]] == ["dict.de.txt", "dict.en.txt"]
    shutil.copy(run / "train.options", tmp_path / "options")
    assert "done before" in recipe("multi30k", "train", **settings).stdout


def test_a_teacher_guides_with_data_of_the_training(recipe, tools, settings, tmp_path):
    settings["ARCH"] = "attn_lstm_small"
    recipe("multi30k", "prepare", "train", **settings)
    (teacher,) = (tmp_path / "out").rglob("checkpoint_best.pt")
    guided = {**settings, "TEACHER": teacher}
    recipe("multi30k", "train", **guided)
    run = tmp_path / "out" / "de-en.none" / "attn_lstm_small.guided.seed1"
    assert tools.commands[-1][1] == str(run / "bin")
    assert (run / "bin" / "dict.de.txt").is_symlink() and (run / "bin" / "train.align").is_file()
    assert not list((tmp_path / "out" / "de-en.none" / "data").rglob("*.align")), "the common data stay as they were"
    assert "done before" in recipe("multi30k", "train", **guided).stdout
    assert tools.count("teacher-alignments") == 2
    # interrupted between the two splits
    for path in (run / "bin" / "done", run / "bin" / "valid.align", run / "train.done"):
        path.unlink()
    recipe("multi30k", "train", **guided)
    assert (run / "bin" / "done").exists() and (run / "bin" / "valid.align").is_file()
    # a teacher that was trained further is another one
    with open(teacher, "ab") as stream:
        stream.write(b" ")
    line = complaint(recipe("multi30k", "train", check=False, **guided))
    assert "other options" in line and teacher.name in line
    # an attempt that fails leaves no stamp of the alignments before it
    for path in (run / "checkpoint_last.pt", run / "train.done"):
        path.unlink()
    tools.fails = "teacher-alignments"
    recipe("multi30k", "train", check=False, **guided)
    assert not (run / "bin" / "done").exists()


def test_data_are_complete_or_absent(recipe, tools, settings, tmp_path):
    tools.fails = "fairseq-preprocess"
    done = recipe("multi30k", "prepare", check=False, **settings)
    assert done.returncode == 1
    data = DataFolder(tmp_path / "out" / "de-en.none", Shell("x"), None)
    assert not data.path.exists() and (data.work / "data.partial").is_dir()


@pytest.mark.parametrize(
    ("name", "arch", "bpe", "size"),
    [
        ("multi30k", "lstm", "sentencepiece", 100),
        ("wmt16_en_ro", "lstm_adm", "subword-nmt", 60),
        ("iwslt15_en_vi", "lstm_adm_aqt", "none", 0),
        ("tatoeba", "lstm_soft", "subword-nmt", 60),
        ("iwslt14_de_en", "lstm_latent", "none", 0),
    ],
)
def test_recipe_runs(name, arch, bpe, size, recipe, corpus_folder, tmp_path):
    MINIATURES[name](corpus_folder)
    out = tmp_path / "out"
    settings = {"DATA": corpus_folder, "OUT": out, "BPE": bpe, "BPE_SIZE": size, "ARCH": arch}
    recipe(name, "--", *TINY, "--max-update", "2", GENERATE_OPTIONS="--max-len-b 12", **settings)
    (run,) = (path.parent for path in out.rglob("checkpoint_best.pt"))
    references = len((run.parent / "data" / "text" / ("test." + PAIRS[name][1])).read_text().splitlines())
    hypotheses = (run / "test.hyp").read_text(encoding="utf-8").splitlines()
    assert len(hypotheses) == references >= 10
    assert not any("@@" in line or "\u2581" in line for line in hypotheses), "BPE is undone"
    scores = {path.name: read_scores(path) for path in run.glob("*.json")}
    tokenized = scores["test.tokenized.json"]
    assert list(tokenized) == ["BLEU", "chrF2", "TER"]
    assert "tok:none" in tokenized["BLEU"]["signature"]
    for metric in ("BLEU", "chrF2"):
        assert ("case:lc" in tokenized[metric]["signature"]) == (name in ("multi30k", "iwslt14_de_en"))
    if name == "iwslt15_en_vi":
        assert list(scores) == ["test.tokenized.json"]
    else:
        assert "tok:13a" in scores["test.detokenized.json"]["BLEU"]["signature"]


def test_a_training_continues_and_is_guided(recipe, settings, tmp_path):
    """With fairseq's own commands: the second call does the second update only; a teacher of another recipe run."""
    settings.update(ARCH="attn_lstm_small", SEED=2)  # the attention of some seeds is on the end alone, untrained
    whole = [*TINY, "--max-tokens", "2000"]  # one batch an epoch
    recipe("multi30k", "prepare", "train", "--", *whole, "--max-update", "1", **settings)
    (log,) = (tmp_path / "out").rglob("train.log")
    recipe("multi30k", "train", "--", *whole, "--max-update", "2", **settings)
    begun = re.findall(r"epoch (\d+) \| valid on .* \| num_updates (\d+)", log.read_text(encoding="utf-8"))
    assert begun == [("001", "1"), ("002", "2")]
    (teacher,) = (tmp_path / "out").rglob("checkpoint_best.pt")
    guided = recipe("multi30k", "train", "--", *TINY, "--max-update", "2", TEACHER=teacher, **settings)
    assert "alignment_loss" in guided.stdout + guided.stderr
    assert list(Path(teacher).parent.parent.glob("*.guided.seed2/bin/train.align*"))
