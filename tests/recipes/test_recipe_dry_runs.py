"""A dry run shows every command with its options and writes nothing."""

import itertools
import re
from pathlib import Path

import pytest
from recipe_corpora import PAIRS, tool_of, value

OBJECTIVES = ["soft", "marginal", "topk-marginal", "sparse-marginal", "hard-enum", "hard-reinforce", "elbo-enum",
              "sparse-elbo",
              "elbo-reinforce", "elbo-gumbel", "elbo-sum-and-sample", "wake-sleep", "dirichlet"]  # fmt: skip
ELECTION_SYSTEMS = {
    "teacher": "lstm_soft",
    "mask": "lstm_gaussian",
    "mask-words": "lstm_election",
    "gaussian": "lstm_gaussian",
    "election-model": "lstm_election",
}


def only(commands, tool):
    (command,) = (command for command in commands if command[0] == tool)
    return command


@pytest.mark.parametrize("bpe", ["subword-nmt", "sentencepiece", "none"])
@pytest.mark.parametrize(("name", "direction"), [(n, d) for n in PAIRS for d in itertools.permutations(PAIRS[n])])
def test_shows_every_command(name, direction, bpe, shown, tmp_path):
    source, target = direction
    for arch in ("lstm_adm", "lstm"):
        settings = {"SRC": source, "TGT": target, "BPE": bpe, "ARCH": arch, "OUT": tmp_path}
        commands = shown(name, "--", "--max-epoch", "2", **settings)
        assert not list(tmp_path.iterdir()), "a dry run writes nothing"
        names = [command[0] for command in commands]
        assert {"fairseq-preprocess", "sacrebleu"} <= set(names)
        assert ["#", "fetch"] in [command[:2] for command in commands]
        training, generation = only(commands, "fairseq-train"), only(commands, "fairseq-generate")
        assert value(training, "--source-lang") == source
        assert value(training, "--target-lang") == target
        assert value(training, "--arch") == arch
        assert training[-3:] == ["--max-epoch", "2", "--cpu"], "options after -- come last"
        assert ("--encoder-bidirectional" in training) == (arch == "lstm")
        assert value(generation, "--beam") == "10"
        assert ("--remove-bpe" in generation) == (bpe != "none")
        assert ("subword-nmt" in names) == (bpe == "subword-nmt")
        segmentation = {"subword-nmt": ("subword-nmt", 7), "sentencepiece": ("apply", 6), "none": ("cp", 6)}[bpe]
        assert sum(segmentation[0] in command[:2] for command in commands) == segmentation[1]


def test_paper_sizes_of_word_vocabularies(shown, tmp_path):
    for source, target, sizes in (("en", "vi", ["17192", "7710"]), ("vi", "en", ["7710", "17192"])):
        commands = shown("iwslt15_en_vi", "prepare", SRC=source, TGT=target, OUT=tmp_path)
        command = only(commands, "fairseq-preprocess")
        assert [value(command, option) for option in ("--nwordssrc", "--nwordstgt")] == sizes


def test_options_of_the_user_replace_whole_groups(shown, tmp_path):
    """fairseq refuses an option of a scheduler or criterion that is not the chosen one."""
    extra = ["--criterion", "cross_entropy", "--lr-scheduler=inverse_sqrt", "--batch-size", "8"]
    training = only(shown("multi30k", "train", "--", *extra, OUT=tmp_path), "fairseq-train")
    assert not {"--label-smoothing", "--force-anneal", "--max-tokens"} & set(training)
    assert "--lr" in training
    training = only(shown("multi30k", "train", "--", "--optimizer", "sgd", OUT=tmp_path), "fairseq-train")
    assert "--lr" not in training and {"--label-smoothing", "--force-anneal", "--max-tokens"} <= set(training)
    training = only(shown("multi30k", "train", "--", "--optimizer", "fused_adam", OUT=tmp_path), "fairseq-train")
    assert value(training, "--lr") == "3e-3"


@pytest.mark.parametrize("name", ["multi30k", "tatoeba"])
def test_rate_and_batches_of_the_results(shown, tmp_path, name):
    training = only(shown(name, "train", OUT=tmp_path), "fairseq-train")
    assert [value(training, option) for option in ("--lr", "--max-tokens")] == ["3e-3", "1000"]


