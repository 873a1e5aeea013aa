"""fairseq-attn extract: the attention of every sentence is that of the model, whatever the batch and the model."""

import json
import shutil
from argparse import Namespace
from itertools import islice

import numpy as np
import pytest
import torch
from fairseq.models.transformer import TransformerModel, transformer_iwslt_de_en
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from models_for_tests import build, enlarged
from refusals import refuses
from training import generate

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference import extraction
from fairseq_attn_plugin.analysis.inference.attention_file import default_name
from fairseq_attn_plugin.analysis.inference.batches import batches_of
from fairseq_attn_plugin.analysis.inference.extraction import Extraction, extract
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence, SplitSentences, TextSentences
from fairseq_attn_plugin.analysis.records.files import open_records, partial_path
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import vocabulary_subwords

SIZES = {"embed_dim": 16, "ffn_embed_dim": 16, "attention_heads": 2, "layers": 2}
TRANSFORMER = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIZES.items()}
TRANSFORMER["encoder_layers"] = 1
STOCK_LSTM = {"decoder_hidden_size": 8, "encoder_bidirectional": False}


def task_of(data):
    languages = {"source_lang": "xx", "target_lang": "yy"}
    # what fairseq's command line takes from other groups of options
    others = {"dataset_impl": None, "required_seq_len_multiple": 1, "train_subset": "train"}
    return TranslationTask.setup_task(TranslationConfig(data=str(data), **languages, **others))


def loaded_of(data, arch, count=1, **options):
    """Untrained models: their attention is as good as any other to compare with."""
    task = task_of(data)
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        if arch == "transformer":
            args = Namespace(arch=arch, data="", **TRANSFORMER)
            transformer_iwslt_de_en(args)
            models.append(TransformerModel.build_model(args, task))
        else:
            models.append(build(arch, task, **options))
        enlarged(models[-1].eval(), 3)  # attention that is far from uniform
    return LoadedModels(models, task, "model.pt")


def alone(model, source, target, **options):
    """Oracle: log probabilities and attention of one sentence by itself, [T] and [T, N]."""
    eos = model.decoder.dictionary.eos()
    previous = torch.cat([target.new_tensor([eos]), target[:-1]])
    with torch.no_grad():
        output = model(source[None], torch.tensor([len(source)]), previous[None], **options)
    weights = output[1]["attn"][0] if isinstance(output[1], dict) else output[1]
    log_probs = model.get_normalized_probs(output, log_probs=True)[0]
    return log_probs[torch.arange(len(target)), target], weights[0]


ARCHITECTURES = [
    ("lstm_soft", {}),
    ("lstm_adm", {}),
    ("lstm", STOCK_LSTM),
    ("transformer", {}),
    ("lstm_latent", {"input_feeding": "context"}),
]


@pytest.mark.parametrize(("arch", "options"), ARCHITECTURES, ids=[arch for arch, _ in ARCHITECTURES])
def test_equals_each_sentence_by_itself(tiny_data, arch, options):
    loaded = loaded_of(tiny_data, arch, **options)
    sentences = SplitSentences(loaded, "test")
    records = list(extract(loaded, sentences, Extraction(max_tokens=100)))
    assert [record.id for record in records] == list(range(40))
    for record, sentence in zip(records, sentences(0)):
        scores, weights = alone(loaded.models[0], sentence.source, sentence.target)
        assert record.source == sentence.source_tokens and record.target == sentence.target_tokens
        np.testing.assert_allclose(record.attention, weights.numpy(), atol=1e-5)
        np.testing.assert_allclose(record.scores, scores.numpy(), atol=1e-4)
        assert record.attention.shape == (len(record.target) + 1, len(record.source) + 1)


