"""The recipes: some run on miniatures with the real tools, one is killed; what all of them call, and mistakes."""

import fcntl
import json
import os
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import miniature_corpora as miniatures
import pytest
from recorded_recipes import NAMES, RECIPES, record

from fairseq_attn_plugin.commands import recipe

from cli import REPO, run_cli, start_cli

TINY = [*miniatures.TINY, "--max-update", "4"]
TINY_DOCUMENTS = "--word-embed-dim 8 --word-hidden-size 4 --sentence-hidden-size 4 --max-update 4".split()
FEW_UPDATES = """#!/bin/sh
case " $* " in *" --agent "*) set -- "$@" --updates 20 ;; esac
exec '%s/fairseq-attn' "$@"
"""
SINGLE = {
    "iwslt14_de_en": "de-en.subword-nmt14000",
    "multi30k": "de-en.subword-nmt8000",
    "toy_corpus": "vr-dm.subword-nmt1500",
}
# the recipes that are run with the real tools
CORPORA = {
    "multi30k": miniatures.multi30k,
    "iwslt14_de_en": miniatures.iwslt14_de_en,
    "tatoeba_election": miniatures.tatoeba,
    "toy_corpus": miniatures.toy,
    "polarity_han": miniatures.polarity_jsonl,
}


def start(name, folder, path, options, **variables):
    data, own = folder / "corpus", folder / "bin"
    if not data.exists():
        data.mkdir()
        CORPORA[name](data)
    tools = path.split(os.pathsep)[0]
    own.mkdir(exist_ok=True)
    if name == "tatoeba_election":
        (own / "fairseq-attn").write_text(FEW_UPDATES % tools)
        (own / "fairseq-attn").chmod(0o755)
    path = os.pathsep.join([str(own), tools, str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"PATH": path, "DATA": str(data), "OUT": str(folder / "out"), "DEVICE": "cpu", **variables}
    return start_cli("bash", RECIPES / f"{name}.sh", *options, env=given, cwd=folder, start_new_session=True)


def run(*args, **variables):
    process = start(*args, **variables)
    output = process.communicate(timeout=400)[0]
    assert process.returncode == 0, output[-4000:]
    return output


def check(name, folder, output):
    names = {path.name for path in miniatures.files_of(folder / "out")}
    if name.endswith("_han"):
        assert names >= {"checkpoint_best.pt", "test.json", "test.html", "prepared.json"}
        assert re.search(r"tfidf +accuracy \d+\.\d\d, standard deviation 0.00, 1 folds", output)
        return
    assert names >= {"checkpoint_best.pt", "test.hyp", "test.tokenized.json", "prepared.json"}
    assert '"name": "BLEU"' in output and '"name": "TER"' in output
    if name in SINGLE:
        (hypotheses,) = (folder / "out" / SINGLE[name]).rglob("test.hyp")
        target = SINGLE[name].split(".")[0].split("-")[1]
        references = folder / "out" / SINGLE[name] / "data" / "text" / f"test.{target}"
        assert len(hypotheses.read_text().split("\n")) == len(references.read_text().split("\n"))
        assert (hypotheses.parent / "test.detok.hyp").exists() == (name != "toy_corpus")
        assert (hypotheses.parent / "explore.html").is_file()


@pytest.mark.parametrize("name", [name for name in CORPORA if name != "multi30k"])
def test_a_recipe_runs_on_a_miniature(name, tmp_path, warm_path):
    documents = name.endswith("_han")
    options = TINY_DOCUMENTS if documents else TINY
    if name == "iwslt14_de_en":
        options = [*options, "--attention-hidden-dim", "8", "--max-update", "2"]
    variables = {"FOLDS": "1", "ARCH": "han_flat"} if documents else {}
    check(name, tmp_path, run(name, tmp_path, warm_path, options, **variables))


def test_the_other_recipes_call_what_the_tools_accept(tmp_path):
    commands = []
    for name in set(NAMES) - set(CORPORA):
        (tmp_path / name).mkdir()
        called = record(name, tmp_path / name).commands
        assert {words[0] for words in called} >= {"fairseq-attn", "fairseq-preprocess", "fairseq-train"}, name
        commands += [words for words in called if words[0] != "sacrebleu"]
    done = run_cli(REPO / "tests" / "docs" / "parse_commands.py", stdin=json.dumps(commands), cwd=REPO)
    assert json.loads(done.stdout) == [""] * len(commands)


def test_a_killed_recipe_ends_as_one_that_went_through_and_does_nothing_twice(tmp_path, warm_path):
    """``kill -9`` of all its processes, while fairseq-train runs."""
    options = [*miniatures.TINY, *"--max-epoch 2 --save-interval-updates 1 --keep-interval-updates 1".split()]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    check("multi30k", whole, run("multi30k", whole, warm_path, options))
    out = killed / "out" / SINGLE["multi30k"]
    run("multi30k", killed, warm_path, ["prepare"])
    cold = str(Path(sys.executable).parent)  # a fork of the warm server would live on
    process = start("multi30k", killed, cold, options)
    while not (out / "lstm_adm.seed1" / "checkpoint_last.pt").exists():
        assert process.poll() is None, process.communicate()[0][-3000:]
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (out / "lstm_adm.seed1" / "trained").exists()
    run("multi30k", killed, warm_path, options)
    for path in (whole / "out").rglob("*"):
        name = str(path.relative_to(whole))
        if re.search(r"/(text|segmented|bin)/.*(?<!\.log)$|\.hyp$|/codes$", name) and path.is_file():
            assert (killed / name).read_bytes() == path.read_bytes(), name
    assert not [path for path in out.rglob("*") if path.suffix in (".part", ".partial")]
    before = miniatures.files_of(killed / "out")
    run("multi30k", killed, warm_path, options)
    after = miniatures.files_of(killed / "out")
    made = {path.name for path, changed in after.items() if before.get(path) != changed}
    assert made <= {"test.tokenized.json", "test.detokenized.json", "data.lock"}


def test_preprocessing_does_not_disturb_that_of_another_process(tmp_path):
    """Each has a folder of its own; the first whole one is taken, the other is removed."""
    record("multi30k", tmp_path, "prepare")
    preprocess = tmp_path / "tools" / "fairseq-preprocess"
    other = tmp_path / "out" / SINGLE["multi30k"] / "data"
    shutil.rmtree(other / "bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fairseq-preprocess").write_text(f'#!/bin/sh\nmkdir {other}/bin && exec {preprocess} "$@"\n')
    (tmp_path / "bin" / "fairseq-preprocess").chmod(0o755)
    (other / "bin.part.1").mkdir()
    record("multi30k", tmp_path, "prepare", PATH=f"{tmp_path / 'bin'}:{tmp_path / 'tools'}:{os.defpath}")
    assert sorted(path.name for path in other.iterdir()) == ["bin", "bin.part.1"]
    assert not list((other / "bin").iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_one_process_works_in_the_folder_of_a_training(name, tmp_path):
    """Two would write each other's checkpoints and translations; a training whose recipe was killed is one, too."""
    record(name, tmp_path)
    (lock, *_) = sorted(tmp_path.rglob("lock"))
    with open(lock) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = record(name, tmp_path, check=False)
    assert done.returncode == 1 and done.stderr == f"{lock.parent}: another process works there; wait\n"
    assert lock.stat().st_size == 0 and record(name, tmp_path).commands
    shutil.rmtree(lock.parent)
    lock.parent.touch()  # a folder that cannot be made is no folder of another process
    done = record(name, tmp_path, check=False)
    assert done.returncode == 1 and done.stderr.endswith(": File exists\n")


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_short_and_names_its_variables(name):
    text = (RECIPES / f"{name}.sh").read_text(encoding="utf-8")
    lines = text.splitlines()
    header = "\n".join(line for line in lines[:20] if line.startswith("#"))
    assert len(lines) <= 70 and max(map(len, lines)) <= 120
    assert "set -euo pipefail" in lines and f"fairseq-attn recipe {name} " in header
    for variable in re.findall(r"\b([A-Z]+)=\$\{\1:-", text):
        assert re.search(rf"\b{variable}\b", header), variable


def test_variables_choose_the_experiment(tmp_path):
    chosen = {"SRC": "en", "TGT": "de", "ARCH": "lstm_soft", "SEED": "7", "DATA": "a b"}
    done = record("multi30k", tmp_path, "--dropout", "0.3", **chosen, PYTHONIOENCODING="latin-1")
    prepare, preprocess, train, generate, *_ = done.commands
    folder = f"{tmp_path}/out/en-de.subword-nmt8000"
    assert prepare[:2] == ["fairseq-attn", "prepare"] and prepare[-2:] == ["--data", "a b"]
    assert preprocess[1:5] == ["--source-lang", "en", "--target-lang", "de"]
    assert train[:4] == ["fairseq-train", f"{folder}/data/bin", "--user-dir", "fairseq_attn_plugin"]
    assert train[train.index("--arch") + 1] == "lstm_soft" and train[train.index("--seed") + 1] == "7"
    assert train[train.index("--save-dir") + 1] == f"{folder}/lstm_soft.seed7"
    assert train[-2:] == ["--dropout", "0.3"] and "--cpu" not in train + generate
    hypotheses = Path(folder, "lstm_soft.seed7", "test.hyp")
    assert hypotheses.read_text(encoding="utf-8") == "tokén s\n"  # in every locale
    on_cpu = record("multi30k", tmp_path, DEVICE="cpu").commands
    assert all("--cpu" in command for command in on_cpu if "--path" in command)
    assert [one[0] for one in record("multi30k", tmp_path, "prepare", SEED="8").commands] == ["fairseq-attn"]


def test_a_failed_command_ends_the_recipe(tmp_path):
    record("multi30k", tmp_path, "prepare")
    (tmp_path / "bin").mkdir()
    for tool in ("fairseq-train", "fairseq-attn"):
        (tmp_path / "bin" / tool).write_text("#!/bin/sh\ntest $1 = prepare\n")
        (tmp_path / "bin" / tool).chmod(0o755)
    done = record("multi30k", tmp_path, check=False, PATH=f"{tmp_path / 'bin'}:{tmp_path / 'tools'}:{os.defpath}")
    assert done.returncode == 1 and done.commands == []
    assert not list(tmp_path.rglob("trained")) and not list(tmp_path.rglob("test.hyp"))


@pytest.mark.parametrize(
    ("name", "variables", "said"),
    [
        ("multi30k", {"SRC": "fr"}, "multi30k: SRC=fr TGT=en: must be de and en, in either order"),
        ("iwslt15_en_vi", {"TGT": "en"}, "iwslt15_en_vi: SRC=en TGT=en: must be en and vi, in either order"),
        ("tatoeba", {"SRC": "de", "TGT": "es"}, "tatoeba: SRC=de TGT=es: must be en and the language of spa-eng"),
        ("tatoeba", {"TGT": "en"}, "tatoeba: SRC=en TGT=en: must be en and the language of spa-eng"),
        ("polarity_han", {"DEVICE": "gpu"}, "polarity_han: DEVICE=gpu: must be auto or cpu"),
        ("tatoeba_election", {"PAIRS": "some"}, "PAIRS=some SRC=en TGT=es DEVICE=auto: must be equal or all, en"),
    ],
)
def test_mistakes_are_one_line(name, variables, said, tmp_path):
    done = record(name, tmp_path, check=False, **variables)
    assert done.returncode == 1 and done.stderr.startswith(said) and done.stderr.count("\n") == 1
    assert done.commands == []


@pytest.mark.parametrize("name", ["multi30k", "polarity_han", "tatoeba_election"])
def test_a_training_with_other_options_needs_another_folder(name, tmp_path):
    record(name, tmp_path, "--dropuot", "0.3")
    record(name, tmp_path, "--dropout", "0.3")  # nothing had been trained by the first options
    for options in tmp_path.rglob("options"):
        (options.parent / "checkpoint_last.pt").touch()
    done = record(name, tmp_path, "--dropout", "0.4", check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("has options '--dropout 0.3', not '--dropout 0.4': choose another SEED or remove it\n")
    for options in tmp_path.rglob("options"):  # as docs/recipes.md says
        options.unlink()
        (options.parent / "trained").unlink()
    assert "fairseq-train" in {words[0] for words in record(name, tmp_path, "--max-epoch", "20").commands}


@pytest.mark.parametrize("name", NAMES)
def test_help_is_the_manual_and_runs_nothing(name, capsys):
    recipe.main([name, "--lr", "1", "--help"])
    assert capsys.readouterr().out == recipe.header(name)


@pytest.mark.parametrize("name", ["multi30k", "polarity_han", "tatoeba_election"])
def test_a_training_without_a_best_checkpoint_is_not_taken_for_a_finished_one(name, tmp_path):
    """fairseq-train --no-save ends well."""
    record(name, tmp_path)
    for best in tmp_path.rglob("checkpoint_best.pt"):
        best.unlink()
        (best.parent / "trained").unlink()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fairseq-train").symlink_to("/bin/true")
    record(name, tmp_path, "--no-save", PATH=f"{tmp_path / 'bin'}:{tmp_path / 'tools'}:{os.defpath}")
    assert not list(tmp_path.rglob("trained"))


@pytest.mark.parametrize("name", ["multi30k", "polarity_han", "tatoeba_election"])
def test_a_training_on_other_data_is_not_taken_for_one_on_these(name, tmp_path):
    """fairseq-train refuses the checkpoint of another vocabulary, or has nothing to do."""

    def called():
        words = [" ".join(command) for command in record(name, tmp_path).commands]
        tools = ["fairseq-train", "fairseq-attn classify" if name.endswith("_han") else "fairseq-generate"]
        tools += ["python3"] if name == "polarity_han" else []  # TF-IDF
        return {any(line.startswith(tool) for line in words) for tool in tools}

    assert called() == {True} and called() == {False}
    for folder in tmp_path.rglob("data/bin"):
        shutil.rmtree(folder)
    assert called() == {True} and called() == {False}
