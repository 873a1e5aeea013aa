"""Document classification from end to end: task, criterion, training, prediction, the page, and users' mistakes."""

import json
import math
import random
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from in_process import run_tool
from resuming import differences, train_and_die
from sklearn.metrics import accuracy_score, f1_score

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.drawing.document_page import draw_documents
from fairseq_attn_plugin.analysis.inference import classification as command
from fairseq_attn_plugin.analysis.inference.classification import (
    ClassificationScores,
    Classified,
    classify,
    load_classifier,
    split_samples,
    text_samples,
)
from fairseq_attn_plugin.criterions.document_classification import DocumentClassificationCriterion, macro_f1
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.documents import Document, documents_of, write_documents

from cli import USER_DIR, run_cli

WORDS = [f"w{n}" for n in range(20)]
LABELS = ["good", "bad", "odd"]
TINY = "--word-embed-dim 16 --word-hidden-size 8 --sentence-hidden-size 8"
TASK = "--task document_classification --criterion document_classification".split()
TRAIN = "--optimizer adam --lr 0.01 --batch-size 8 --required-batch-size-multiple 1 --num-workers 0 --cpu"


def corpus(count, seed):
    """One word of the document tells the label, somewhere in one of its sentences."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        label = LABELS[number % 3]
        sentences = [[rng.choice(WORDS) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 5))]
        sentence = rng.choice(sentences)
        sentence[rng.randrange(len(sentence))] = "is-" + label
        documents.append(Document(sentences, label, f"{seed}-{number}"))
    return documents


def preprocess(text, destdir, *options, splits=("train", "valid", "test")):
    flags = {"train": "--trainpref", "valid": "--validpref", "test": "--testpref"}
    for side in ("input0", "label"):
        prefixes = [part for split in splits for part in (flags[split], f"{text / split}.{side}")]
        run_cli("fairseq-preprocess", "--only-source", *prefixes, "--destdir", destdir / side, *options)


@pytest.fixture(scope="module")
def data(once):
    def make(root):
        for seed, (split, count) in enumerate([("train", 240), ("valid", 30), ("test", 31)]):
            write_documents(corpus(count, seed), root / "text" / split)
        preprocess(root / "text", root / "bin")

    return once("documents", make) / "bin"


def train(data, folder, *options, arch="han", task="document_classification", fails=False):
    return run_tool(
        *("fairseq-train", data, "--user-dir", USER_DIR, "--task", task, "--arch", arch, "--save-dir", folder),
        *(*TINY.split(), *TRAIN.split(), "--no-epoch-checkpoints", *options),
        fails=fails,
    )


@pytest.fixture(scope="module")
def trained(data, once):
    def make(folder):
        best = ["--best-checkpoint-metric", "macro_f1", "--maximize-best-checkpoint-metric"]
        done = train(data, folder, "--criterion", "document_classification", "--max-epoch", "6", *best)
        (folder / "log").write_text(done.stdout)

    folder = once("trained-on-documents", make)
    return SimpleNamespace(path=str(folder / "checkpoint_best.pt"), log=(folder / "log").read_text())


def test_a_training_that_is_interrupted_ends_as_a_whole_one(data, tmp_path):
    words = ["fairseq-train", data, "--user-dir", USER_DIR, *TASK, "--arch", "han", *TINY.split(), *TRAIN.split()]
    words += ["--batch-size", 40, "--max-epoch", 3, "--word-dropout", 0.2, "--save-interval-updates", 4, "--save-dir"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run_tool(*words, whole)
    for update in (6, 9, 14):
        train_and_die([*words, parts], update)
    run_tool(*words, parts)
    assert differences(whole / "checkpoint_last.pt", parts / "checkpoint_last.pt") == []


def test_training_learns_which_word_decides_and_logs_accuracy_and_macro_f1(trained, data):
    values = {
        name: [float(value) for value in re.findall(rf"valid on 'valid' subset.*\| {name} ([\d.]+)", trained.log)]
        for name in ("loss", "accuracy", "macro_f1")
    }
    assert {len(series) for series in values.values()} == {6}
    assert max(values["accuracy"]) >= 95 and max(values["macro_f1"]) >= 95
    assert "class_" not in trained.log, "counts are not shown"
    # the sentence with the word that decides mostly has the greatest weight of its document, by chance one in three
    classifier = load_classifier(str(data), trained.path, cpu=True)
    found = total = 0
    for item in classify(classifier, text_samples(classifier, corpus(60, 2))):
        (telling,) = (k for k, words in enumerate(item.sentences) if any(word.startswith("is-") for word in words))
        if len(item.sentences) > 1:
            total += 1
            found += int(np.argmax(item.sentence_weights)) == telling
    assert total > 30 and found >= 0.6 * total


def test_prediction_of_text_and_of_the_binarised_split_agree_and_are_what_validation_says(trained, data, tmp_path):
    source = tmp_path / "test.jsonl"
    documents = corpus(31, 2)
    source.write_text("".join(json.dumps({"label": d.label, "sentences": d.sentences}) + "\n" for d in documents))
    results = {}
    for name, where in (("text", ["--input", str(source)]), ("split", ["--gen-subset", "test"])):
        out, scores = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.json"
        args = [str(data), "--path", trained.path, *where, "--out", str(out), "--scores", str(scores), "--cpu"]
        cli.main(["classify", *args, "--batch-size", "7"])
        results[name] = [json.loads(line) for line in out.read_text().splitlines()], json.loads(scores.read_text())
    assert results["text"] == results["split"]
    lines, scores = results["text"]
    assert [d.sentences for d in documents_of(out)] == [d.sentences for d in documents], "it reads what it writes"
    assert [line["gold"] for line in lines] == [d.label for d in documents]
    assert [line["sentences"] for line in lines] == [d.sentences for d in documents]
    for line in lines:
        assert line["label"] == max(line["probabilities"], key=line["probabilities"].get)
        assert line["probability"] == line["probabilities"][line["label"]]
        assert sum(line["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert sum(line["sentence_weights"]) == pytest.approx(1, abs=1e-4)
        assert len(line["sentence_weights"]) == len(line["sentences"])
        for words, weights in zip(line["sentences"], line["word_weights"]):
            assert len(words) == len(weights) and sum(weights) == pytest.approx(1, abs=1e-4)
    gold, guess = ([line[key] for line in lines] for key in ("gold", "label"))
    assert scores["accuracy"] == pytest.approx(100 * accuracy_score(gold, guess), abs=1e-3)
    assert scores["macro_f1"] == pytest.approx(100 * f1_score(gold, guess, average="macro"), abs=1e-3)
    options = [*TASK, "--path", trained.path, "--valid-subset", "test", "--batch-size", "4"]
    output = run_tool("fairseq-validate", data, "--user-dir", USER_DIR, *options).stdout
    for name, digits in (("accuracy", 2), ("macro_f1", 2), ("loss", 3)):
        (value,) = re.findall(rf"test .*\| {name} ([\d.]+)", output)
        assert float(value) == pytest.approx(scores[name], abs=2 * 10**-digits)


def test_stock_fairseqs_task_and_criterion_train_a_flat_model_and_resume(data, tmp_path):
    options = ["--num-classes", "3", "--max-positions", "200", "--criterion", "sentence_prediction"]
    for epochs in ("1", "2"):
        done = train(data, tmp_path, *options, "--max-epoch", epochs, arch="han_flat", task="sentence_prediction")
    assert "Loaded checkpoint" in done.stdout and "epoch 002" in done.stdout
    classifier = load_classifier(str(data), str(tmp_path / "checkpoint_best.pt"), cpu=True)
    items = list(classify(classifier, split_samples(classifier, "test")))
    assert len(items) == 31 and all(item.sentence_weights is None for item in items)
    assert all(sum(map(sum, item.word_weights)) == pytest.approx(1, abs=1e-4) for item in items)


def test_macro_f1_is_of_the_whole_validation_set_not_a_mean_of_batches():
    assert math.isnan(macro_f1([0, 0], [0, 0], [0, 0]))
    rng = np.random.default_rng(2)
    gold, guess = rng.integers(3, size=50), rng.integers(3, size=50)
    logs = []
    for part in np.array_split(np.arange(50), [3, 20]):
        log = {"loss": 0.0, "sample_size": len(part), "ncorrect": int((gold[part] == guess[part]).sum())}
        for name, values in zip(
            ("hits", "labels", "predictions"),
            (gold[part][gold[part] == guess[part]], gold[part], guess[part]),
        ):
            log.update({f"class_{name}_{k}": torch.tensor(int((values == k).sum())) for k in range(3)})
        logs.append(log)
    # all batches at once, as of several workers, and one after the other
    for groups in ([logs], [logs[:1], logs[1:]]):
        with metrics.aggregate(new_root=True) as agg:
            for group in groups:
                DocumentClassificationCriterion.reduce_metrics(group)
        values = agg.get_smoothed_values()
        assert values["macro_f1"] == pytest.approx(100 * f1_score(gold, guess, average="macro"), abs=0.01)
        assert values["accuracy"] == pytest.approx(100 * accuracy_score(gold, guess), abs=0.01)


def test_long_documents_are_cut(trained, data):
    classifier = load_classifier(str(data), trained.path, cpu=True)
    classifier.task.cfg.max_positions = 6
    document = Document([["w1", "w2", "w3"], ["w4", "w5", "w6"], ["w7"]], None, "long")
    (sample,) = text_samples(classifier, [document])
    # three words and their end, two more words
    assert sample.sentences == [["w1", "w2", "w3"], ["w4", "w5"]] and len(sample.tokens) == 6 and sample.cut
    scores = ClassificationScores(classifier.labels)
    (item,) = classify(classifier, [sample])
    scores.add(item)
    assert "1 longer than --max-positions and cut" in str(scores)
    # the end of a sentence is the last symbol that fits
    classifier.task.cfg.max_positions = 4
    (sample,) = text_samples(classifier, [document])
    assert sample.sentences == [["w1", "w2", "w3"]]


def test_long_documents_of_a_split_are_cut_and_counted_or_refused(data, caplog):
    long = sum(sum(map(len, d.sentences)) + len(d.sentences) > 20 for d in corpus(30, 1))
    assert 0 < long < 30
    task = task_of(data, max_positions=20)
    task.load_dataset("valid")
    assert f"{long} of 30 documents of the split 'valid' have more than 20 symbols" in caplog.text
    assert max(len(task.dataset("valid")[k]["net_input.src_tokens"]) for k in range(30)) == 20
    with pytest.raises(OptionError, match=f"--max-positions 20: {long} of 30 .* --shorten-method truncate"):
        task_of(data, max_positions=20, shorten_method="none").load_dataset("valid")


def test_documents_without_words_are_classified(trained, data):
    classifier = load_classifier(str(data), trained.path, cpu=True)
    documents = [Document([]), Document([["w1"]]), Document([["never-seen", "words"]])]
    items = list(classify(classifier, text_samples(classifier, documents)))
    assert [item.sentence_weights for item in items] == [[], [1.0], [1.0]]
    (alone,) = classify(classifier, text_samples(classifier, documents[:1]))
    assert alone.probabilities == pytest.approx(items[0].probabilities, abs=1e-5)


def copied(data, tmp_path):
    shutil.copytree(data, tmp_path / "bin")
    return tmp_path / "bin"


def replaced(data, tmp_path, side, split, lines):
    """A copy of the data in which a split's side was made of other text, with the dictionary of the training."""
    folder = copied(data, tmp_path)
    (tmp_path / "text").write_text("".join(line + "\n" for line in lines))
    run_cli(
        "fairseq-preprocess", "--only-source", "--testpref", tmp_path / "text", "--srcdict", data / side / "dict.txt",
        "--destdir", tmp_path / "new",
    )  # fmt: skip
    for suffix in ("bin", "idx"):
        shutil.copy(tmp_path / "new" / f"test.{suffix}", folder / side / f"{split}.{suffix}")
    return folder