def test_latent_models_give_prior_and_posteriors(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_latent", input_feeding="context")
    model = loaded.models[0]
    sentences = SplitSentences(loaded, "test")
    records = list(extract(loaded, sentences))
    for record, sentence in list(zip(records, sentences(0)))[:8]:
        assert tuple(record.weights) == ("attention", "posterior", "bayes")
        previous = torch.cat([sentence.target[-1:], sentence.target[:-1]])  # the end of the sentence comes first
        with torch.no_grad():
            _, weights = model.forced(sentence.source[None], previous[None], sentence.target[None])
        for name, found in record.weights.items():
            np.testing.assert_allclose(found, weights[name][0].numpy(), atol=2e-6)
    assert np.abs(records[0].weights["bayes"] - records[0].attention).max() > 1e-3
    without = loaded_of(tiny_data, "lstm_latent", input_feeding="context", latent_posterior="False")
    assert tuple(next(extract(without, sentences)).weights) == ("attention", "bayes")


def test_several_models_are_averaged(tiny_data):
    loaded = loaded_of(tiny_data, "lstm_soft", count=2)
    sentences = SplitSentences(loaded, "test")
    record, sentence = next(extract(loaded, sentences)), next(sentences(0))
    parts = [alone(model, sentence.source, sentence.target) for model in loaded.models]
    np.testing.assert_allclose(record.attention, (parts[0][1] + parts[1][1]).numpy() / 2, atol=2e-6)
    expected = torch.stack([scores.exp() for scores, _ in parts]).mean(0).log()
    np.testing.assert_allclose(record.scores, expected.numpy(), atol=1e-4)


def test_a_block_at_a_time(tiny_data, monkeypatch):
    """Sentences are read as they are needed, in blocks; what comes out does not depend on where a block ends."""
    loaded = loaded_of(tiny_data, "lstm_soft")
    whole = list(extract(loaded, SplitSentences(loaded, "test")))
    monkeypatch.setattr(extraction, "BLOCK", 7)
    read = []

    class Watched(SplitSentences):
        def __call__(self, start):
            for sentence in super().__call__(start):
                read.append(sentence.id)
                yield sentence

    records = extract(loaded, Watched(loaded, "test"), start=3)
    assert next(records).id == 3 and len(read) == 7
    for one, other in zip(whole[4:], records, strict=True):
        assert one.id == other.id
        np.testing.assert_allclose(one.attention, other.attention, atol=2e-6)


def test_text_keeps_words_that_the_model_does_not_know(tiny_data, tmp_path):
    loaded = loaded_of(tiny_data, "lstm_soft")
    (tmp_path / "in").write_text("ama neu cor\n\nbel\n")
    (tmp_path / "out").write_text("roc eun ama\nleb\n\n")
    records = list(extract(loaded, TextSentences(loaded, str(tmp_path / "in"), str(tmp_path / "out"))))
    assert [record.source for record in records] == [["ama", "neu", "cor"], [], ["bel"]]
    assert [record.target for record in records] == [["roc", "eun", "ama"], ["leb"], []]
    assert records[1].attention.shape == (2, 1)
    searched = extract(loaded, TextSentences(loaded, str(tmp_path / "in")), Extraction(beam=2))
    assert [record.id for record in searched] == [0, 1, 2]
    with pytest.raises(OptionError, match="--target-text is missing"):
        next(extract(loaded, TextSentences(loaded, str(tmp_path / "in"))))
    again = list(TextSentences(loaded, str(tmp_path / "in"), str(tmp_path / "out"))(1))
    assert [(one.id, one.source_tokens, one.target_tokens) for one in again] == [(1, [], ["leb"]), (2, ["bel"], [])]


@pytest.fixture(scope="module")
def checkpoint(zoo):
    return zoo("lstm_soft").last


def test_hypotheses_are_those_of_fairseq_generate(tiny_data, checkpoint, tmp_path):
    out = tmp_path / "beam.jsonl"
    cli.main(["extract", str(tiny_data), "--path", str(checkpoint), "--beam", "3", "--out", str(out), "--cpu"])
    records = open_records(out)
    assert records.header.name == "lstm_soft" and records.header.architecture == "lstm_soft"
    assert records.header.target == "beam 3" and records.header.sentences == 40
    search = {"lenpen": 1.0, "max_len_a": 0.0, "max_len_b": 200}  # those of headers of earlier versions
    assert records.header.options["generation"] == search
    printed = generate(tiny_data, checkpoint, "--beam", 3, "--print-alignment", "soft")
    references = (tiny_data.parent / "text" / "test.yy").read_text().splitlines()
    for record, reference in zip(records, references, strict=True):
        attention = [[float(p) for p in row.split(",")] for row in printed["A"][record.id][0].split()]
        assert " ".join(record.target) == printed["H"][record.id][1] and record.reference == reference
        np.testing.assert_allclose(record.attention, attention, atol=2e-4)  # printed with 4 digits


def test_goes_on_where_it_stopped_and_names_what_differs(tiny_data, checkpoint, tmp_path, capsys, monkeypatch):
    """A file that is there stays until the new one is complete; another text of the same length is another corpus."""
    out, text = tmp_path / "soft.jsonl", tmp_path / "in"
    command = ["extract", str(tiny_data), "--path", str(checkpoint), "--cpu", "--out", str(out)]
    cli.main(command)
    complete = out.read_text()
    assert "attention of lstm_soft (attention) for 40 sentences" in capsys.readouterr().out
    cli.main(command)
    assert "is complete already" in capsys.readouterr().out
    lines = complete.splitlines(keepends=True)
    out.unlink()
    partial_path(out).write_text("".join(lines[:18]) + lines[18][:30])
    with pytest.raises(OptionError, match="interrupted extraction of other options"):
        cli.main([*command, "--beam", "2"])
    cli.main(command)
    assert "40 sentences, 17 of them from an interrupted run" in capsys.readouterr().out
    resumed = [json.loads(line) for line in out.read_text().splitlines()]
    assert [values.get("id") for values in resumed[1:]] == list(range(40))
    for one, line in zip(resumed[1:], lines[1:]):
        np.testing.assert_allclose(one["attention"], json.loads(line)["attention"], atol=3e-5)
    with pytest.raises(OptionError, match="exists, and is of other options or another corpus; give --overwrite"):
        cli.main([*command, "--name", "other"])
    before = out.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(KeyError):
        patch.delitem(extraction.MATRICES, "loo")
        cli.main([*command, "--matrices", "loo", "--overwrite"])
    assert out.read_bytes() == before and not partial_path(out).exists()
    text.write_text("ama\nbel\n")
    command += ["--beam", "1", "--source-text", str(text)]
    cli.main([*command, "--overwrite"])
    text.write_text("ama\ncor\n")
    with pytest.raises(OptionError, match="of other options or another corpus"):
        cli.main(command)
    cli.main([*command, "--overwrite"])
    assert list(open_records(out))[1].source == ["cor"]


def test_text_gives_what_the_split_gives(tiny_data, checkpoint, tmp_path, capsys):
    """With BPE merges that join everything again, text comes to the same tokens as the binarised split."""
    loaded = load_models(str(tiny_data), str(checkpoint), cpu=True)
    text = tiny_data.parent / "text"
    (tmp_path / "codes").write_text("#version: 0.2\na m\nam a</w>\n")
    command = ["extract", str(tiny_data), "--path", str(checkpoint), "--cpu", "--source-text", str(text / "test.xx")]
    cli.main([*command, "--target-text", str(text / "test.yy"), "--out", str(tmp_path / "text.jsonl")])
    of_split = extract(loaded, SplitSentences(loaded, "test"))
    for one, other in zip(open_records(tmp_path / "text.jsonl"), of_split, strict=True):
        assert (one.source, one.target) == (other.source, other.target)
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)  # five digits are written
    command += ["--bpe-codes", str(tmp_path / "codes"), "--case", "lower", "--tokenizer", "moses", "--beam", "1"]
    cli.main([*command, "--out", str(tmp_path / "bpe.jsonl")])
    assert "source tokens are not in the vocabulary: prepare the text" in capsys.readouterr().out
    records = list(open_records(tmp_path / "bpe.jsonl"))
    lines = (text / "test.xx").read_text().splitlines()
    assert [" ".join(record.source).replace("@@ ", "") for record in records] == lines
    assert any("@@" in token for record in records for token in record.source)


