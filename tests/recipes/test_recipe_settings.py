"""Settings: every mistake is one line that names the variable or option, and the manual names every variable."""

import re

import pytest
from recipe_corpora import complaint

from fairseq_attn_plugin.recipes import datasets
from fairseq_attn_plugin.recipes.cli import main, manual
from fairseq_attn_plugin.recipes.errors import OptionError
from fairseq_attn_plugin.recipes.settings import Variables

MISTAKES = [
    ("multi30k", ["translate"], {}, ["'translate'", "prepare, train, generate, score"]),
    ("multi30k", ["--quick"], {}, ["'--quick'", "--dry-run"]),
    ("multi30k", [], {"SRC": "fr"}, ["SRC=fr", "de, en"]),
    ("iwslt15_en_vi", [], {"TGT": "de"}, ["TGT=de", "en, vi"]),
    ("wmt16_en_ro", [], {"SRC": "ro"}, ["'ro'", "TGT must be en"]),
    ("multi30k", [], {"BPE": "wordpiece"}, ["BPE=wordpiece", "subword-nmt, sentencepiece or none"]),
    ("multi30k", [], {"BPE_SIZE": "8k"}, ["BPE_SIZE=8k", "whole number"]),
    ("multi30k", [], {"CUT": "-1"}, ["CUT=-1", "0: no sentence is cut"]),
    ("multi30k", [], {"SEED": "one"}, ["SEED=one"]),
    ("multi30k", [], {"JOBS": "0"}, ["JOBS=0", "above 0"]),
    ("multi30k", [], {"SPLIT": "dev"}, ["SPLIT=dev", "valid or test"]),
    ("multi30k", [], {"DEVICE": "gpu"}, ["DEVICE=gpu", "auto, cpu or cuda"]),
    ("multi30k", [], {"DATA": "/no/such/folder"}, ["DATA=/no/such/folder", "test_2016_flickr"]),
    ("multi30k", [], {"ARCH": "lstm/soft"}, ["ARCH='lstm/soft'"]),
    ("multi30k", ["train"], {}, ["run the prepare stage first"]),
    ("multi30k", ["generate"], {}, ["run the prepare stage first"]),
    ("multi30k", ["score"], {}, ["run the generate stage first"]),
    ("multi30k", ["train", "--", "--arch", "lstm"], {}, ["--arch", "ARCH=lstm_adm"]),
    ("multi30k", ["train", "--", "--seed=2"], {}, ["--seed=2", "SEED=1"]),
    ("multi30k", ["train", "--", "--save-dir=x"], {}, ["--save-dir=x", "OUT="]),
    ("multi30k", ["train", "--", "-s", "de"], {}, ["-s", "SRC, TGT"]),
    ("tatoeba", [], {"PAIR": "deu-eng"}, ["PAIR=deu-eng", "SRC=de TGT=en"]),
    ("tatoeba", [], {"PAIR": "deu-fra"}, ["PAIR=deu-fra is unknown", "deu-eng"]),
    ("wmt16_en_ro", [], {"CORPORA": "all"}, ["CORPORA=all", "europarl or europarl setimes"]),
    ("iwslt15_en_vi", [], {"UPDATES": "many"}, ["UPDATES=many", "12 or more"]),
    ("wmt16_en_ro", [], {"UPDATES": "11"}, ["UPDATES=11", "12 or more"]),
    ("iwslt14_de_en", [], {"OBJECTIVE": "elbo"}, ["OBJECTIVE=elbo is unknown", "soft, marginal", "dirichlet"]),
    (
        "iwslt14_de_en",
        [],
        {"ARCH": "lstm_soft", "OBJECTIVE": "marginal"},
        ["OBJECTIVE=marginal", "ARCH=lstm_latent", "OBJECTIVE=soft with ARCH=lstm_soft"],
    ),
    ("iwslt14_de_en", [], {"LONGEST": "long"}, ["LONGEST=long"]),
    ("iwslt14_de_en", [], {"TOPK": "0"}, ["TOPK=0", "above 0"]),
    ("iwslt14_de_en", ["--", "--objective=soft"], {}, ["--objective=soft", "OBJECTIVE=elbo-enum"]),
    ("multi30k", [], {"TOPK": "5"}, ["TOPK=5", "ARCH=lstm_latent", "ARCH=lstm_adm"]),
    (
        "multi30k",
        [],
        {"TOPK": "5", "ARCH": "lstm_latent_first_order", "OBJECTIVE": "first-order"},
        ["TOPK=5: first-order alignments"],
    ),
    ("multi30k", [], {"ARCH": "lstm", "BIAS": "markov"}, ["BIAS='markov'", "ARCH=lstm_soft"]),
    ("multi30k", [], {"ATTENTION": "a b"}, ["ATTENTION='a b'", "ATTENTION=structured"]),
    ("multi30k", [], {"TEACHER": "/no/such.pt"}, ["TEACHER=/no/such.pt", "checkpoint"]),
    ("multi30k", [], {"TEACHER": "x.pt", "ARCH": "lstm_agreement"}, ["x.pt", "one direction"]),
    ("multi30k", [], {"TEACHER_METHOD": "loo"}, ["TEACHER_METHOD=loo", "needs a TEACHER"]),
    ("multi30k", [], {"TEACHER": "/dev/null", "TEACHER_METHOD": "gold"}, ["TEACHER_METHOD=gold", "saliency"]),
    ("iwslt14_de_en", [], {"TEACHER": "x.pt", "OBJECTIVE": "soft"}, ["OBJECTIVE=soft", "TEACHER=x.pt"]),
    ("multi30k", [], {"ARCH": "lstm_agreement", "OBJECTIVE": "soft"}, ["OBJECTIVE=soft", "one direction"]),
    ("multi30k", ["--", "--criterion", "x"], {"TEACHER": "/dev/null"}, ["--criterion", "guided_alignment"]),
    (
        "iwslt14_de_en",
        [],
        {"ARCH": "lstm_latent_first_order"},
        ["OBJECTIVE=elbo-enum does not fit ARCH=lstm_latent_first_order: choose OBJECTIVE=first-order"],
    ),
    (
        "multi30k",
        [],
        {"ARCH": "lstm_latent", "OBJECTIVE": "first-order"},
        ["first-order does not fit ARCH=lstm_latent"],
    ),
    ("multi30k", [], {"ARCH": "lstm_latent_small"}, ["ARCH=lstm_latent_small needs an OBJECTIVE", "elbo-enum"]),
    ("tatoeba_election", ["train"], {}, ["'train'", "teacher, election, agent, mask, mask-words, gaussian"]),
    ("tatoeba_election", ["mask mask-words"], {}, ["'mask mask-words'"]),
    ("tatoeba_election", [], {"PAIRS": "half"}, ["PAIRS=half", "equal or all"]),
    ("tatoeba_election", [], {"ARCH": "lstm_soft"}, ["ARCH=lstm_soft", "leave ARCH out"]),
    ("tatoeba_election", [], {"TOPK": "5"}, ["TOPK=5", "leave TOPK out"]),
    ("tatoeba_election", ["--", "--seed", "2"], {}, ["--seed", "SEED=1"]),
    ("tatoeba_election", [], {"SYSTEMS": "teacher mak"}, ["SYSTEMS: mak", "election-model"]),
    ("tatoeba_election", [], {"BEAM": "0"}, ["BEAM=0", "above 0"]),
    ("tatoeba_election", [], {"EPOCHS": "few"}, ["EPOCHS=few", "above 0"]),
    ("tatoeba_election", [], {"MAX_NORMALIZE": "yes"}, ["MAX_NORMALIZE=yes", "0 or 1"]),
    ("tatoeba_election", [], {"EMBEDDINGS_SOURCE": "/dev/null"}, ["EMBEDDINGS_TARGET", "give both"]),
    ("tatoeba_election", [], {"TEACHER": "/no/such.pt"}, ["TEACHER=/no/such.pt", "not a file"]),
    ("tatoeba_election", ["teacher"], {}, ["run the prepare stage first"]),
    ("tatoeba_election", ["election"], {}, ["run the prepare stage first"]),
    ("tatoeba_election", ["agent"], {}, ["run the prepare stage first"]),
    ("tatoeba_election", ["gaussian"], {}, ["run the teacher stage first"]),
    ("tatoeba_election", ["score"], {}, ["run the generate stage first"]),
    ("tatoeba_election", ["table"], {}, ["run the score stage first"]),
    ("polarity_han", ["score"], {}, ["'score'", "prepare, train, evaluate, baseline, table"]),
    ("polarity_han", [], {"FOLDS": "0 10"}, ["FOLDS: 10", "0 to 9"]),
    ("polarity_han", [], {"FOLDS": " "}, ["FOLDS is empty"]),
    ("polarity_han", [], {"MODELS": "han lstm"}, ["MODELS: lstm", "han_flat"]),
    ("polarity_han", [], {"DATA": "/no/such/folder"}, ["DATA=/no/such/folder", "polarity.jsonl"]),
    ("polarity_han", [], {"EMBEDDINGS": "/no/file"}, ["EMBEDDINGS=/no/file"]),
    ("polarity_han", [], {"SEED": "one"}, ["SEED=one"]),
    ("polarity_han", [], {"DEVICE": "gpu"}, ["DEVICE=gpu"]),
    ("polarity_han", [], {"SPLIT": "dev"}, ["SPLIT=dev"]),
    ("polarity_han", ["train", "--", "--arch", "han"], {}, ["--arch", "MODELS"]),
    ("polarity_han", ["train", "--", "--task=x"], {}, ["--task=x", "set by the recipe"]),
    ("polarity_han", ["train"], {}, ["run the prepare stage first"]),
    ("polarity_han", ["evaluate"], {}, ["run the train stage first"]),
    ("polarity_han", ["baseline"], {}, ["run the prepare stage first"]),
    ("yelp2013_han", [], {"THRESHOLD": "few"}, ["THRESHOLD=few"]),
    ("leaderboard", [], {"SYSTEMS": "lstm_soft gru"}, ["SYSTEMS: gru", "lstm_adm"]),
    ("leaderboard", [], {"SYSTEMS": " "}, ["SYSTEMS is empty"]),
    ("leaderboard", [], {"SEEDS": "1 two"}, ["SEEDS: two", 'SEEDS="1 2 3"']),
    ("leaderboard", [], {"PAIRS": "deen"}, ["PAIRS: deen", 'PAIRS="de-en en-de"']),
    ("leaderboard", [], {"PAIRS": "de-fr"}, ["TGT=fr", "de, en"]),
    ("leaderboard", [], {"ARCH": "lstm"}, ["ARCH=lstm", "leave ARCH out"]),
    ("leaderboard", [], {"DATASET": "polarity_han"}, ["DATASET=polarity_han", "multi30k"]),
    ("leaderboard", [], {"DATASET": "leaderboard"}, ["DATASET=leaderboard", "tatoeba"]),
    ("leaderboard", [], {"LEADERBOARD_LOCK": "yes"}, ["LEADERBOARD_LOCK=yes", "whole number"]),
    ("leaderboard", [], {"PATIENCE": "few"}, ["PATIENCE=few"]),
    ("leaderboard", [], {"SYSTEMS_FILE": "/no/file"}, ["SYSTEMS_FILE=/no/file", "cannot be read"]),
    ("leaderboard", ["--", "--seed", "2"], {}, ["--seed", "SEED=1"]),
    ("toy_corpus", [], {"TRAIN": "0"}, ["TRAIN=0", "above 0"]),
    ("toy_corpus", [], {"SRC": "de"}, ["de", "vr, dm"]),
    ("multi40k", [], {}, ["unknown recipe 'multi40k'", "multi30k", "yelp2013_han"]),
]