@pytest.mark.parametrize(
    ("side", "lines", "parts"),
    [
        ("label", ["good"] * 29 + ["new"], ["valid: 1 of 30 labels", "good", "line 30 is unknown"]),
        ("label", ["good"] * 28 + ["", "good"], ["1 of 30 labels", "line 29 is missing"]),
        ("label", ["good"] * 28 + ["good bad", "good"], ["line 29 is of several words"]),
        ("label", ["good"] * 29, ["30 documents and 29 labels", "same number of lines"]),
    ],
)
def test_labels_that_do_not_fit_are_one_line(side, lines, parts, data, tmp_path):
    folder = replaced(data, tmp_path, side, "valid", lines)
    with pytest.raises(OptionError) as error:
        task_of(folder).load_dataset("valid")
    assert all(part in str(error.value) for part in parts), error.value


def task_of(data, **options):
    from fairseq.tasks import TASK_DATACLASS_REGISTRY, setup_task
    from omegaconf import OmegaConf

    config = OmegaConf.structured(TASK_DATACLASS_REGISTRY["document_classification"])
    config = OmegaConf.merge(
        config,
        {"_name": "document_classification", "data": str(data), "seed": 1, "regression_target": False,
         "classification_head_name": "head", **options},
    )  # fmt: skip
    return setup_task(config)