def test_schedule_of_the_tutorial(shown, tmp_path):
    training = only(shown("iwslt15_en_vi", "train", OUT=tmp_path, UPDATES=12000), "fairseq-train")
    assert value(training, "--update2lr") == '{"1":0.001,"9000":0.0005,"10000":0.00025,"11000":0.000125}'
    training = only(shown("wmt16_en_ro", "train", OUT=tmp_path, UPDATES=100), "fairseq-train")
    assert value(training, "--update2lr") == '{"1":1,"74":0.5,"82":0.25,"90":0.125}'
    assert value(training, "--max-update") == "100"


@pytest.mark.parametrize("name", ["iwslt15_en_vi", "wmt16_en_ro"])
def test_models_of_the_density_matrix_paper(name, shown, tmp_path):
    for arch in ("lstm_adm", "lstm_adm_aqt", "lstm_soft"):
        training = only(shown(name, "train", ARCH=arch, OUT=tmp_path), "fairseq-train")
        assert value(training, "--output-layer") == "linear" and value(training, "--forget-bias") == "1"
        assert ("--attention-score-gain" in training) == (arch != "lstm_adm_aqt"), "its score is additive"
    assert "--output-layer" not in only(shown(name, "train", ARCH="lstm", OUT=tmp_path), "fairseq-train")


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["multi30k", "iwslt14_de_en"])
def test_objectives_replace_the_criterion(name, objective, shown, tmp_path):
    """The options of every objective, a folder for each, and one more for translating with fewer alignments."""
    arch = "lstm_latent_first_order_small" if objective == "first-order" else "lstm_latent_small"
    settings = {"ARCH": arch, "OBJECTIVE": objective, "BPE_SIZE": 2000, "OUT": tmp_path}
    fewer = objective != "first-order"
    commands = shown(name, "train", "generate", **settings, **({"TOPK": 5} if fewer else {}))
    training, generation = only(commands, "fairseq-train"), only(commands, "fairseq-generate")
    assert value(training, "--criterion") == "latent_alignment"
    assert value(training, "--objective") == objective
    assert "--label-smoothing" not in training
    prior_only = objective in ("soft", "first-order", "hard-enum", "hard-reinforce") or objective.endswith("marginal")
    assert value(training, "--latent-posterior") == ("False" if prior_only else None)
    assert value(training, "--attention-normalizer") == ("sparsemax" if objective == "sparse-marginal" else None)
    assert value(training, "--posterior-normalizer") == ("sparsemax" if objective == "sparse-elbo" else None)
    assert value(training, "--num-samples") == ("5" if objective == "wake-sleep" else None)
    assert value(training, "--gumbel-tau") == ("0.1" if objective == "elbo-gumbel" else None)
    epoch = {"multi30k": "517", "iwslt14_de_en": "26700"}[name] if objective == "dirichlet" else None
    assert value(training, "--soft-updates") == value(training, "--kl-warmup-updates") == epoch
    folder = tmp_path / "de-en.subword-nmt2000" / f"{arch}.{objective}.seed1"
    assert value(training, "--save-dir") == str(folder)
    assert value(generation, "--path") == str(folder / "checkpoint_best.pt")
    assert value(generation, "--results-path") == str(folder / "top5" if fewer else folder)
    assert value(generation, "--latent-topk") == ("5" if fewer else None)
    paper = name == "iwslt14_de_en"
    assert value(training, "--best-checkpoint-metric") == ("bound" if paper else None)
    penalties = [value(generation, option) for option in ("--wu-penalty", "--eos-norm")]
    assert penalties == (["1", "3"] if paper else [None, None])
    assert ("--latent-topk-feed" in generation) == (name == "iwslt14_de_en"), "as the paper's code has it"
    assert "--latent-topk" not in only(shown(name, "generate", **settings), "fairseq-generate")


def test_soft_alignment_of_other_models_has_no_posterior_option(shown, tmp_path):
    training = only(shown("multi30k", "train", ARCH="lstm_soft", OBJECTIVE="soft", OUT=tmp_path), "fairseq-train")
    assert value(training, "--objective") == "soft" and "--latent-posterior" not in training