def test_what_a_training_read_and_validated_with_does_not_matter(tiny_data, checkpoint, tmp_path):
    """Padding to buckets, another format of the data, and BLEU by a tokeniser that is not installed."""
    saved = torch.load(checkpoint, weights_only=False)
    saved["cfg"]["task"].update(num_batch_buckets=2, dataset_impl="raw", eval_bleu=True, eval_bleu_detok="absent")
    torch.save(saved, tmp_path / "trained.pt")
    text = tiny_data.parent / "text"
    for language in ("xx", "yy"):
        shutil.copy(tiny_data / f"dict.{language}.txt", tmp_path)
        shutil.copy(text / f"test.{language}", tmp_path / f"test.xx-yy.{language}")
    found = []
    for data, path in ((tiny_data, checkpoint), (tiny_data, tmp_path / "trained.pt"), (tmp_path, checkpoint)):
        loaded = load_models(str(data), str(path), cpu=True)
        found.append(list(extract(loaded, SplitSentences(loaded, "test"))))
    for one, *others in zip(*found):
        for other in others:
            assert (one.source, one.target) == (other.source, other.target)
            np.testing.assert_array_equal(one.attention, other.attention)


def test_every_sentence_may_be_left_out(tiny_data, checkpoint, tmp_path, capsys):
    out, overrides = tmp_path / "none.jsonl", "{'max_source_positions': 1}"
    cli.main(["extract", str(tiny_data), "--path", str(checkpoint), "--model-overrides", overrides, "--out", str(out)])
    assert list(open_records(out)) == [] and "for 0 sentences; " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ("", "ama @-@ bel &amp; cor"),
        ("--moses-no-dash-splits", "ama-bel &amp; cor"),
        ("--moses-no-escape", "ama @-@ bel & cor"),
    ],
)
def test_options_of_moses(options, source, tiny_data, checkpoint, tmp_path):
    (tmp_path / "in").write_text("ama-bel & cor\n")
    command = ["extract", str(tiny_data), "--path", str(checkpoint), "--cpu", "--source-text", str(tmp_path / "in")]
    cli.main([*command, "--beam", "1", "--out", f"{tmp_path}/x.jsonl", "--tokenizer", "moses", *options.split()])
    assert [" ".join(record.source) for record in open_records(tmp_path / "x.jsonl")] == [source]


