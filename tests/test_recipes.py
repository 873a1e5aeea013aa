"""The recipes: every combination of settings is parsed, mistakes end in one line, and each recipe really runs.

The corpora here are miniatures, made in the form in which the real ones are published.
"""

import gzip
import io
import itertools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from cli import REPO

RECIPES = REPO / "scripts" / "recipes"
PAIRS = {
    "multi30k": ("de", "en"),
    "iwslt15_en_vi": ("en", "vi"),
    "wmt16_en_ro": ("en", "ro"),
    "tatoeba": ("en", "es"),
    "iwslt14_de_en": ("de", "en"),
}
OBJECTIVES = ["soft", "marginal", "hard-enum", "hard-reinforce", "elbo-enum", "elbo-reinforce", "elbo-gumbel",
              "elbo-sum-and-sample", "wake-sleep", "dirichlet"]  # fmt: skip
TINY = ["--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--decoder-embed-dim", "8",
        "--decoder-hidden-size", "8", "--decoder-out-embed-dim", "8", "--num-workers", "0"]  # fmt: skip

NOUNS = ["house", "river", "garden", "window", "teacher", "bicycle", "mountain", "letter", "kitchen", "bridge"]
VERBS = ["sees", "finds", "paints", "opens", "follows", "carries", "likes", "forgets"]


def recipe(name, *arguments, check=True, **environment):
    """Run a recipe in an environment of its own, with the tools of the interpreter that runs the tests."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        ["bash", str(RECIPES / (name + ".sh")), *map(str, arguments)],
        env={**kept, "PATH": path, "DEVICE": "cpu", "JOBS": "1", "OMP_NUM_THREADS": "1",
             "PYTHONIOENCODING": "utf-8", **{key: str(value) for key, value in environment.items()}},
        text=True, capture_output=True, timeout=600,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


def complaint(done):
    """The one line on stderr of a recipe that refused."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def sentences(count, seed):
    """Distinct English sentences and a foreign side, word for word spelt backwards."""
    choices = [(a, v, b) for a in NOUNS for v in VERBS for b in NOUNS]
    random.Random(seed).shuffle(choices)
    english = ["The %s %s a %s, doesn't it?" % choice for choice in choices[:count]]
    return english, ["".join(word[::-1] for word in re.split(r"(\W+)", line)) for line in english]


def write(path, lines, zipped=False):
    data = "".join(line + "\n" for line in lines).encode("utf-8")
    if zipped:
        path = path.with_name(path.name + ".gz")
        data = gzip.compress(data)
    path.write_bytes(data)


def sgm(kind, lines):
    segments = "".join('<seg id="%d">%s</seg>\n' % (i, line.replace("&", "&amp;")) for i, line in enumerate(lines, 1))
    return ["<%s>" % kind, "<doc>", *segments.splitlines(), "</doc>", "</%s>" % kind]


def multi30k(folder, train=120, zipped=True):
    for seed, (name, count) in enumerate([("train", train), ("val", 12), ("test_2016_flickr", 12)]):
        for language, lines in zip(("en", "de"), sentences(count, seed)):
            write(folder / ("%s.%s" % (name, language)), lines, zipped)


def iwslt15_en_vi(folder):
    for seed, (name, count) in enumerate([("train", 120), ("tst2012", 12), ("tst2013", 12)]):
        for language, lines in zip(("en", "vi"), sentences(count, seed)):
            write(folder / ("%s.%s" % (name, language)), lines)


def wmt16_en_ro(folder):
    for language, lines in zip(("en", "ro"), sentences(120, 0)):
        write(folder / ("europarl-v7.ro-en." + language), [*lines, ""])  # Europarl has empty lines
    for seed, name in enumerate(["newsdev2016-roen", "newstest2016-roen"], 1):
        english, foreign = sentences(12, seed)
        write(folder / (name + "-ref.en.sgm"), sgm("refset", english))
        write(folder / (name + "-src.ro.sgm"), sgm("srcset", foreign))


def tatoeba(folder):
    english, foreign = sentences(300, 0)
    # a second translation of every sentence, a second wording of every tenth, and the attribution
    lines = [pair for a, b in zip(english, foreign) for pair in ((a, b), (a, b + " ja"))]
    lines += [(a.replace(",", " ;"), b + " !") for a, b in zip(english[::10], foreign[::10])]
    write(folder / "spa.txt", ["%s\t%s\tCC-BY 2.0" % pair for pair in lines], zipped=True)


def iwslt14_de_en(folder, train=120):
    """The archive: tags between the talks of the training text, XML for the sets that make up the test set."""
    sets = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]
    for language, lines in zip(("en", "de"), sentences(train, 0)):
        talk = [
            "<url>http://talks/%s</url>" % language,
            "<keywords>talks, %s</keywords>" % language,
            "<talkid>1</talkid>",
        ]
        talk += ["<title>%s</title>" % lines[0], "<description>%s</description>" % lines[1], *lines[2:]]
        write(folder / ("train.tags.de-en." + language), talk)
    for seed, name in enumerate(sets, 1):
        for language, kind, lines in zip(("en", "de"), ("refset", "srcset"), sentences(3, seed)):
            xml = [
                '<?xml version="1.0" encoding="UTF-8"?>',
                "<mteval>",
                *sgm(kind, [" %s " % a for a in lines]),
                "</mteval>",
            ]
            write(folder / ("IWSLT14.%s.de-en.%s.xml" % (name, language)), xml)


MINIATURES = {name: globals()[name] for name in PAIRS}


@pytest.mark.parametrize("script", sorted(RECIPES.glob("*.sh")), ids=lambda path: path.name)
def test_bash_parses(script):
    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize("bpe", ["subword-nmt", "sentencepiece", "none"])