@pytest.mark.parametrize(("name", "arguments", "environment", "parts"), MISTAKES)
def test_mistakes_are_one_line(name, arguments, environment, parts, recipe, tmp_path):
    line = complaint(recipe(name, *arguments, check=False, OUT=tmp_path, **environment))
    assert line.startswith(name + ": ")
    for part in parts:
        assert part in line


def test_a_folder_that_cannot_be_written_is_one_line(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    line = complaint(recipe("multi30k", "prepare", check=False, OUT=tmp_path / "file" / "out", DATA=tmp_path))
    assert str(tmp_path / "file") in line


def test_full_traces_on_request(monkeypatch, tmp_path):
    monkeypatch.setenv("FAIRSEQ_ATTN_TRACEBACK", "1")
    with pytest.raises(OptionError, match="SEED=x"):
        main(["multi30k"], {"SEED": "x", "OUT": str(tmp_path)})


def test_empty_variables_are_unset():
    variables = Variables({"A": "", "B": "2"}, {"A": "1", "B": "3", "C": "x"})
    assert [variables.text(name) for name in "ABC"] == ["1", "2", "x"]


@pytest.mark.parametrize(
    ("given", "direction"),
    [
        ({}, "en-es"),
        ({"SRC": "es"}, "es-en"),
        ({"TGT": "en"}, "es-en"),
        ({"TGT": "es"}, "en-es"),
        ({"SRC": "en"}, "en-es"),
    ],
)
def test_the_missing_language_follows_from_the_other(given, direction, recipe):
    out = recipe("tatoeba", "prepare", "--dry-run", **given).stdout
    assert f"] prepare: {direction}, BPE=" in out


@pytest.mark.parametrize("name", datasets.names())
def test_the_manual_names_the_variables_of_the_recipe(name):
    """The comment of the script; it may leave out variables that the recipe refuses or that few need."""
    block = re.search(r"nvironment variables \(default\):\n((?:  .*\n)+)", manual(name)).group(1)
    columns = re.findall(r"^  ([A-Z][A-Z0-9_]+(?:, [A-Z][A-Z0-9_]+)*) ", block, re.MULTILINE)
    documented = {variable for column in columns for variable in column.split(", ")}
    known = set(datasets.load(name).all_defaults)
    rare = {"CUT", "LONGEST", "OBJECTIVE", "TOPK"}
    refused = {
        "tatoeba_election": {"ARCH", "ATTENTION", "BIAS"},
        "leaderboard": {
            "ARCH",
            "ATTENTION",
            "BIAS",
            "TEACHER",
            "TEACHER_METHOD",
            "SEED",
            "SRC",
            "TGT",
            "LEADERBOARD_LOCK",
        },
        "toy_corpus": {"CORPUS_URL"},
    }.get(name, set())
    assert known - rare - refused <= documented <= known


@pytest.mark.parametrize("name", datasets.names())
def test_defaults_of_the_manual_are_those_of_the_recipe(name):
    defaults = datasets.load(name).all_defaults
    checked = 0
    for variable, default in re.findall(r"^  ([A-Z_]+) .*\(([0-9a-z_]+)\)", manual(name), re.MULTILINE):
        if default not in ("none", "all"):
            assert defaults[variable] == default, variable
            checked += 1
    assert checked >= 2


def test_help_is_the_manual(recipe):
    for word in ("-h", "--help"):
        out = recipe("multi30k", "train", word, PAIR="wrong").stdout
        assert out.startswith("Multi30k: German-English captions") and "\n  SRC, TGT   de and en" in out
        assert "exec" not in out and "#" not in out
    assert "recipes: iwslt14_de_en, iwslt15_en_vi, leaderboard, multi30k" in recipe("--help").stdout


def test_options_after_the_dashes_are_not_those_of_the_recipe(shown, tmp_path):
    commands = shown("multi30k", "train", "--", "--help", "--dry-run", "all", OUT=tmp_path)
    assert commands[-1][-4:] == ["--help", "--dry-run", "all", "--cpu"]


def test_stages_run_in_the_given_order(shown, tmp_path):
    tools = [command[0] for command in shown("multi30k", "score", "train", OUT=tmp_path)]
    assert tools == ["sacrebleu", "sacrebleu", "mkdir", "fairseq-train"]
