"""Document classification: task, criterion, training, prediction and mistakes; every measure of its faithfulness."""

import json
import math
import random
import re
import shutil
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from in_process import run_tool
from refusals import refuses
from scipy.stats import kendalltau
from sklearn.metrics import accuracy_score, f1_score

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference import classification as command
from fairseq_attn_plugin.analysis.inference.classification import (
    ClassificationScores,
    classify,
    load_classifier,
    split_samples,
    text_samples,
)
from fairseq_attn_plugin.analysis.inference.faithfulness import Means, Measuring, document_faithfulness, word_gradients
from fairseq_attn_plugin.criterions.document_classification import DocumentClassificationCriterion, macro_f1
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.documents import Document, documents_of, write_documents

from cli import USER_DIR

WORDS = [f"w{n}" for n in range(20)]
TINY = "--word-embed-dim 16 --word-hidden-size 8 --sentence-hidden-size 8"
TASK = "--task document_classification --criterion document_classification".split()
TRAIN = "--optimizer adam --lr 0.01 --batch-size 8 --required-batch-size-multiple 1 --num-workers 0 --cpu"


def corpus(count, seed):
    """One word of the document tells the label, somewhere in one of its sentences."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        label = ["good", "bad", "odd"][number % 3]
        sentences = [[rng.choice(WORDS) for _ in range(rng.randint(1, 9))] for _ in range(rng.randint(1, 5))]
        sentence = rng.choice(sentences)
        sentence[rng.randrange(len(sentence))] = "is-" + label
        documents.append(Document(sentences, label, f"{seed}-{number}"))
    return documents


@pytest.fixture(scope="module")
def data(once):
    def make(root):
        for seed, (split, count) in enumerate([("train", 240), ("valid", 30), ("test", 31)]):
            write_documents(corpus(count, seed), root / "text" / split)
        for side in ("input0", "label"):
            splits = [f"--{split}pref={root}/text/{split}.{side}" for split in ("train", "valid", "test")]
            run_tool("fairseq-preprocess", "--only-source", *splits, "--destdir", root / "bin" / side)

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
        done = train(data, folder, "--criterion", "document_classification", "--max-epoch", "4", *best)
        (folder / "log").write_text(done.stdout)

    folder = once("trained-on-documents", make)
    return SimpleNamespace(path=str(folder / "checkpoint_best.pt"), log=(folder / "log").read_text())


def test_training_learns_which_word_decides_and_logs_accuracy_and_macro_f1(trained, classifier):
    for name in ("accuracy", "macro_f1"):
        values = re.findall(rf"valid on 'valid' subset.*\| {name} ([\d.]+)", trained.log)
        assert len(values) == 4 and max(map(float, values)) >= 95
    assert "class_" not in trained.log, "counts are not shown"
    # the sentence with the word that decides mostly has the greatest weight of its document, by chance one in three
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
    for line in lines:
        assert line["probability"] == line["probabilities"][line["label"]] == max(line["probabilities"].values())
        assert sum(line["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert sum(line["sentence_weights"]) == pytest.approx(1, abs=1e-4)
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
        counted = {"hits": gold[part][gold[part] == guess[part]], "labels": gold[part], "predictions": guess[part]}
        for name, values in counted.items():
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


def test_long_documents_are_cut(classifier):
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
    classifier.task.cfg.max_positions = 1000
    sizes = [len(sample.tokens) for sample in split_samples(classifier, "test")]
    classifier.task.cfg.max_positions = limit = sorted(sizes)[15]
    assert [sample.cut for sample in split_samples(classifier, "test")] == [size > limit for size in sizes]


def test_a_training_that_cuts_its_own_split_alone_does_not_lengthen_others(data, trained, tmp_path):
    saved = torch.load(trained.path, weights_only=False)
    saved["cfg"]["task"].update(max_positions=6, shorten_data_split_list="train")
    torch.save(saved, tmp_path / "cut.pt")
    samples = split_samples(load_classifier(str(data), str(tmp_path / "cut.pt"), cpu=True), "test")
    assert max(len(sample.tokens) for sample in samples) == 6


def test_long_documents_of_a_split_are_cut_and_counted_or_refused(data, caplog):
    long = sum(sum(map(len, d.sentences)) + len(d.sentences) > 20 for d in corpus(30, 1))
    assert 0 < long < 30
    task = task_of(data, max_positions=20)
    task.load_dataset("valid")
    assert f"{long} of 30 documents of the split 'valid' have more than 20 symbols" in caplog.text
    assert max(len(task.dataset("valid")[k]["net_input.src_tokens"]) for k in range(30)) == 20
    with pytest.raises(OptionError, match=f"--max-positions 20: {long} of 30 .* --shorten-method truncate"):
        task_of(data, max_positions=20, shorten_method="none").load_dataset("valid")


def test_documents_without_words_are_classified(classifier):
    documents = [Document([]), Document([["w1"]]), Document([["never-seen", "words"]])]
    items = list(classify(classifier, text_samples(classifier, documents)))
    assert [item.sentence_weights for item in items] == [[], [1.0], [1.0]]
    (alone,) = classify(classifier, text_samples(classifier, documents[:1]))
    assert alone.probabilities == pytest.approx(items[0].probabilities, abs=1e-5)


def replaced(data, tmp_path, side, lines):
    """A copy of the data in which a side of the split valid was made of other text, with the training's dictionary."""
    folder = shutil.copytree(data, tmp_path / "bin")
    (tmp_path / "text").write_text("".join(line + "\n" for line in lines))
    new, dictionary = tmp_path / "new", data / side / "dict.txt"
    words = ["--only-source", "--testpref", tmp_path / "text", "--srcdict", dictionary, "--destdir", new]
    run_tool("fairseq-preprocess", *words)
    for suffix in ("bin", "idx"):
        shutil.copy(new / f"test.{suffix}", folder / side / f"valid.{suffix}")
    return folder