@pytest.mark.parametrize(("name", "direction"), [(n, d) for n in PAIRS for d in itertools.permutations(PAIRS[n])])
def test_dry_run_shows_every_command(name, direction, bpe, tmp_path):
    source, target = direction
    seen = {}
    for arch in ("lstm_adm", "lstm"):
        out = recipe(name, "--dry-run", "--", "--max-epoch", "2",
                     SRC=source, TGT=target, BPE=bpe, ARCH=arch, OUT=tmp_path,
                     **({"OBJECTIVE": "soft"} if name == "iwslt14_de_en" else {})).stdout  # fmt: skip
        seen[arch] = [shlex.split(line) for line in out.splitlines() if not line.startswith("[")]
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    for arch, commands in seen.items():
        names = [command[0] for command in commands]
        for tool in ("curl", "fairseq-preprocess", "fairseq-train", "fairseq-generate", "sacrebleu"):
            assert tool in names
        (training,) = (command for command in commands if command[0] == "fairseq-train")
        (generation,) = (command for command in commands if command[0] == "fairseq-generate")
        assert training[training.index("--source-lang") + 1] == source
        assert training[training.index("--target-lang") + 1] == target
        assert training[training.index("--arch") + 1] == arch
        assert training[-3:] == ["--max-epoch", "2", "--cpu"], "what follows -- comes last"
        assert ("--encoder-bidirectional" in training) == (arch == "lstm")
        assert generation[generation.index("--beam") + 1] == "10"
        assert ("--remove-bpe" in generation) == (bpe != "none")
        assert ("subword-nmt" in names) == (bpe == "subword-nmt")


def test_paper_sizes_of_word_vocabularies(tmp_path):
    for source, sizes in (("en", ["17192", "7710"]), ("vi", ["7710", "17192"])):
        out = recipe("iwslt15_en_vi", "prepare", "--dry-run", SRC=source, TGT={"en": "vi", "vi": "en"}[source],
                     OUT=tmp_path).stdout  # fmt: skip
        (line,) = (line for line in out.splitlines() if line.startswith("fairseq-preprocess"))
        command = shlex.split(line)
        assert [command[command.index(option) + 1] for option in ("--nwordssrc", "--nwordstgt")] == sizes


def test_options_of_the_user_replace_whole_groups(tmp_path):
    """fairseq refuses an option of a scheduler or criterion that is not the chosen one."""
    extra = ["--criterion", "cross_entropy", "--lr-scheduler=inverse_sqrt", "--batch-size", "8"]
    (line,) = (
        line
        for line in recipe("multi30k", "train", "--dry-run", "--", *extra, OUT=tmp_path).stdout.splitlines()
        if line.startswith("fairseq-train")
    )
    for option in ("--label-smoothing", "--force-anneal", "--max-tokens"):
        assert option not in shlex.split(line)
    assert "--lr" in shlex.split(line)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", ["multi30k", "iwslt14_de_en"])
def test_objectives_replace_the_criterion(name, objective, tmp_path):
    """The options of every objective, a folder for each, and one more for translating with fewer alignments."""
    settings = {"ARCH": "lstm_latent_small", "OBJECTIVE": objective, "BPE_SIZE": 2000, "OUT": tmp_path}
    out = recipe(name, "train", "generate", "--dry-run", **settings, TOPK=5).stdout
    commands = [shlex.split(line) for line in out.splitlines()]
    (training,) = (command for command in commands if command[0] == "fairseq-train")
    (generation,) = (command for command in commands if command[0] == "fairseq-generate")

    def value(command, option):
        return command[command.index(option) + 1] if option in command else None

    assert value(training, "--criterion") == "latent_alignment"
    assert value(training, "--objective") == objective
    assert "--label-smoothing" not in training
    prior_only = objective in ("soft", "marginal", "hard-enum", "hard-reinforce")
    assert value(training, "--latent-posterior") == ("False" if prior_only else None)
    assert value(training, "--num-samples") == ("5" if objective == "wake-sleep" else None)
    assert value(training, "--gumbel-tau") == ("0.1" if objective == "elbo-gumbel" else None)
    epoch = {"multi30k": "260", "iwslt14_de_en": "26700"}[name] if objective == "dirichlet" else None
    assert value(training, "--soft-updates") == value(training, "--kl-warmup-updates") == epoch
    folder = tmp_path / "de-en.subword-nmt2000" / ("lstm_latent_small.%s.seed1" % objective)
    assert value(training, "--save-dir") == str(folder)
    assert value(generation, "--path") == str(folder / "checkpoint_best.pt")
    assert value(generation, "--results-path") == str(folder / "top5")
    assert value(generation, "--latent-topk") == "5"
    assert "--latent-topk" not in recipe(name, "generate", "--dry-run", **settings).stdout


def test_attention_bias_teacher_and_agreement_have_options_and_folders(tmp_path):
    def training(**environment):
        out = recipe("multi30k", "train", "--dry-run", OUT=tmp_path, ARCH="attn_lstm_small", **environment).stdout
        (line,) = (line for line in out.splitlines() if line.startswith("fairseq-train"))
        words = shlex.split(line)
        return words, Path(words[words.index("--save-dir") + 1]).name, out

    words, folder, _ = training(ATTENTION="structured", BIAS="position,markov")
    assert words[words.index("--attention") + 1] == "structured"
    assert words[words.index("--attention-bias") + 1] == "position,markov"
    assert folder == "attn_lstm_small.structured.position,markov.seed1"
    words, folder, out = training(TEACHER="/teacher.pt")
    assert words[words.index("--criterion") + 1] == "guided_alignment" and "--load-alignments" in words
    assert words[1] == str(tmp_path / "de-en.subword-nmt8000" / folder / "bin")
    assert folder == "attn_lstm_small.guided.seed1"
    assert (
        len(re.findall("teacher_alignments .*/bin --path /teacher.pt --gen-subset (train|valid) --into-data", out)) == 2
    )
    out = recipe("multi30k", "train", "--dry-run", OUT=tmp_path, ARCH="lstm_agreement_small").stdout
    assert "--criterion agreement --label-smoothing 0.1" in out
    for settings, criterion in (
        ({"TEACHER": "/teacher.pt", "ARCH": "lstm_soft"}, "guided_alignment"),
        ({"ARCH": "lstm_agreement"}, "agreement"),
    ):
        out = recipe("iwslt14_de_en", "train", "--dry-run", OUT=tmp_path, **settings).stdout
        assert f"--criterion {criterion} " in out and "--objective" not in out


