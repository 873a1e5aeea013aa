"""Every sentence is in a batch; unknown words are replaced; a log has each line once."""

from argparse import Namespace
from collections import Counter

import numpy as np
import pytest
import torch
import training
from fairseq import utils
from fairseq.data import ConcatDataset, Dictionary, ListDataset, data_utils, indexed_dataset
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, OPTIMIZER_REGISTRY
from fairseq.optim.amp_optimizer import AMPOptimizer
from in_process import run_tool
from models_for_tests import build
from training import train

import fairseq_attn_plugin  # noqa: F401
from fairseq_attn_plugin.errors import OptionError

from cli import TINY

# ---- batches


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize(
    ("count", "limits"), [(40, {"max_tokens": 60}), (1014, {"max_tokens": 900}), (7, {"max_sentences": 5})]
)
@pytest.mark.parametrize("with_sizes", [True, False])
def test_every_index_is_in_one_batch_within_the_limits(count, limits, multiple, with_sizes):
    sizes = np.sort(np.random.RandomState(0).randint(2, 30, count)).astype(np.int64)
    order = np.random.RandomState(1).permutation(count)
    lengths = {int(i): int(n) for i, n in zip(order, sizes)}
    batches = data_utils.batch_by_size(
        order,
        lambda i: lengths[int(i)],
        num_tokens_vec=sizes if with_sizes else None,
        required_batch_size_multiple=multiple,
        **limits,
    )
    assert [int(i) for batch in batches for i in batch] == order.tolist()
    for batch in batches:
        assert len(batch) <= limits.get("max_sentences", len(batch))
        assert len(batch) * max(lengths[int(i)] for i in batch) <= limits.get("max_tokens", float("inf"))


# ---- unknown words


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """Raw data with words that the vocabularies lack, and a model that has seen little of them."""
    folder = tmp_path_factory.mktemp("raw")
    known, rare = ["ama", "bel", "cor", "dun"], ["kru", "lom"]
    for split, lines in (("train", 40), ("test", 8)):
        sentences = [[known[(n + k) % 4] for k in range(n % 3 + 1)] + [rare[n % 2]] for n in range(lines)]
        (folder / f"{split}.xx").write_text("".join(" ".join(s) + "\n" for s in sentences))
        (folder / f"{split}.yy").write_text("".join(" ".join(w[::-1] for w in s) + "\n" for s in sentences))
    command = ["fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--dataset-impl", "raw"]
    command += ["--trainpref", folder / "train", "--validpref", folder / "test", "--testpref", folder / "test"]
    run_tool(*command, "--destdir", folder / "bin", "--nwordssrc", 8, "--nwordstgt", 8)
    options = ["--dataset-impl", "raw", *TINY["lstm_soft"], "--embed-init-range", 1, "--disable-validation"]
    train(folder / "bin", folder, *options, "--lr", 0.02, "--batch-size", 10, updates=80)
    (folder / "lexicon.tsv").write_text("kru\turk\t0.9\t9\nkru\tother\t0.1\t1\n")
    return folder


def generate(folder, *options):
    """{sentence: words} of the hypotheses and of the alignments."""
    raw = ["--dataset-impl", "raw", "--beam", 1]
    found = training.generate(folder / "bin", folder / "checkpoint_last.pt", *raw, *options)
    return [{number: line[-1].split() for number, line in found[kind].items()} for kind in "HAT"]


def test_each_unknown_word_is_looked_up_or_copied(unknown):
    expected, links, _ = generate(unknown, "--print-alignment", "hard")
    source = [line.split() for line in (unknown / "test.xx").read_text().splitlines()]
    assert sum("<unk>" in words for words in expected.values()) > 4
    for number, words in expected.items():
        aligned = {int(target): source[number][int(place)] for place, target in (a.split("-") for a in links[number])}
        known = {place: {"kru": "urk"}.get(word, word) for place, word in aligned.items()}
        words[:] = [known[place] if word == "<unk>" else word for place, word in enumerate(words)]
    everything = [word for words in expected.values() for word in words]
    assert {"urk", "bel"} <= set(everything) and "<unk>" not in everything, "looked up, and copied"
    for kind in ("hard", "soft"):
        assert generate(unknown, "--replace-unk", unknown / "lexicon.tsv", "--print-alignment", kind)[0] == expected


def test_references_are_joined_as_the_translations_are(unknown):
    """Their letters are subwords of SentencePiece whose blanks are lost."""
    options = ["--replace-unk", unknown / "lexicon.tsv", "--print-alignment", "hard", "--remove-bpe", "sentencepiece"]
    lines = (unknown / "test.yy").read_text().splitlines()
    assert generate(unknown, *options)[2] == {number: [line.replace(" ", "")] for number, line in enumerate(lines)}


def test_fairseqs_option_without_file_or_alignment():
    assert utils.load_align_dict(None) is None
    assert utils.load_align_dict("@@ ") == {}, "what fairseq's parser makes of --replace-unk without a file"
    with pytest.raises(OptionError, match="--replace-unk /no/such/file: cannot be read: No such file"):
        utils.load_align_dict("/no/such/file")
    dictionary, nothing = Dictionary(), torch.empty(0)  # what the generator gives where no alignment was asked for
    known = torch.tensor([dictionary.add_symbol("known"), 2])
    assert utils.post_process_prediction(known, "haus", nothing, {}, dictionary)[1] == "known"
    unknown = torch.tensor([dictionary.unk(), 2])
    with pytest.raises(OptionError, match="^--replace-unk: needs the alignment of the words; add --print-"):
        utils.post_process_prediction(unknown, "haus", nothing, {}, dictionary)
    assert utils.post_process_prediction(unknown, "", [], {}, dictionary)[1] == "<unk>", "of an empty source"
    whole = utils.post_process_prediction(unknown, "▁in ▁Ber lin", [(2, 0)], {}, dictionary, "sentencepiece")
    assert whole[1] == "Berlin"