@refuses(
    (["good"] * 29 + ["new"], "valid: 1 of 30 labels.*line 30 is unknown"),
    (["good"] * 28 + ["", "good"], "1 of 30 labels.*line 29 is missing"),
    (["good"] * 28 + ["good bad", "good"], "line 29 is of several words"),
    (["good"] * 29, "30 documents and 29 labels"),
)
def test_labels_that_do_not_fit_are_one_line(lines, data, tmp_path):
    task_of(replaced(data, tmp_path, "label", lines)).load_dataset("valid")


def task_of(data, **options):
    from fairseq.tasks import TASK_DATACLASS_REGISTRY, setup_task
    from omegaconf import OmegaConf

    config = OmegaConf.structured(TASK_DATACLASS_REGISTRY["document_classification"])
    given = {"_name": "document_classification", "data": str(data), "seed": 1, "regression_target": False}
    return setup_task(OmegaConf.merge(config, {**given, "classification_head_name": "head", **options}))


def test_data_folders_that_cannot_be_used_are_one_line(data, tmp_path):
    for call, message in [
        (lambda: task_of(tmp_path), "no input0/dict.txt"),
        (lambda: task_of(data, num_classes=2), "--num-classes 2.*3 labels"),
        (lambda: task_of(data, max_positions=0), "--max-positions 0"),
        (lambda: task_of(data, regression_target=True), "--regression-target"),
        (lambda: task_of(data).load_dataset("dev"), "no split 'dev'.*test, train, valid"),
    ]:
        with pytest.raises(OptionError, match=message):
            call()
    folder = shutil.copytree(data, tmp_path / "bin")
    (folder / "input0" / "valid.bin").write_bytes(b"")
    with pytest.raises(OptionError, match="valid.bin: is empty"):
        task_of(folder).load_dataset("valid")
    (folder / "label" / "dict.txt").write_text("")
    with pytest.raises(OptionError, match="label/dict.txt: has no label; prepare the labels anew"):
        task_of(folder)


def test_text_without_sentences_is_pointed_out(data, tmp_path, caplog):
    task_of(data).load_dataset("valid")
    assert "more than one sentence" not in caplog.text
    task_of(replaced(data, tmp_path, "input0", ["w1 w2 . w3"] * 30)).load_dataset("valid")
    assert "no document of the split 'valid' has more than one sentence" in caplog.text and "</s>" in caplog.text