def test_a_recipe_is_guided_by_the_teacher_that_another_one_trained(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    multi30k(data)
    settings = {"DATA": data, "OUT": tmp_path / "out", "BPE_SIZE": 60, "ARCH": "attn_lstm_small"}
    budget = ["--", *TINY, "--max-update", "2"]
    recipe("multi30k", "prepare", "train", *budget, ATTENTION="local-m", BIAS="markov", **settings)
    (teacher,) = (tmp_path / "out").rglob("checkpoint_best.pt")
    guided = recipe("multi30k", "train", *budget, TEACHER=teacher, **settings)
    assert "alignment_loss" in guided.stdout + guided.stderr
    assert not list((teacher.parent.parent / "data").rglob("*.align*")), "the common data stay as they were"
    again = recipe("multi30k", "train", *budget, TEACHER=teacher, **settings)
    assert "done before" in again.stdout
    # interrupted between the two splits
    (done,) = (tmp_path / "out").rglob("*.guided.*/bin/done")
    done.unlink()
    for path in done.parent.glob("valid.align*"):
        path.unlink()
    (done.parents[1] / "train.done").unlink()
    recipe("multi30k", "train", *budget, TEACHER=teacher, **settings)
    assert done.exists() and list(done.parent.glob("valid.align*"))
    # a teacher that was trained further is another one
    with open(teacher, "ab") as stream:
        stream.write(b" ")
    refused = recipe("multi30k", "train", *budget, TEACHER=teacher, check=False, **settings)
    assert refused.returncode and "other options" in refused.stderr and teacher.name in refused.stderr


def test_papers_settings_of_latent_alignment(tmp_path):
    out = recipe("iwslt14_de_en", "--dry-run", OUT=tmp_path).stdout
    commands = [shlex.split(line) for line in out.splitlines() if not line.startswith("[")]
    (training,) = (" ".join(command) for command in commands if command[0] == "fairseq-train")
    for options in ("--arch lstm_latent --", "--objective elbo-enum --", "--batch-size 6 --", "--sentence-avg --",
                    "--optimizer adam --lr 3e-4 --", "--clip-norm 5 --", "--dropout 0.3 --", "--max-epoch 30 --",
                    "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --"):  # fmt: skip
        assert options in training
    assert sum("drop" in command and command[-1] == "125" for command in commands) == 1
    assert (
        sum("--symbols" in command and command[command.index("--symbols") + 1] == "14000" for command in commands) == 1
    )


@pytest.mark.parametrize(
    ("name", "arguments", "environment", "names"),
    [
        ("multi30k", ["translate"], {}, ["'translate'", "prepare, train, generate, score"]),
        ("multi30k", ["--quick"], {}, ["'--quick'", "--dry-run"]),
        ("multi30k", [], {"SRC": "fr"}, ["SRC=fr", "de, en"]),
        ("iwslt15_en_vi", [], {"TGT": "de"}, ["TGT=de", "en, vi"]),
        ("wmt16_en_ro", [], {"SRC": "ro"}, ["'ro'", "TGT must be en"]),
        ("multi30k", [], {"BPE": "wordpiece"}, ["BPE=wordpiece", "subword-nmt, sentencepiece or none"]),
        ("multi30k", [], {"BPE_SIZE": "8k"}, ["BPE_SIZE=8k"]),
        ("multi30k", [], {"SEED": "one"}, ["SEED=one"]),
        ("multi30k", [], {"SPLIT": "dev"}, ["SPLIT=dev", "valid or test"]),
        ("multi30k", [], {"DEVICE": "gpu"}, ["DEVICE=gpu", "auto, cpu or cuda"]),
        ("multi30k", [], {"DATA": "/no/such/folder"}, ["DATA=/no/such/folder", "test_2016_flickr"]),
        ("multi30k", ["train"], {}, ["run the prepare stage first"]),
        ("multi30k", ["generate"], {}, ["run the prepare stage first"]),
        ("multi30k", ["score"], {}, ["run the generate stage first"]),
        ("multi30k", ["train", "--", "--arch", "lstm"], {}, ["--arch", "ARCH="]),
        ("multi30k", ["train", "--", "--save-dir=x"], {}, ["--save-dir=x", "OUT="]),
        ("tatoeba", [], {"PAIR": "deu-eng"}, ["PAIR=deu-eng", "spa-eng or vie-eng"]),
        ("wmt16_en_ro", [], {"CORPORA": "all"}, ["CORPORA=all", "europarl setimes"]),
        ("iwslt15_en_vi", [], {"UPDATES": "many"}, ["UPDATES=many"]),
        ("iwslt14_de_en", [], {"OBJECTIVE": "elbo"}, ["OBJECTIVE=elbo is unknown", "soft, marginal", "dirichlet"]),
        ("iwslt14_de_en", [], {"ARCH": "lstm"}, ["OBJECTIVE=elbo-enum", "OBJECTIVE=soft with ARCH=lstm"]),
        (
            "iwslt14_de_en",
            [],
            {"ARCH": "lstm_soft", "OBJECTIVE": "marginal"},
            ["OBJECTIVE=marginal", "ARCH=lstm_latent"],
        ),
        ("iwslt14_de_en", [], {"LONGEST": "long"}, ["LONGEST=long"]),
        ("iwslt14_de_en", [], {"TOPK": "0"}, ["TOPK=0", "above 0"]),
        ("iwslt14_de_en", ["--", "--objective=soft"], {}, ["--objective=soft", "OBJECTIVE=elbo-enum"]),
        ("multi30k", [], {"TOPK": "5"}, ["TOPK=5", "ARCH=lstm_latent", "ARCH=lstm_adm"]),
        ("multi30k", [], {"ARCH": "lstm", "BIAS": "markov"}, ["BIAS='markov'", "ARCH=lstm_soft"]),
        ("multi30k", [], {"ATTENTION": "a b"}, ["ATTENTION='a b'", "ATTENTION=structured"]),
        ("multi30k", [], {"TEACHER": "/no/such.pt"}, ["TEACHER=/no/such.pt", "checkpoint"]),
        ("multi30k", [], {"TEACHER": "x.pt", "ARCH": "lstm_agreement"}, ["TEACHER=x.pt", "one direction"]),
        ("iwslt14_de_en", [], {"TEACHER": "x.pt", "OBJECTIVE": "soft"}, ["OBJECTIVE=soft", "TEACHER=x.pt"]),
        ("multi30k", [], {"ARCH": "lstm_agreement", "OBJECTIVE": "soft"}, ["OBJECTIVE=soft", "one direction"]),
        ("multi30k", ["--", "--criterion", "x"], {"TEACHER": "/dev/null"}, ["--criterion", "guided_alignment"]),
        ("multi30k", [], {"ARCH": "lstm_latent_small"}, ["ARCH=lstm_latent_small needs an OBJECTIVE", "elbo-enum"]),
        ("tatoeba_election", ["train"], {}, ["'train'", "teacher, election, agent, mask, mask-words, gaussian"]),
        ("tatoeba_election", ["mask mask-words"], {}, ["'mask mask-words'"]),
        ("tatoeba_election", [], {"PAIRS": "half"}, ["PAIRS=half", "equal or all"]),
        ("tatoeba_election", [], {"ARCH": "lstm_soft"}, ["ARCH=lstm_soft", "leave ARCH out"]),
        ("tatoeba_election", [], {"SYSTEMS": "teacher mak"}, ["SYSTEMS: mak", "election-model"]),
        ("tatoeba_election", [], {"BEAM": "0"}, ["BEAM=0", "above 0"]),
        ("tatoeba_election", [], {"MAX_NORMALIZE": "yes"}, ["MAX_NORMALIZE=yes", "0 nor 1"]),
        ("tatoeba_election", [], {"EMBEDDINGS_SOURCE": "/dev/null"}, ["EMBEDDINGS_TARGET", "give both"]),
        ("tatoeba_election", [], {"TEACHER": "/no/such.pt"}, ["TEACHER=/no/such.pt", "no file"]),
        ("tatoeba_election", ["teacher"], {}, ["run the prepare stage first"]),
        ("tatoeba_election", ["election"], {}, ["run the prepare stage first"]),
        ("tatoeba_election", ["gaussian"], {}, ["run the teacher stage first"]),
        ("tatoeba_election", ["score"], {}, ["run the generate stage first"]),
        ("tatoeba_election", ["table"], {}, ["run the score stage first"]),
    ],
)
def test_mistakes_are_one_line(name, arguments, environment, names, tmp_path):
    line = complaint(recipe(name, *arguments, check=False, OUT=tmp_path, **environment))
    assert line.startswith(name + ": ")
    for part in names:
        assert part in line


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def lose_a_line(path):
    path.write_bytes(gzip.compress(b"".join(gzip.decompress(path.read_bytes()).splitlines(True)[:-1])))


def damage(path):
    path.write_bytes(gzip.compress(b"caf\xe9 is not UTF-8\n"))


@pytest.mark.parametrize(
    ("harm", "file", "names"),
    [
        (Path.unlink, "train.de.gz", ["train.de.gz", "missing", "test_2016_flickr"]),
        (Path.unlink, "test_2016_flickr.en.gz", ["test_2016_flickr.en.gz", "missing"]),
        (truncate, "train.en.gz", ["train.en.gz", "truncated"]),
        (lose_a_line, "val.de.gz", ["val.de.gz", "11", "12", "parallel"]),
        (damage, "val.en.gz", ["val.en.gz", "not UTF-8 at byte 3"]),
    ],
)
def test_damaged_corpus_is_one_line_and_loses_nothing(harm, file, names, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    multi30k(data)
    harm(data / file)
    done = recipe("multi30k", "prepare", check=False, DATA=data, OUT=out, BPE="none")
    notes = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert done.returncode == 1
    assert len(notes) == 1, done.stderr
    for part in names:
        assert part in notes[0]
    assert not list(out.rglob("done")), "no stamp"
    multi30k(data)
    recipe("multi30k", "prepare", DATA=data, OUT=out, BPE="none")


def test_truncated_sgml_is_found(tmp_path):
    wmt16_en_ro(tmp_path)
    path = tmp_path / "newsdev2016-roen-src.ro.sgm"
    path.write_bytes(path.read_bytes()[:-20])
    done = recipe("wmt16_en_ro", "prepare", check=False, DATA=tmp_path, OUT=tmp_path / "out", BPE="none")
    assert done.returncode == 1
    assert "newsdev2016-roen-src.ro.sgm is truncated" in done.stderr


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "arch", "bpe", "size"),
    [
        ("multi30k", "lstm", "sentencepiece", 100),
        ("iwslt15_en_vi", "lstm_adm_aqt", "none", 0),
        ("wmt16_en_ro", "lstm_adm", "subword-nmt", 60),
        ("tatoeba", "lstm_soft", "subword-nmt", 60),
        ("iwslt14_de_en", "lstm_latent", "subword-nmt", 60),
    ],
)
def test_recipe_runs_and_is_not_run_again(name, arch, bpe, size, tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    MINIATURES[name](data)
    settings = {
        "DATA": data,
        "OUT": out,
        "BPE": bpe,
        "BPE_SIZE": size,
        "ARCH": arch,
        "GENERATE_OPTIONS": "--max-len-b 12",
    }
    budget = ["--", *TINY, "--max-update", "2"]
    recipe(name, *budget, **settings)
    (run,) = (path.parent for path in out.rglob("checkpoint_best.pt"))
    references = len((run.parent / "data" / "text" / ("test." + PAIRS[name][1])).read_text().splitlines())
    hypotheses = (run / "test.hyp").read_text(encoding="utf-8").splitlines()
    assert len(hypotheses) == references >= 10
    assert not any("@@" in line or "\u2581" in line for line in hypotheses), "BPE is undone"
    scores = {path.name: json.loads(path.read_text()) for path in run.glob("*.json")}
    assert "tok:none" in scores["test.tokenized.json"]["signature"]
    assert ("case:lc" in scores["test.tokenized.json"]["signature"]) == (name in ("multi30k", "iwslt14_de_en"))
    if name == "iwslt15_en_vi":
        assert list(scores) == ["test.tokenized.json"]
    else:
        assert "tok:13a" in scores["test.detokenized.json"]["signature"]
    before = files_of(out)
    again = recipe(name, *budget, **settings)
    assert files_of(out) == before
    assert len(re.findall(r"^\[.*done before", again.stdout, re.MULTILINE)) == 4


def test_training_continues_and_other_options_are_refused(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    multi30k(data)
    settings = {"DATA": data, "OUT": out, "BPE": "none", "ARCH": "lstm"}
    recipe("multi30k", "prepare", "train", "--", *TINY, "--max-update", "1", **settings)
    (log,) = out.rglob("train.log")
    (run,) = (path.parent for path in out.rglob("checkpoint_last.pt"))
    before = files_of(run)
    line = complaint(recipe("multi30k", "train", "--", *TINY, "--max-update", "1", "--dropout", "0.5",
                            check=False, **settings))  # fmt: skip
    assert "--dropout 0.5" in line
    assert "OUT" in line
    assert files_of(run) == before, "the finished training is untouched"
    recipe("multi30k", "train", "--", *TINY, "--max-update", "2", **settings)
    begun = re.findall(r"epoch (\d+) \| valid on .* \| num_updates (\d+)", log.read_text(encoding="utf-8"))
    assert begun == [("001", "1"), ("002", "2")], "the second call did the second update only"
    # another corpus under the same folder is refused as well; without DATA the prepared one serves
    other = tmp_path / "other"
    other.mkdir()
    assert "choose another OUT" in complaint(recipe("multi30k", "prepare", check=False, **{**settings, "DATA": other}))
    del settings["DATA"]
    assert "prepare: done before" in recipe("multi30k", "prepare", **settings).stdout


def test_interrupted_preparation_is_done_again(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    multi30k(data, zipped=False)
    partial = out / "de-en.none" / "data.partial" / "text"
    partial.mkdir(parents=True)
    (partial / "train.de").write_text("half of a line")
    recipe("multi30k", "prepare", DATA=data, OUT=out, BPE="none")
    assert not partial.exists()
    text = (out / "de-en.none" / "data" / "text" / "train.en").read_text(encoding="utf-8").splitlines()
    assert len(text) == 120
    assert all(line == line.lower() and " , doesn &apos;t it ?" in line for line in text), "lower-cased, tokenised"


def test_published_tokenisation_is_taken(tmp_path):
    multi30k(tmp_path)
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = gzip.decompress((tmp_path / ("%s.%s.gz" % (name, language))).read_bytes()).decode().splitlines()
            write(tmp_path / ("%s.tok.%s" % (name, language)), ["TOK " + line for line in lines], zipped=True)
    recipe("multi30k", "prepare", DATA=tmp_path, OUT=tmp_path / "out", BPE="none")
    text = tmp_path / "out" / "de-en.none" / "data" / "text"
    assert (text / "test.en").read_text().startswith("tok the ")
    assert (text / "test.raw.en").read_text().startswith("The ")


def test_training_sentences_are_cut(tmp_path):
    iwslt15_en_vi(tmp_path)
    recipe("iwslt15_en_vi", "prepare", DATA=tmp_path, OUT=tmp_path / "out", CUT="3")
    (segmented,) = tmp_path.rglob("segmented")
    assert {len(line.split()) for line in (segmented / "train.vi").read_text().splitlines()} == {3}
    assert max(len(line.split()) for line in (segmented / "test.en").read_text().splitlines()) > 3


def test_iwslt14_archive_becomes_the_usual_split(tmp_path):
    archive = tmp_path / "data" / "de-en"
    archive.mkdir(parents=True)
    iwslt14_de_en(archive)
    for language, end in (("de", " zu" * 30), ("en", "")):  # a pair with a side much longer than the other
        path = archive / ("train.tags.de-en." + language)
        path.write_text(path.read_text() + "One \u2013 two.%s\n" % end, encoding="utf-8")
    done = recipe("iwslt14_de_en", "prepare", DATA=tmp_path / "data", OUT=tmp_path / "out", BPE="none")
    assert "cleaning left 120 of 121 training pairs" in done.stdout
    text = tmp_path / "out" / "de-en.none" / "data" / "text"
    lines = {path.name: path.read_text(encoding="utf-8").splitlines() for path in text.iterdir()}
    assert sorted(lines) == [
        "test.de",
        "test.en",
        "test.raw.de",
        "test.raw.en",
        "train.de",
        "train.en",
        "valid.de",
        "valid.en",
    ]
    assert [len(lines[split + ".en"]) for split in ("train", "valid", "test")] == [115, 5, 15]
    english, _ = sentences(120, 0)
    tokens = [line.lower().replace(",", " ,").replace("n't", "n &apos;t").replace("?", " ?") for line in english]
    assert lines["valid.en"] == tokens[22::23]
    assert lines["train.en"] == [line for number, line in enumerate(tokens, 1) if number % 23]
    assert lines["test.raw.en"] == [line for seed in range(1, 6) for line in sentences(3, seed)[0]]


def test_iwslt14_keeps_punctuation_but_for_apostrophes_of_the_test_set(tmp_path):
    iwslt14_de_en(tmp_path)
    for path in tmp_path.iterdir():
        text = re.sub("(it|ti)[?]", "\\1 \u2013 it\u2019s \u201eit\u201c?", path.read_text())  # ti: the foreign side's
        path.write_text(text, encoding="utf-8")
    recipe("iwslt14_de_en", "prepare", DATA=tmp_path, OUT=tmp_path / "out", BPE="none")
    text = tmp_path / "out" / "de-en.none" / "data" / "text"
    assert "it \u2013 it &apos;s \u201e it \u201c ?" in (text / "test.en").read_text(encoding="utf-8")
    assert "it \u2013 it \u2019 s \u201e it \u201c ?" in (text / "train.en").read_text(encoding="utf-8")


def test_long_training_pairs_are_left_out(tmp_path):
    for split, count in (("train", 30), ("valid", 5), ("test", 5)):
        for language, lines in zip(("en", "de"), sentences(count, 0)):
            lines = [line + " word" * 10 * (split != "train" or number < 7) for number, line in enumerate(lines)]
            write(tmp_path / ("%s.%s" % (split, language)), lines, zipped=language == "de")
    recipe("iwslt14_de_en", "prepare", DATA=tmp_path, OUT=tmp_path / "out", BPE="none", LONGEST=12)
    (segmented,) = tmp_path.rglob("segmented")
    sizes = {path.name: len(path.read_text().splitlines()) for path in segmented.iterdir()}
    assert sizes == {"train.de": 23, "train.en": 23, "valid.de": 5, "valid.en": 5, "test.de": 5, "test.en": 5}
    line = complaint(recipe("iwslt14_de_en", "prepare", check=False, DATA=tmp_path, OUT=tmp_path / "out", BPE="none"))
    assert "longest 12" in line, "another limit is another preparation"
    assert "longest 125" in line


@pytest.mark.parametrize(
    ("harm", "file", "names"),
    [
        (Path.unlink, "train.tags.de-en.de", ["train.tags.de-en.de: missing"]),
        (Path.unlink, "IWSLT14.TED.tst2011.de-en.en.xml", ["IWSLT14.TED.tst2011.de-en.en.xml: missing", "de-en.tgz"]),
        (truncate, "IWSLT14.TED.dev2010.de-en.de.xml", ["IWSLT14.TED.dev2010.de-en.de.xml is truncated"]),
        (
            lambda path: path.write_text(path.read_text() + "One more.\n"),
            "train.tags.de-en.en",
            ["train.tags.de-en.{de,en}", "120 sentences in German and 121 in English"],
        ),
    ],
)
def test_damaged_iwslt14_archive_is_one_line(harm, file, names, tmp_path):
    iwslt14_de_en(tmp_path)
    harm(tmp_path / file)
    line = complaint(recipe("iwslt14_de_en", "prepare", check=False, DATA=tmp_path, OUT=tmp_path / "out", BPE="none"))
    for part in names:
        assert part in line


def test_iwslt14_plain_files_without_training_part(tmp_path):
    for split in ("valid", "test"):
        for language, lines in zip(("en", "de"), sentences(5, 0)):
            write(tmp_path / ("%s.%s" % (split, language)), lines)
    line = complaint(recipe("iwslt14_de_en", "prepare", check=False, DATA=tmp_path, OUT=tmp_path / "out"))
    assert "the training part is missing in DATA=%s: no train.de.gz, train.en.gz (or unzipped)" % tmp_path in line
    assert "de-en.tgz" in line


def test_no_tatoeba_sentence_is_in_two_splits(tmp_path):
    tatoeba(tmp_path)
    run_split(tmp_path, tmp_path)
    for language in ("en", "es"):
        seen = {}
        for split in ("train", "valid", "test"):
            for line in (tmp_path / ("%s.%s" % (split, language))).read_text(encoding="utf-8").splitlines():
                key = " ".join(re.findall(r"\w+", line.casefold()))
                assert seen.setdefault(key, split) == split, line
    sizes = [len((tmp_path / (split + ".en")).read_text().splitlines()) for split in ("train", "valid", "test")]
    assert sum(sizes) == 630
    assert 0.85 < sizes[0] / 630 < 0.95


def test_tatoeba_split_ignores_the_order_of_lines(tmp_path):
    tatoeba(tmp_path)
    run_split(tmp_path, tmp_path)
    path = tmp_path / "spa.txt.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(True)
    random.Random(1).shuffle(lines)
    (tmp_path / "shuffled").mkdir()
    (tmp_path / "shuffled" / "spa.txt").write_bytes(b"".join(lines))
    run_split(tmp_path / "shuffled", tmp_path / "shuffled")
    for split in ("train", "valid", "test"):
        first, second = (
            sorted((f / (split + ".es")).read_text().splitlines()) for f in (tmp_path, tmp_path / "shuffled")
        )
        assert first == second


def run_split(folder, to, *arguments):
    done = subprocess.run(
        [sys.executable, str(RECIPES / "split_pairs.py"), "--folder", str(folder), "--file", "spa.txt",
         "--languages", "en", "es", "--to", str(to), *arguments],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


def lines_of(folder, split, language):
    return (folder / ("%s.%s" % (split, language))).read_text(encoding="utf-8").split("\n")[:-1]


def shared_sentences(folder):
    """Sentences, up to case and punctuation, that occur on the same side of two splits."""
    found = []
    for language in ("en", "es"):
        parts = [
            {" ".join(re.findall(r"\w+", line.casefold())) for line in lines_of(folder, split, language)}
            for split in ("train", "valid", "test")
        ]
        found += [sentence for a, b in itertools.combinations(parts, 2) for sentence in a & b]
    return found


def test_pairs_of_equally_many_words_keep_their_split(tmp_path):
    tatoeba(tmp_path)
    for name, arguments in (("all", []), ("equal", ["--equal-words"])):
        (tmp_path / name).mkdir()
        printed = run_split(tmp_path, tmp_path / name, *arguments)
    assert "note: 330 of 630 pairs have equally many words on both sides" in printed
    for split in ("train", "valid", "test"):
        every, kept = (
            list(zip(lines_of(tmp_path / name, split, "en"), lines_of(tmp_path / name, split, "es")))
            for name in ("all", "equal")
        )
        assert kept == [(a, b) for a, b in every if len(a.split()) == len(b.split())]
        assert len(kept) < len(every)
    assert not shared_sentences(tmp_path / "equal")


def test_bare_words_are_as_many_as_before(tmp_path):
    text = ["\u00bfEs de Tom\u2019s, \u00abel\u00bb?", "Add 5 + 10 \u2014 it's \u20ac7.50!", "well-known ... U.S."]
    for language in ("en", "es"):
        write(tmp_path / ("x." + language), text)
    subprocess.run(
        [sys.executable, str(RECIPES / "parallel_text.py"), "import", "--folder", str(tmp_path), "--files", "x.en",
         "x.es", "--languages", "en", "es", "--to", str(tmp_path / "y"), "--bare-words", "--lowercase"],
        check=True,
    )  # fmt: skip
    bare = lines_of(tmp_path, "y", "es")
    assert bare == ["es de tom's el", "add 5 + 10 \u2014 it's \u20ac7.50", "well-known ... u.s"]


ELECTION_SYSTEMS = {
    "teacher": "lstm_soft",
    "mask": "lstm_gaussian",
    "mask-words": "lstm_election",
    "gaussian": "lstm_gaussian",
    "election-model": "lstm_election",
}


@pytest.mark.parametrize(("pairs", "folder"), [("equal", "en-es.equal.none"), ("all", "en-es.all.subword-nmt8000")])
def test_election_dry_run_shows_every_command(pairs, folder, tmp_path):
    done = recipe("tatoeba_election", "--dry-run", "--", "--max-epoch", "2", OUT=tmp_path, PAIRS=pairs, BEAM=3,
                  ARCH_OPTIONS="--encoder-layers 1", EMBEDDINGS_SOURCE="a.vec", EMBEDDINGS_TARGET="b.vec")  # fmt: skip
    assert not list(tmp_path.iterdir()), "a dry run writes nothing"
    commands = [shlex.split(line) for line in done.stdout.splitlines() if not line.startswith("[")]
    work = tmp_path / folder

    def value(command, option):
        return command[len(command) - 1 - command[::-1].index(option) + 1] if option in command else None

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
    tools = {command[2].rpartition(".")[2]: command for command in commands if command[1] == "-m"}
    assert value(tools["election"], "--out") == str(teacher / "election.json")
    assert value(tools["election"], "--path") == str(teacher / "checkpoint_best.pt")
    assert value(tools["q_agent"], "--embeddings-source") == "a.vec"
    assert value(tools["q_agent"], "--embeddings-target") == "b.vec"
    generations = [command for command in commands if command[0] == "fairseq-generate"]
    assert [Path(value(command, "--path")).parent.name for command in generations] == [
        system + ".seed1" for system in ELECTION_SYSTEMS
    ]
    assert {value(command, "--beam") for command in generations} == {"3"}
    split = next(command for command in commands if command[1].endswith("split_pairs.py"))
    assert ("--equal-words" in split) == (pairs == "equal")
    (table,) = (command for command in commands if command[1].endswith("election_table.py"))
    assert sum(part.endswith("/beam3/test.tokenized.json") for part in table) == 5


def test_election_recipe_runs_and_is_not_run_again(tmp_path):
    import torch

    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    tatoeba(data)
    settings = {
        "DATA": data,
        "OUT": out,
        "SYSTEMS": "mask-words gaussian",
        "AGENT_OPTIONS": "--updates 20 --min-count 1 --embedding-dim 8 --threshold 0.1",
        "GENERATE_OPTIONS": "--max-len-b 12",
    }
    budget = ["--", *TINY, "--max-update", "2"]
    recipe("tatoeba_election", *budget, **settings)
    work = out / "en-es.equal.none"
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
    assert "| 23.65 |" in table and "trained further" in table and "tok:none" in table
    assert re.search(r"\| log2 \| [0-9. |]+ \| 93.22 \|", table)
    assert "teacher: additive" not in table, "it is none of SYSTEMS"
    hypotheses = lines_of(work / "gaussian.seed1" / "beam5", "test", "hyp")
    assert len(hypotheses) == len(lines_of(work / "data" / "text", "test", "es"))
    before = files_of(out)
    again = recipe("tatoeba_election", *budget, **settings)
    changed = {path for path, time in files_of(out).items() if before.get(path) != time}
    assert {path.name for path in changed} == {"table.seed1.md"}
    assert len(re.findall(r"^\[.*done before", again.stdout, re.MULTILINE)) == 10
    # another election makes another model
    election = work / "teacher.seed1" / "election.json"
    election.write_text(election.read_text() + " ")
    line = complaint(recipe("tatoeba_election", "gaussian", *budget, check=False, **settings))
    assert "gaussian.seed1 holds a training with other options" in line and "election.json" in line


def test_election_table_reports_what_is_missing(tmp_path):
    (tmp_path / "score").write_text('{"score": 24.5, "signature": "nrefs:1"}')
    (tmp_path / "election").write_text('{"rules": [{"rule": "log2", "mean_k": 2.5}]}')
    command = [sys.executable, str(RECIPES / "election_table.py"), "--title", "x", "--to", str(tmp_path / "table")]
    command += ["--scores", "teacher=%s" % (tmp_path / "score")]
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    assert "| teacher: additive attention | 24.50 | 24.22 |" in done.stdout
    done = subprocess.run([*command, "--election", str(tmp_path / "election")], text=True, capture_output=True)
    assert "has no satisfaction.k-borda: run its stage again" in complaint(done)
    (tmp_path / "score").write_text("{")
    assert "is no JSON" in complaint(subprocess.run(command, text=True, capture_output=True))


def test_real_tatoeba_has_39115_pairs_of_equally_many_words(real_data, tmp_path):
    source = real_data / "tatoeba-spa-eng"
    if not source.is_dir():
        pytest.skip("NO REAL DATA: %s is no folder" % source)
    printed = run_split(source, tmp_path, "--equal-words")
    assert "note: 39115 of 118964 pairs have equally many words on both sides" in printed
    sizes = {split: len(lines_of(tmp_path, split, "en")) for split in ("train", "valid", "test")}
    assert sizes == {"train": 35246, "valid": 1947, "test": 1922}
    assert not shared_sentences(tmp_path)


def test_hypotheses_are_put_in_order_and_a_missing_one_is_found(tmp_path):
    (tmp_path / "ref").write_text("a\nb\nc\n")
    (tmp_path / "generated").write_text("S-2\tx\nD-2\t-0.1\tthird\nD-0\t-0.2\tfirst &apos;s\nD-1\t-0.3\tsecond\n")
    paths = {name: str(tmp_path / name) for name in ("generated", "ref", "hyp", "detok")}
    command = [sys.executable, str(RECIPES / "hypotheses.py"), paths["generated"], "--reference", paths["ref"]]
    command += ["--to", paths["hyp"], "--detokenize", "en", paths["detok"]]
    subprocess.run(command, check=True)
    assert (tmp_path / "hyp").read_text() == "first &apos;s\nsecond\nthird\n"
    assert (tmp_path / "detok").read_text() == "first's\nsecond\nthird\n"
    (tmp_path / "generated").write_text("D-2\t-0.1\tthird\nD-0\t-0.2\tfirst\n")
    done = subprocess.run(command, text=True, capture_output=True)
    assert "2 translations for 3 sentences (number 1 is missing)" in complaint(done)


def test_download_from_a_mirror(tmp_path):
    """The path of a download, over file: addresses: what is too short, unparallel or absent is not accepted."""
    mirror, out = tmp_path / "mirror", tmp_path / "out"
    mirror.mkdir()
    multi30k(mirror)
    url = "file://%s" % mirror
    done = recipe("multi30k", "prepare", check=False, OUT=out, CORPUS_URL=url, BPE="none")
    assert done.returncode == 1
    assert "expected at least 300000: truncated or moved" in done.stderr
    assert not list((out / "raw").iterdir())
    done = recipe("multi30k", "prepare", check=False, OUT=out, CORPUS_URL=url + "/nowhere", BPE="none")
    assert "cannot be fetched" in done.stderr.splitlines()[-1]


def test_download_with_too_few_lines_is_refused(tmp_path):
    """An archive of the right size whose text is not the published corpus, here by its number of lines."""
    (tmp_path / "mirror").mkdir()
    english, foreign = sentences(800, 0)
    noise = random.Random(0)
    lines = ["%s\t%s\t%s" % (a, b, "%x" % noise.getrandbits(20000)) for a, b in zip(english, foreign)]
    with zipfile.ZipFile(tmp_path / "mirror" / "vie-eng.zip", "w") as archive:
        archive.writestr("vie.txt", "\n".join(lines) + "\n")
    done = recipe("tatoeba", "prepare", check=False, PAIR="vie-eng", OUT=tmp_path / "out",
                  CORPUS_URL="file://%s/mirror" % tmp_path)  # fmt: skip
    assert done.returncode == 1
    assert "800 pairs, the published file at least 7000" in done.stderr.splitlines()[-1]
    assert (tmp_path / "out" / "raw" / "vie.txt").is_file()


def test_text_with_too_few_lines_is_refused_when_downloaded(tmp_path):
    multi30k(tmp_path)
    command = [sys.executable, str(RECIPES / "parallel_text.py"), "import", "--folder", str(tmp_path), "--files"]
    command += ["val.de", "val.en", "--languages", "de", "en", "--to", str(tmp_path / "valid"), "--at-least", "1014"]
    done = subprocess.run([*command, "--strict"], text=True, capture_output=True)
    assert "12 sentence pairs, the published corpus at least 1014: the download is truncated" in complaint(done)
    assert not (tmp_path / "valid.de").exists()
    lenient = subprocess.run(command, text=True, capture_output=True, check=True)
    assert lenient.stderr.startswith("note: ")
    assert (tmp_path / "valid.de").exists()


def test_unpack_reports_a_damaged_archive(tmp_path):
    data = b"text\n" * 5000
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as archive:
        info = tarfile.TarInfo("dir/member")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    command = [sys.executable, str(RECIPES / "unpack.py"), str(tmp_path / "a.tgz"), str(tmp_path), "dir/member"]
    subprocess.run(command, check=True)
    assert (tmp_path / "member").read_bytes() == data
    absent = subprocess.run([*command, "dir/other"], text=True, capture_output=True)
    assert "dir/other" in complaint(absent)
    truncate(tmp_path / "a.tgz")
    (tmp_path / "member").unlink()
    assert "truncated" in complaint(subprocess.run(command, text=True, capture_output=True))
    assert not (tmp_path / "member").exists()


def test_real_multi30k(real_data, tmp_path):
    """The first 200 lines of the real files, all the way."""
    source = real_data / "multi30k"
    if not source.is_dir():
        pytest.skip("NO REAL DATA: %s is no folder" % source)
    for path in source.glob("*.gz"):
        lines = gzip.decompress(path.read_bytes()).splitlines(True)[:200]
        (tmp_path / path.name).write_bytes(gzip.compress(b"".join(lines)))
    done = recipe("multi30k", "--", *TINY, "--max-update", "2", DATA=tmp_path, OUT=tmp_path / "out", BPE_SIZE=500,
                  GENERATE_OPTIONS="--max-len-b 20")  # fmt: skip
    assert "nrefs:1|case:lc|eff:no|tok:none|smooth:exp" in done.stdout
    assert "train.de holds 200 sentence pairs, the published corpus at least 29000" in done.stderr, (
        "a shortened corpus is said to be one"
    )


def test_real_iwslt15_has_no_training_data(real_data, tmp_path):
    source = real_data / "iwslt15-en-vi"
    if not source.is_dir():
        pytest.skip("NO REAL DATA: %s is no folder" % source)
    if (source / "train.en.gz").is_file():
        pytest.skip("the folder holds the training data")
    assert "train.en.gz (or train.en) is missing" in complaint(
        recipe("iwslt15_en_vi", check=False, DATA=source, OUT=tmp_path)
    )


def test_real_iwslt14_has_no_training_data(real_data, tmp_path):
    source = real_data / "iwslt14-de-en"
    if not source.is_dir():
        pytest.skip("NO REAL DATA: %s is no folder" % source)
    if (source / "train.en.gz").is_file():
        pytest.skip("the folder holds the training data")
    assert "no train.de.gz, train.en.gz (or unzipped)" in complaint(
        recipe("iwslt14_de_en", check=False, DATA=source, OUT=tmp_path)
    )