def test_data_folders_that_cannot_be_used_are_one_line(data, tmp_path):
    cases = [
        (lambda: task_of(tmp_path), ["no input0/dict.txt", "fairseq-preprocess"]),
        (lambda: task_of(data, num_classes=2), ["--num-classes 2", "3 labels"]),
        (lambda: task_of(data, max_positions=0), ["--max-positions 0"]),
        (lambda: task_of(data, regression_target=True), ["--regression-target"]),
        (lambda: task_of(data).load_dataset("dev"), ["no split 'dev'", "test, train, valid"]),
    ]
    for call, parts in cases:
        with pytest.raises(OptionError) as error:
            call()
        assert all(part in str(error.value) for part in parts), error.value
    folder = copied(data, tmp_path)
    (folder / "input0" / "valid.bin").write_bytes(b"")
    with pytest.raises(OptionError, match="is empty; the split 'valid'"):
        task_of(folder).load_dataset("valid")


def test_text_without_sentences_is_pointed_out(data, tmp_path, caplog):
    task_of(data).load_dataset("valid")
    assert "more than one sentence" not in caplog.text
    folder = replaced(data, tmp_path, "input0", "valid", ["w1 w2 . w3"] * 30)
    task_of(folder).load_dataset("valid")
    assert "no document of the split 'valid' has more than one sentence" in caplog.text and "</s>" in caplog.text


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--input", "/no/file"], ["--input /no/file", "no such file"]),
        (["--gen-subset", "test", "--plot", "x.png"], ["--plot x.png: must end in .html"]),
        (["--gen-subset", "test", "--documents", "x"], ["--documents x", "from 0"]),
        (["--gen-subset", "test", "--plot", "PLOT.html", "--documents", "31"], ["--documents 31", "have 31 documents"]),
        (["--gen-subset", "test", "--separator", " "], ["--separator ' '"]),
    ],
)
def test_mistakes_of_the_command_are_one_line(options, parts, trained, data, tmp_path):
    options = [option.replace("PLOT", str(tmp_path / "plot")) for option in options]
    with pytest.raises(OptionError) as error:
        cli.main(["classify", str(data), "--path", trained.path, "--cpu", *options])
    assert all(part in str(error.value) for part in parts), error.value