@refuses(
    (["--input", "/no/file"], "--input /no/file: there is no such file"),
    (["--gen-subset", "test", "--plot", "p.html", "--documents", "31"], "--documents 31: .* have 31 documents"),
    (["--gen-subset", "test", "--separator", " "], "--separator ' '"),
    (["--gen-subset", "test", "--lowercase"], "--lowercase: is of --input"),
    (["--gen-subset", "test", "--out", "a.html", "--plot", "a.html"], "is named twice"),
    (["--input", "unknown", "--out", "out"], "line 2: the label 'wonderful' is unknown"),
    (["--input", "tabs", "--out", "out"], "line 1"),
)
def test_mistakes_of_the_command_are_one_line(options, trained, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unknown").write_text("good\ta b\nwonderful\tc\n")
    (tmp_path / "tabs").write_text("good\ta\tb\n")
    yield lambda: cli.main(["classify", str(data), "--path", trained.path, "--cpu", *options])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tabs", "unknown"]


def test_labels_in_another_order_are_another_model(trained, data, tmp_path):
    """fairseq-preprocess orders labels by their number: without --srcdict new data have other classes."""
    shutil.copytree(data, tmp_path / "bin")
    path = tmp_path / "bin" / "label" / "dict.txt"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    with pytest.raises(OptionError, match="in this order; binarise labels with --srcdict"):
        load_classifier(str(tmp_path / "bin"), trained.path, cpu=True)


def test_lines_with_and_without_labels(trained, data, tmp_path, capsys, monkeypatch):
    """Documents are counted from 0. A picture pours no lines on a terminal."""
    (tmp_path / "x.txt").write_text("w1 is-good w2 . w3 w4\nbad\tis-bad IN CAPITALS\n")
    words = [data, "--path", trained.path, "--input", tmp_path / "x.txt", "--plot", tmp_path / "p.html", "--cpu"]
    cli.main(["classify", *map(str, words)])
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [(line["id"], line["label"]) for line in lines] == [("0", "good"), ("1", "bad")]
    assert "2 documents, accuracy 100.00" in shown.err and "(of 1)" in shown.err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    cli.main(["classify", *map(str, words), "--documents", "1"])
    page, shown = (tmp_path / "p.html").read_text(), capsys.readouterr()
    assert "is-bad" in page and "is-good" not in page
    assert shown.out == "" and " % of the words unknown" in shown.err


def test_model_of_another_kind_is_refused(monkeypatch):
    loaded = ([torch.nn.Linear(1, 1)], None, None)
    monkeypatch.setattr(command.checkpoint_utils, "load_model_ensemble_and_task", lambda *a, **k: loaded)
    with pytest.raises(OptionError, match="is a Linear; must be a model of documents"):
        load_classifier("data", "x.pt", cpu=True)


def test_a_criterion_or_a_model_without_classes_is_one_line(data, tmp_path):
    assert "--criterion document_classification" in train(data, tmp_path, fails=True).error
    words = ["--user-dir", USER_DIR, *TASK, "--arch", "lstm_soft", "--save-dir", tmp_path, *TRAIN.split()]
    assert "--arch: is no model that classifies" in run_tool("fairseq-train", data, *words, fails=True).error


@pytest.fixture
def classifier(data, trained):
    return load_classifier(str(data), trained.path, cpu=True)


def log_prob(classifier, tokens):
    """Oracle: log p of the classes of one document, [C]."""
    head = classifier.task.cfg.classification_head_name
    logits, _ = classifier.model(torch.as_tensor(tokens)[None], classification_head_name=head)
    return logits[0, : len(classifier.labels)].log_softmax(-1)


def test_gradients_of_words_are_those_of_the_table(classifier):
    symbols, table = classifier.task.source_dictionary, classifier.model.embed_words.weight
    eos = symbols.eos()
    tokens = torch.tensor([5, 6, 7, eos, 8, 9, eos, 10, eos])  # no word occurs twice
    found = word_gradients(classifier, tokens, 1)
    (gradients,) = torch.autograd.grad(log_prob(classifier, tokens)[1], table)
    expected = (gradients * table).sum(1)[tokens].masked_fill(tokens.eq(eos), 0.0)
    torch.testing.assert_close(found, expected.detach(), atol=1e-6, rtol=1e-4)
    twice = torch.tensor([5, 5, eos])
    assert word_gradients(classifier, twice, 1)[0] != word_gradients(classifier, twice, 1)[1]


@torch.no_grad()
def test_loss_of_a_certain_mistake(classifier):
    (sample,) = text_samples(classifier, [Document([["w1"]], classifier.labels[0])])
    head = classifier.model.classification_heads[classifier.task.cfg.classification_head_name]
    for higher, bits in ((20, None), (200, 149)):  # float32 has no smaller probability
        head.bias.add_(torch.tensor([0.0, higher, 0.0]))
        scores = ClassificationScores(classifier.labels)
        scores.add(*classify(classifier, [sample]))
        expected = bits or -float(log_prob(classifier, sample.tokens)[0]) / math.log(2)
        assert expected > 20 and scores.summary()["loss"] == pytest.approx(expected, abs=1e-3)


@torch.no_grad()
def test_all_measures(classifier):
    samples = list(islice(split_samples(classifier, "test"), 11))
    results = list(document_faithfulness(classifier, samples, Measuring(top=(1,), draws=2)))
    assert [count for count, _ in results] == [8, 3]
    found, expected = results[-1][1], Means()
    eos = classifier.task.source_dictionary.eos()
    for sample, item in zip(samples, classify(classifier, samples)):
        whole = log_prob(classifier, sample.tokens)
        label = int(whole.argmax())
        tokens, sentences, start = sample.tokens.tolist(), [], 0
        for place, token in enumerate(tokens):
            if token == eos:
                sentences.append(list(range(start, place)))
                start = place + 1

        def drop(places, tokens=tokens, label=label):
            return log_prob(classifier, [token for n, token in enumerate(tokens) if n not in places])[label]

        levels = [("words", [[place] for place in one], row) for one, row in zip(sentences, item.word_weights)]
        for name, units, weights in (*levels, ("sentences", sentences, item.sentence_weights)):
            if len(units) < 2:
                continue
            losses = [float(whole[label] - drop(unit)) for unit in units]
            best = units[int(np.argmax(weights))]
            others = [place for unit in units if unit != best for place in unit]
            expected.add(f"{name} tau leave-one-out", kendalltau(weights, np.abs(losses)).statistic)
            expected.add(f"{name} comprehensiveness 1", float(whole[label].exp() - drop(best).exp()))
            expected.add(f"{name} sufficiency 1", float(whole[label].exp() - drop(others).exp()))
    assert len(expected.sums) == 6
    for name in expected.sums:
        # the oracle's weights are rounded to six digits, and its differences are of other batches: ranks may swap
        assert found[name] == pytest.approx(expected[name], abs=0.03 if "tau" in name else 1e-3), name
        assert found.counts[name] == expected.counts[name]
    assert found["words variation uniform"] > 0 and found["sentences variation permuted"] > 0
    assert -1 < found["words tau gradient"] < 1


def test_blocks_of_empty_documents(classifier):
    samples = list(islice(split_samples(classifier, "test"), 3))
    eos = classifier.task.source_dictionary.eos()
    empty = [samples[0]._replace(tokens=torch.tensor([eos]), sentences=[])] * 8
    options = Measuring(("gradient",), top=(1,), draws=1, permutations=1)
    alone, among = (list(document_faithfulness(classifier, read, options)) for read in (samples, [*empty, *samples]))
    assert [count for count, _ in among] == [8, 3]
    assert among[-1][1].as_dict() == alone[-1][1].as_dict()


def test_command_of_faithfulness(data, trained, tmp_path, capsys):
    call = ["faithfulness", str(data), "--path", str(trained.path), "--documents", "--sentences", "4"]
    cli.main([*call, "--cpu", "--out", str(tmp_path / "han.json")])
    found = json.loads((tmp_path / "han.json").read_text())
    assert found["sentences"] == 4 and "words tau gradient" in found["measures"]
    assert "4 documents" in capsys.readouterr().out
    cli.main([*call, "--cpu", "--out", str(tmp_path / "cut.json"), "--model-overrides", "{'max_positions': 3}"])
    assert json.loads((tmp_path / "cut.json").read_text())["measures"] != found["measures"]
    for words, message in (
        (["--beam", "5"], "--beam 5: --documents translates nothing"),
        (["--attribution", "saliency"], "--attribution saliency: is not for documents"),
        (["--model-overrides", "{'max_position': 3}"], "max_position: is no option of the model"),
    ):
        with pytest.raises(OptionError, match=message):
            cli.main([*call, *words])
