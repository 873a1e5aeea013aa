"""The recipes of document classification, on miniature corpora in the form of the published ones, and their YAML."""

import gzip
import io
import json
import random
import shlex
import sys
import tarfile

import pytest
from omegaconf import OmegaConf
from test_configs import composed, hydra_dir  # noqa: F401 (a fixture)
from test_recipes import RECIPES, complaint, files_of, recipe

sys.path.insert(0, str(RECIPES))

import document_baseline
import document_table
import polarity
from parallel_text import CorpusError

TINY = "--word-embed-dim 8 --word-hidden-size 4 --sentence-hidden-size 4 --max-epoch 1".split()


def reviews(per_fold=4):
    """Reviews of all ten folds, of which one word tells the label: name, label, sentences."""
    rng = random.Random(1)
    for number in range(10 * per_fold):
        for label in ("neg", "pos"):
            sentences = [
                " ".join(rng.choice("the a film is so and".split()) for _ in range(rng.randint(1, 6))) + " ."
                for _ in range(rng.randint(1, 4))
            ]
            sentences[rng.randrange(len(sentences))] += " bad" if label == "neg" else " good"
            yield "cv%d%02d_%05d" % (number % 10, number // 10, rng.randrange(10**5)), label, sentences


def polarity_jsonl(folder):
    lines = [json.dumps({"name": n, "label": label, "sentences": s}) + "\n" for n, label, s in reviews()]
    (folder / "polarity.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))


def polarity_archive(folder):
    with tarfile.open(folder / "review_polarity.tar.gz", "w:gz") as archive:
        for name, label, sentences in reviews():
            data = ("\n".join(sentences) + " caf\xe9\n").encode("latin-1")
            member = tarfile.TarInfo("txt_sentoken/%s/%s.txt" % (label, name))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def yelp(folder):
    rng = random.Random(2)
    for split, count in (("train", 40), ("dev", 10), ("test", 10)):
        lines = []
        for number in range(count):
            text = " <sssss> ".join(
                " ".join(rng.choices("good bad food".split(), k=3)) for _ in range(rng.randint(1, 3))
            )
            lines.append("user%d\t\tplace\t\t%d\t\t%s\n" % (number, 1 + number % 5, text))
        (folder / ("yelp-2013-%s.txt.ss" % split)).write_text("".join(lines))


def commands(out):
    return [shlex.split(line) for line in out.splitlines() if line and not line.startswith("[")]


def test_dry_run_shows_every_command_of_every_fold_and_writes_nothing(tmp_path):
    out = recipe("polarity_han", "--dry-run", "--", "--lr", "5e-4", OUT=tmp_path, FOLDS="3 9").stdout
    assert not list(tmp_path.iterdir())
    shown = commands(out)
    trainings = [command for command in shown if command[0] == "fairseq-train"]
    assert len(trainings) == 6 and all(command[-3:] == ["--lr", "5e-4", "--cpu"] for command in trainings)
    folders = [command[command.index("--save-dir") + 1] for command in trainings]
    assert folders == [
        str(tmp_path / fold / (arch + ".seed1"))
        for fold in ("fold3", "fold9")
        for arch in ("han", "han_flat", "han_mean")
    ]
    tools = [command[0] for command in shown]
    assert tools.count("curl") == 2 and tools.count("fairseq-preprocess") == 4
    out = recipe("yelp2013_han", "--dry-run", OUT=tmp_path, EMBEDDINGS="w.vec").stdout
    (training,) = (command for command in commands(out) if command[0] == "fairseq-train")
    assert training[training.index("--word-embeddings") + 1].endswith("/w.vec") and "gru" in training


@pytest.mark.parametrize("write", [polarity_jsonl, polarity_archive])
def test_folds_are_those_of_the_names(write, tmp_path):
    write(tmp_path)
    documents = polarity.read_reviews(tmp_path)
    assert len(documents) == 80
    splits = polarity.splits_of(documents, 9)
    assert {split: {document.id[2] for document in part} for split, part in splits.items()} == {
        "train": set("12345678"), "valid": {"0"}, "test": {"9"},
    }  # fmt: skip
    assert [len(part) for part in splits.values()] == [64, 8, 8]
    by_name = {document.id: document for document in documents if document.label == "pos"}
    name, _, sentences = [review for review in reviews() if review[1] == "pos"][7]
    expected = [sentence.split() for sentence in sentences]
    if write is polarity_archive:
        expected[-1].append("caf\xe9")
    assert by_name[name].sentences == expected


def test_damaged_corpora_are_one_line(tmp_path):
    with pytest.raises(CorpusError, match="has no reviews: expected review_polarity.tar.gz"):
        polarity.read_reviews(tmp_path)
    polarity_archive(tmp_path)
    path = tmp_path / "review_polarity.tar.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CorpusError, match="truncated or no archive"):
        polarity.read_reviews(tmp_path)
    path.unlink()
    (tmp_path / "polarity.jsonl").write_text('{"label": "pos", "sentences": ["a"], "name": "review1"}\n')
    with pytest.raises(CorpusError, match="review1, must be cvNNN"):
        polarity.splits_of(polarity.read_reviews(tmp_path), 0)


def test_recipe_runs_and_is_not_run_again(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    polarity_jsonl(data)
    settings = {"DATA": data, "OUT": out, "FOLDS": "1", "MODELS": "han_flat", "THRESHOLD": 1}
    done = recipe("polarity_han", "--", *TINY, **settings)
    table = (out / "table.md").read_text()
    assert table in done.stdout and "| `han_flat`" in table and "| TF-IDF" in table
    (run,) = json.loads((out / "table.json").read_text())["systems"]["han_flat"]["runs"]
    scores = json.loads((out / "fold1" / "han_flat.seed1" / "test.json").read_text())
    assert run["accuracy"] == scores["accuracy"] and run["documents"] == 8 and run["epochs"] == 1
    assert (out / "fold1" / "han_flat.seed1" / "test.html").read_text().count("<h2") == 5
    before = files_of(out)
    again = recipe("polarity_han", "prepare", "train", "evaluate", "baseline", "--", *TINY, **settings)
    assert again.stdout.count("done before") == 4
    assert {p: t for p, t in files_of(out).items() if p.suffix != ".lock"} == {
        p: t for p, t in before.items() if p.suffix != ".lock"
    }
    # a run is continued with its own options only
    line = complaint(recipe("polarity_han", "train", "--", *TINY, "--lr", "0.1", check=False, **settings))
    assert "other options" in line and "--lr 0.1" in line


def test_yelp_is_read_from_a_folder(tmp_path):
    data, out = tmp_path / "data", tmp_path / "out"
    (data / "emnlp").mkdir(parents=True)
    yelp(data / "emnlp")
    recipe("yelp2013_han", "prepare", DATA=data, OUT=out, THRESHOLD=1)
    text = out / "all" / "data" / "text"
    labels = (text / "train.label").read_text().split()
    assert len(labels) == 40 and set(labels) == set("12345")
    assert any("</s>" in line for line in (text / "train.input0").read_text().splitlines())
    assert len((out / "all" / "data" / "bin" / "label" / "dict.txt").read_text().splitlines()) >= 5
    (data / "emnlp" / "yelp-2013-dev.txt.ss").write_text("user\t\tplace\t\t7\t\ttext\n")
    done = recipe("yelp2013_han", "prepare", DATA=data, OUT=tmp_path / "b", check=False)
    assert done.returncode == 1 and "yelp-2013-dev.txt.ss, line 1" in done.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "environment", "parts"),
    [
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
        ("polarity_han", ["train"], {}, ["run the prepare stage first"]),
        ("polarity_han", ["evaluate"], {}, ["run the train stage first"]),
        ("polarity_han", ["baseline"], {}, ["run the prepare stage first"]),
        ("yelp2013_han", [], {"THRESHOLD": "few"}, ["THRESHOLD=few"]),
    ],
)
def test_mistakes_are_one_line(name, arguments, environment, parts, tmp_path):
    line = complaint(recipe(name, *arguments, check=False, OUT=tmp_path, **environment))
    assert line.startswith(name + ": ")
    assert all(part in line for part in parts), line


def test_table_has_mean_and_standard_deviation_over_folds(tmp_path):
    runs = [{"accuracy": a, "macro_f1": a - 1, "seconds_per_epoch": t} for a, t in ((80.0, 9), (84.0, 20), (85.0, 10))]
    # mean 83; deviations -3, 1, 2: sqrt(14 / 2) = 2.6458
    content = document_table.summary(runs)
    assert content["accuracy"] == 83 and content["accuracy_sd"] == pytest.approx(7**0.5, abs=1e-4)
    row = document_table.rows_of({"han": runs, "tfidf": [{"accuracy": 90.0, "macro_f1": 89.0}]})
    assert row[2].endswith("| 83.00 ± 2.65 | 82.00 ± 2.65 | 80.0, 84.0, 85.0 | 10 |")
    assert row[3].endswith("| 90.00 | 89.00 | 90.0 |  |")


def test_table_asks_for_what_is_missing(tmp_path):
    with pytest.raises(CorpusError, match="missing|cannot be read|No such file"):
        document_table.run_of(tmp_path / "tfidf.json", "test")
    (tmp_path / "tfidf.json").write_text("{}")
    with pytest.raises(CorpusError, match="holds no scores"):
        document_table.run_of(tmp_path / "tfidf.json", "test")


def test_baseline_finds_the_word_that_tells(tmp_path):
    for split, folds in (("train", "2345678"), ("valid", "1"), ("test", "0")):
        chosen = [review for review in reviews(8) if review[0][2] in folds]
        (tmp_path / f"{split}.input0").write_text("".join(" </s> ".join(s) + "\n" for _, _, s in chosen))
        (tmp_path / f"{split}.label").write_text("".join(label + "\n" for _, label, _ in chosen))
    result = document_baseline.evaluate(tmp_path, "test")
    assert result["accuracy"] == 100 and result["documents"] == 16
    (tmp_path / "test.label").write_text("pos\n")
    with pytest.raises(CorpusError, match="16 documents and 1 labels"):
        document_baseline.evaluate(tmp_path, "test")


def test_yaml_trains_what_the_recipe_trains(hydra_dir, tmp_path):  # noqa: F811
    """Key by key: what fairseq's parser makes of the recipe's command is what the YAML says."""
    yaml_says = composed("polarity_han")
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import fairseq_attn_plugin  # noqa: F401

    out = recipe("polarity_han", "train", "--dry-run", FOLDS="0", MODELS="han", OUT=tmp_path).stdout
    (command,) = (command for command in commands(out) if command[0] == "fairseq-train")
    parsed = options.parse_args_and_arch(options.get_training_parser(), command[1:])
    recipe_says = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed), resolve=True)
    for group in ("task", "criterion", "model", "optimizer", "lr_scheduler", "optimization", "checkpoint", "dataset"):
        for key, value in yaml_says[group].items():
            said = recipe_says[group][key]
            if key == "attention_score" and said is None:
                said = "additive"  # the model's own choice
            if key not in ("data", "save_dir", "adam_betas"):
                assert said == value, (group, key)