def test_attention_bias_teacher_and_agreement_have_options_and_folders(shown, recipe, tmp_path):
    def training(name="multi30k", **environment):
        words = only(shown(name, "train", OUT=tmp_path, **environment), "fairseq-train")
        return words, Path(value(words, "--save-dir")).name

    words, folder = training(ARCH="attn_lstm_small", ATTENTION="structured", BIAS="position,markov")
    assert value(words, "--attention") == "structured"
    assert value(words, "--attention-bias") == "position,markov"
    assert folder == "attn_lstm_small.structured.position,markov.seed1"
    words, folder = training(ARCH="attn_lstm_small", TEACHER="/teacher.pt")
    assert value(words, "--criterion") == "guided_alignment" and "--load-alignments" in words
    assert value(words, "--label-smoothing") == "0.1", "with the smoothing of the recipe"
    assert words[1] == str(tmp_path / "de-en.subword-nmt8000" / folder / "bin")
    assert folder == "attn_lstm_small.guided.seed1"
    out = recipe("multi30k", "train", "--dry-run", OUT=tmp_path, ARCH="attn_lstm_small", TEACHER="/teacher.pt").stdout
    made = re.findall("teacher.alignments .*/bin --path /teacher.pt --gen-subset (train|valid) --into-data", out)
    assert made == ["train", "valid"]
    assert "--method" not in out
    by_posterior = {"ARCH": "attn_lstm_small", "TEACHER": "/teacher.pt", "TEACHER_METHOD": "posterior"}
    assert training(**by_posterior)[1] == "attn_lstm_small.guided-posterior.seed1"
    out = recipe("multi30k", "train", "--dry-run", OUT=tmp_path, **by_posterior).stdout
    assert len(re.findall("--into-data --overwrite --method posterior", out)) == 2
    words, _ = training(ARCH="lstm_agreement_small")
    assert value(words, "--criterion") == "agreement" and value(words, "--label-smoothing") == "0.1"
    for settings, criterion in (
        ({"TEACHER": "/teacher.pt", "ARCH": "lstm_soft"}, "guided_alignment"),
        ({"ARCH": "lstm_agreement"}, "agreement"),
        ({"ARCH": "lstm_soft"}, "label_smoothed_cross_entropy"),
        ({"ARCH": "lstm"}, "label_smoothed_cross_entropy"),
    ):
        words, _ = training("iwslt14_de_en", **settings)
        assert value(words, "--criterion") == criterion and "--objective" not in words
        assert "--best-checkpoint-metric" not in words, "there is no bound"


def test_dropout_of_structured_attention_is_that_of_its_paper(shown, tmp_path):
    dropout = {
        arch: value(only(shown("multi30k", "train", ARCH=arch, OUT=tmp_path), "fairseq-train"), "--dropout")
        for arch in ("lstm_structured", "lstm_sigmoid", "lstm_soft")
    }
    assert dropout == {"lstm_structured": "0.3", "lstm_sigmoid": "0.3", "lstm_soft": "0.2"}


def test_papers_settings_of_latent_alignment(shown, tmp_path):
    commands = shown("iwslt14_de_en", OUT=tmp_path)
    training = " ".join(only(commands, "fairseq-train"))
    for options in ("--arch lstm_latent --", "--objective elbo-enum --", "--batch-size 6 --", "--sentence-avg --",
                    "--optimizer adam --lr 3e-4 --", "--clip-norm 5 --", "--dropout 0.3 --", "--max-epoch 30 --",
                    "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --"):  # fmt: skip
        assert options in training
    assert sum(command[:2] == ["#", "drop"] and "125" in command for command in commands) == 1
    assert [value(command, "--symbols") for command in commands if "--symbols" in command] == ["14000"]


def test_folders_of_a_corpus_and_of_its_sizes(shown, tmp_path):
    training = only(shown("tatoeba", "train", PAIR="vie-eng", TGT="en", SEED=3, OUT=tmp_path), "fairseq-train")
    assert value(training, "--save-dir") == str(tmp_path / "vi-en.subword-nmt8000" / "lstm_adm.seed3")
    default = value(only(shown("tatoeba", "train", PAIR="vie-eng"), "fairseq-train"), "--save-dir")
    assert default.endswith("/out/tatoeba-vie-eng/en-vi.subword-nmt8000/lstm_adm.seed1")