@refuses(
    ("--out x.txt", "must end in .jsonl"),
    ("--beam 0", "--beam 0: must be at least 1"),
    ("--lenpen 2", "--lenpen 2.0: without --beam nothing is translated"),
    ("--target-text x", "needs --source-text, which it translates"),
    ("--source-text in", "needs --target-text, or --beam N"),
    ("--source-text in --gen-subset test --beam 1", "choose one of the two"),
    ("--source-text in --target-text out", "has 1 lines, .*in has 2"),
    ("--source-text empty --beam 1", "has no sentence"),
    ("--source-text . --beam 1", "must be a regular file"),
    ("--source-text in --beam 1 --bpe-codes a --sentencepiece-model b", "give one of them, not both"),
)
def test_mistakes_are_one_line(options, tiny_data, checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("in", "ama\nbel\n"), ("out", "ama\n"), ("empty", "")):
        (tmp_path / name).write_text(text)
    command = ["extract", str(tiny_data), "--path", str(checkpoint), "--cpu", "--out", "x.jsonl"]
    yield lambda: cli.main([*command, *options.split()])
    assert not list(tmp_path.glob("x.*"))


def test_long_hypotheses_are_forced_in_batches_of_their_own(tiny_data, monkeypatch):
    """A model that does not end: each sentence has a hypothesis of 200 subwords."""
    loaded = loaded_of(tiny_data, "lstm_soft")
    loaded.models[0].decoder.fc_out.bias.data[loaded.task.target_dictionary.eos()] = -1e4
    sizes = []

    def force(models, sample, *args):
        sizes.append(sample["target"].numel())
        return original(models, sample, *args)

    original = extraction.force
    monkeypatch.setattr(extraction, "force", force)
    corpus = SplitSentences(loaded, "test")
    records = list(extract(loaded, lambda start: islice(corpus(start), 12), Extraction(beam=1, max_tokens=1000)))
    assert len(records) == 12 and all(len(record.target) == 200 for record in records) and max(sizes) <= 1005


def test_every_hypothesis_counts_in_a_batch():
    sentences = [SourceSentence(number, torch.ones(5), None, [], None) for number in range(4)]
    assert [[len(batch) for batch in batches_of(sentences, 20, beam)] for beam in (1, 2)] == [[4], [2, 2]]


def test_a_model_without_attention_is_refused(tiny_data, tmp_path):
    loaded = loaded_of(tiny_data, "lstm", **STOCK_LSTM, decoder_attention="0")
    with pytest.raises(OptionError, match="returns no attention of source words"):
        next(extract(loaded, SplitSentences(loaded, "test")))


def test_names(tiny_data):
    assert default_name("runs/soft/checkpoint_best.pt:runs/b.pt") == "soft"
    assert default_name("runs/adm/checkpoints/checkpoint_best.pt") == "adm"
    assert vocabulary_subwords(task_of(tiny_data).source_dictionary) == "none"