def test_unknown_label_at_prediction_and_a_damaged_line_leave_no_output(trained, data, tmp_path):
    unknown = "good\ta b\nwonderful\tc\n", "line 2: the label 'wonderful' is unknown"
    for text, part in (unknown, ("good\ta\tb\n", "line 1")):
        source, out = tmp_path / "x.txt", tmp_path / "out.jsonl"
        source.write_text(text)
        with pytest.raises(OptionError, match=part):
            cli.main(
                ["classify", str(data), "--path", trained.path, "--cpu", "--input", str(source), "--out", str(out)]
            )
        assert not out.exists()


def test_labels_in_another_order_are_another_model(trained, data, tmp_path):
    """fairseq-preprocess orders labels by their number: without --srcdict new data have other classes."""
    shutil.copytree(data, tmp_path / "bin")
    path = tmp_path / "bin" / "label" / "dict.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(OptionError, match="in this order; binarise labels with --srcdict"):
        load_classifier(str(tmp_path / "bin"), trained.path, cpu=True)


def test_long_documents_of_a_split_are_counted(trained, data):
    classifier = load_classifier(str(data), trained.path, cpu=True)
    sizes = [len(sample.tokens) for sample in split_samples(classifier, "test")]
    classifier.task.cfg.max_positions = limit = sorted(sizes)[15]
    samples = list(split_samples(classifier, "test"))
    assert [sample.cut for sample in samples] == [size > limit for size in sizes]
    assert max(len(sample.tokens) for sample in samples) == limit