@pytest.mark.parametrize(("pairs", "folder"), [("equal", "en-es.equal.none"), ("all", "en-es.all.subword-nmt8000")])
def test_election_shows_every_command(pairs, folder, shown, tmp_path):
    settings = {"ARCH_OPTIONS": "--encoder-layers 1", "EMBEDDINGS_SOURCE": "a.vec", "EMBEDDINGS_TARGET": "b.vec"}
    commands = shown("tatoeba_election", "--", "--max-epoch", "2", OUT=tmp_path, PAIRS=pairs, BEAM=3, **settings)
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    work = tmp_path / folder
    trainings = [command for command in commands if command[0] == "fairseq-train"]
    assert [value(command, "--arch") for command in trainings] == list(ELECTION_SYSTEMS.values())
    teacher = work / "teacher.seed1"
    for command, system in zip(trainings, ELECTION_SYSTEMS):
        assert value(command, "--save-dir") == str(work / (system + ".seed1"))
        assert value(command, "--encoder-layers") == "1" and value(command, "--max-epoch") == "2"
        assert "--attention-max-normalize" in command
        assert value(command, "--attention-score") == ("additive" if system == "teacher" else None)
        student = system != "teacher"
        assert value(command, "--election-teacher") == (str(teacher / "checkpoint_best.pt") if student else None)
        assert value(command, "--gaussian-election") == (str(teacher / "election.json") if student else None)
        words = str(work / "agent.seed1" / "words.json") if value(command, "--arch") == "lstm_election" else None
        assert value(command, "--election-table") == words
        untrained = system in ("mask", "mask-words")
        assert (value(command, "--lr") == "0") == untrained
        assert value(command, "--max-update") == ("1" if untrained else None)
    tools = {tool_of(command): command for command in commands}
    assert value(tools["election"], "--out") == str(teacher / "election.json")
    assert value(tools["election"], "--path") == str(teacher / "checkpoint_best.pt")
    assert value(tools["q-agent"], "--embeddings-source") == "a.vec"
    assert value(tools["q-agent"], "--embeddings-target") == "b.vec"
    generations = [command for command in commands if command[0] == "fairseq-generate"]
    generated = [Path(value(command, "--path")).parent.name for command in generations]
    assert generated == [system + ".seed1" for system in ELECTION_SYSTEMS]
    assert {value(command, "--beam") for command in generations} == {"3"}
    (split,) = (command for command in commands if command[:2] == ["#", "split"])
    assert ("equally" in split) == (pairs == "equal")
    (table,) = (command for command in commands if command[:2] == ["#", "table"])
    assert sum(part.endswith("/beam3/test.tokenized.json") for part in table) == 5


def test_documents_show_every_command_of_every_fold(shown, tmp_path):
    commands = shown("polarity_han", "--", "--lr", "5e-4", OUT=tmp_path, FOLDS="3 9")
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    trainings = [command for command in commands if command[0] == "fairseq-train"]
    assert len(trainings) == 6 and all(command[-3:] == ["--lr", "5e-4", "--cpu"] for command in trainings)
    assert [value(command, "--save-dir") for command in trainings] == [
        str(tmp_path / fold / (arch + ".seed1"))
        for fold in ("fold3", "fold9")
        for arch in ("han", "han_flat", "han_mean")
    ]
    starts = [command[:2] for command in commands]
    assert starts.count(["#", "fetch"]) == 2 and [start[0] for start in starts].count("fairseq-preprocess") == 4
    assert sum(tool_of(command) == "classify" for command in commands) == 6
    training = only(shown("yelp2013_han", OUT=tmp_path, EMBEDDINGS="w.vec"), "fairseq-train")
    assert value(training, "--word-embeddings").endswith("/w.vec") and "gru" in training
    assert Path(value(training, "--save-dir")).name == "han.pretrained.seed1"


def test_tatoeba_takes_any_pair_with_english(shown, tmp_path):
    commands = shown("tatoeba", "prepare", PAIR="deu-eng", SRC="de", TGT="en", FILE="mine.tsv", OUT=tmp_path)
    words = [word for command in commands for word in command]
    assert any("deu-eng.zip" in word for word in words) and any("mine.tsv" in word for word in words)
    assert value(only(commands, "fairseq-preprocess"), "--source-lang") == "de"