def test_subwords_are_looked_up_before_they_are_joined():
    dictionary = Dictionary()
    tokens = torch.tensor([dictionary.add_symbol("ber@@"), dictionary.add_symbol("lin"), dictionary.unk(), 2])
    source, pairs = "ber@@ lin haus", [(0, 0), (1, 1), (2, 2)]
    results = {
        remove: utils.post_process_prediction(tokens, source, pairs, {"haus": "house"}, dictionary, remove)
        for remove in (None, "@@ ")
    }
    assert [result[1] for result in results.values()] == ["ber@@ lin house", "berlin house"]
    assert all(result[2] is pairs for result in results.values())
    assert dictionary.string(results["@@ "][0]) == "berlin house"
    # without the option nothing has changed
    unchanged = utils.post_process_prediction(tokens, source, pairs, None, dictionary)
    assert unchanged[0] is tokens and unchanged[1] == "ber@@ lin <unk>"


# ---- moving averages


@pytest.mark.parametrize("fp32", [False, True])
def test_averages_of_parameters_have_whole_numbers_as_they_are(fp32):
    model = build("attn_lstm", attention="gaussian")  # whose rule is such a number, and whose sigma no parameter
    average = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.75, ema_fp32=fp32), None)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for value in model.state_dict().values():
        value.add_(1)
    average.step(model)
    buffers = dict(model.named_buffers())
    steps = {name: 1 if name in buffers else 0.25 for name in before}
    assert set(steps.values()) == {0.25, 1}
    expected = {name: value + steps[name] for name, value in before.items()}
    torch.testing.assert_close(dict(average.get_model().state_dict()), expected)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("fp32", [False, True])
def test_shared_embeddings_are_averaged_once(fp32, half):
    model = build("lstm_soft", share_decoder_input_output_embed=True, decoder_embed_dim=14)
    model = model.half() if half else model
    average = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.75, ema_fp32=fp32), None)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for value in model.parameters():
            value.add_(1)
    average.step(model)
    for name, value in average.get_model().state_dict().items():
        torch.testing.assert_close(value, before[name] + 0.25, atol=1e-3 if half else 1e-6, rtol=0)


# ---- data sets


def test_sets_are_joined_once_unless_more_is_asked():
    numbers = ListDataset([torch.tensor([5]), torch.tensor([6])], sizes=np.array([1, 1]))
    for ratios, expected in (([-1, 1], [1] * 4), ([2, 1], [1] * 6), (1, [1] * 4)):
        assert list(ConcatDataset([numbers, numbers], ratios).sizes) == expected


def test_cached_data_that_were_not_fetched_are_read(tmp_path):
    builder = indexed_dataset.IndexedDatasetBuilder(str(tmp_path / "x.bin"))
    for words in ([5, 6], [7]):
        builder.add_item(torch.tensor(words))
    builder.finalize(str(tmp_path / "x.idx"))
    found = indexed_dataset.IndexedCachedDataset(str(tmp_path / "x"))
    assert [found[number].tolist() for number in (1, 0, 1)] == [[8], [6, 7], [8]]  # such files count words from 1


# ---- log file


def test_lines_stand_in_the_file_once(tiny_data, tmp_path):
    options = [*TINY["lstm_soft"], "--no-save", "--batch-size", 200, "--log-interval", 1]
    train(tiny_data, tmp_path, *options, "--log-file", tmp_path / "log", updates=4)
    lines = Counter(line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("epoch "))
    assert set(lines.values()) == {1}, lines
    assert sum("valid on 'valid' subset" in line for line in lines) == 2
    assert {line[:9] for line in lines} == {"epoch 001", "epoch 002"}
    # the jobs of a hydra sweep are trainings of one process
    before = (tmp_path / "log").read_text()
    train(tiny_data, tmp_path, *options, "--log-file", tmp_path / "next", updates=1)
    assert "num_updates 1" in (tmp_path / "next").read_text() and (tmp_path / "log").read_text() == before


# ---- automatic mixed precision


@pytest.mark.parametrize("optimizer", ["sgd", "fused_adam"])
def test_amp_divides_gradients_by_the_scale_once(optimizer):
    parameter = torch.nn.Parameter(torch.ones(3))
    config = OPTIMIZER_DATACLASS_REGISTRY.get(optimizer, Namespace)()
    config.lr, config.momentum, config.weight_decay, config.adam_eps, config.adam_betas = [0.1], 0.0, 0.0, 0.5, "(0, 0)"
    sections = {"optimizer": config, "common": Namespace(fp16_init_scale=1, min_loss_scale=0)}
    amp = AMPOptimizer(Namespace(**sections), [parameter], OPTIMIZER_REGISTRY[optimizer](config, [parameter]))
    amp._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0)  # fairseq's is of a GPU
    gradient = torch.tensor([1.0, -2.0, 3.0])
    amp.backward((parameter * gradient).sum())
    amp.multiply_grads(0.5)
    amp.clip_grad_norm(0.0)
    amp.step()
    gradient /= 2
    moved = gradient if optimizer == "sgd" else gradient / (gradient.abs() + 0.5)
    torch.testing.assert_close(parameter.detach(), 1 - 0.1 * moved, rtol=1e-3, atol=0)