def test_inputs_are_not_overwritten_and_outputs_are_apart(trained, data, tmp_path):
    source = tmp_path / "x.txt"
    source.write_text("good\tw1 is-good\n")
    start = [str(data), "--path", trained.path, "--cpu", "--input", str(source)]
    for options, message in (
        (["--out", str(source)], "--out .*x.txt: is one of the files that are read"),
        (["--scores", trained.path], "--scores .*: is one of the files that are read"),
        (["--out", str(tmp_path / "a.html"), "--plot", str(tmp_path / "a.html")], "is named twice"),
    ):
        with pytest.raises(OptionError, match=message):
            cli.main(["classify", *start, *options])
    assert source.read_text() == "good\tw1 is-good\n"


def test_lines_with_and_without_labels(trained, data, tmp_path, capsys):
    (tmp_path / "x.txt").write_text("w1 is-good w2 . w3 w4\nbad\tis-bad\n")
    options = [data, "--path", trained.path, "--input", tmp_path / "x.txt", "--plot", tmp_path / "p.html"]
    cli.main(["classify", *map(str, options), "--cpu"])
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["label"] for line in lines] == ["good", "bad"]
    assert "2 documents, accuracy 100.00" in shown.err and "(of 1)" in shown.err
    assert [line["id"] for line in lines] == ["0", "1"]


def test_documents_are_counted_from_0_and_a_picture_pours_no_lines_on_a_terminal(
    trained, data, tmp_path, capsys, monkeypatch
):
    (tmp_path / "x.txt").write_text("good\tw1 is-good w2\nbad\tsecond is-bad IN CAPITALS\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    words = [data, "--path", trained.path, "--cpu", "--input", tmp_path / "x.txt", "--plot", tmp_path / "p.html"]
    cli.main(["classify", *map(str, words), "--documents", "1"])
    page = (tmp_path / "p.html").read_text()
    assert "second" in page and "is-good" not in page
    shown = capsys.readouterr()
    assert shown.out == "" and "2 documents, accuracy" in shown.err and " % of the words unknown" in shown.err


def item(**changes):
    """Sentence weights 0.64 and 0.36; words 0.25, 0.75 and 1."""
    values = {
        "id": "<7>", "label": "pos", "probability": 0.75, "probabilities": {"pos": 0.75, "neg": 0.25}, "gold": "neg",
        "sentences": [["a", "<b>"], ["$x_1$"]], "word_weights": [[0.25, 0.75], [1.0]], "sentence_weights": [0.64, 0.36],
    }  # fmt: skip
    return Classified(**{**values, **changes})


def test_html_is_escaped_and_self_contained(tmp_path):
    path = tmp_path / "p.html"
    words = ["<script>alert(1)</script>", '"quoted"', "עברית", "中文"]
    draw_documents([item(), item(sentences=[words], word_weights=[[0.25] * 4], sentence_weights=[1.0])], path)
    page = path.read_text(encoding="utf-8")
    assert (
        "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "&lt;b&gt;" in page and "&lt;7&gt;" in page
    )
    assert not re.search(r'(src|href)=(?!"data:|"#document-)|url\(|@import', page)
    assert page.count("<script") == 1 and "script-src 'sha256-" in page
    assert "עברית" in page and "label: neg, prediction: pos (75.0 %)" in page


def test_model_of_another_kind_is_refused(monkeypatch):
    loaded = ([torch.nn.Linear(1, 1)], None, None)
    monkeypatch.setattr(command.checkpoint_utils, "load_model_ensemble_and_task", lambda *a, **k: loaded)
    with pytest.raises(OptionError, match="is a Linear; must be a model of documents"):
        load_classifier("data", "x.pt", cpu=True)


def test_a_criterion_without_classes_is_one_line(data, tmp_path):
    assert "--criterion document_classification" in train(data, tmp_path, fails=True).error
