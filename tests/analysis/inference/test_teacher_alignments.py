"""Alignments that a model is taught, learns, and teaches in turn; every method finds them, whatever the batch."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from in_process import run_tool
from training import SIZES, TRAINING

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import METHODS
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, read_gold
from fairseq_attn_plugin.analysis.inference.attributions import as_weights
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR, run_cli


def test_values_become_weights():
    values = torch.tensor([[3.0, -1.0, 1.0], [-2.0, -1.0, -3.0], [0.0, 0.0, 0.0]])
    expected = torch.stack([torch.tensor([0.75, 0.0, 0.25]), values[1].softmax(0), torch.ones(3) / 3])
    torch.testing.assert_close(as_weights(values), expected)
    assert as_weights(torch.zeros(0, 3)).shape == (0, 3)


@pytest.fixture(scope="module")
def gold(tiny_data, tmp_path_factory):
    """The tiny corpus translates words one by one, in the opposite order."""
    path = tmp_path_factory.mktemp("gold") / "gold"
    lines = (tiny_data.parent / "text" / "test.xx").read_text().splitlines()
    lengths = [len(line.split()) for line in lines]
    path.write_text("".join(" ".join(f"{n - 1 - j}-{j}" for j in range(n)) + "\n" for n in lengths))
    return path


def error_rate(links, gold):
    return alignment_error_rate([one.sure for one in read_gold(links)], read_gold(gold)).aer


@pytest.mark.parametrize(
    ("method", "most"), [("attention", 0.25), ("posterior", 0.25), ("saliency", 0.25), ("loo", 0.5)]
)
def test_a_model_that_reverses(zoo, tiny_data, gold, tmp_path, method, most):
    model = [str(tiny_data), "--path", str(zoo("reversal").last), "--cpu", "--method", method]
    main(["align", *model, "--out", str(tmp_path / "links")])
    assert error_rate(tmp_path / "links", gold) < most
    # records with the matrix give the same links without the model
    matrices = ["--matrices", METHODS[method]] if METHODS[method] else []
    main(["extract", *model[:4], "--out", str(tmp_path / "all.jsonl"), *matrices])
    main(["align", str(tmp_path / "all.jsonl"), "--method", method, "--out", str(tmp_path / "again")])
    assert (tmp_path / "again").read_text() == (tmp_path / "links").read_text()
    # and so do those that are put into a copy of the data folder
    data, out = str(shutil.copytree(tiny_data, tmp_path / "bin")), str(tmp_path / "taught")
    main(["align", data, *model[1:], "--gen-subset", "test", "--into-data", "--out", out])
    assert error_rate(out, gold) < most


def test_matrices_do_not_depend_on_the_batch(zoo, tiny_data, tmp_path):
    """Of stock lstm, which moves its columns; rows sum to one."""
    found, text = [], []
    for side in ("xx", "yy"):
        lines = (tiny_data.parent / "text" / f"test.{side}").read_text().splitlines(keepends=True)[:9]
        (tmp_path / side).write_text("".join(lines))
        text.append(str(tmp_path / side))
    for number, tokens in enumerate((4000, 1)):
        out = str(tmp_path / f"{number}.jsonl")
        options = ["--matrices", "bayes", "loo", "saliency", "--max-tokens", str(tokens), "--out", out, "--cpu"]
        options += ["--source-text", text[0], "--target-text", text[1]]
        main(["extract", str(tiny_data), "--path", str(zoo("lstm").last), *options])
        found.append(list(open_records(out)))
    for one, other in zip(*found):
        assert set(one.weights) == {"attention", "bayes", "loo", "saliency"}
        for matrix in one.weights:
            np.testing.assert_allclose(one.weights[matrix], other.weights[matrix], atol=2e-4)
            np.testing.assert_allclose(one.weights[matrix].sum(1), 1, atol=1e-4)


GUIDED = "--criterion guided_alignment --load-alignments --alignment-weight 1 --alignment-anneal-updates 300".split()
UPDATES = 150
# the links of --into-data as text
TEXT, TRAIN = ["--level", "subwords", "--end", "null"], ["--gen-subset", "train", "--cpu"]


def reversal(n):
    return [(n - 1 - j, j) for j in range(n)]


@pytest.fixture(scope="module")
def aligned(tiny_data, tmp_path_factory):
    """The tiny corpus with its alignments; the first and the last sentence of the training data have none."""
    text, folder = tiny_data.parent / "text", tmp_path_factory.mktemp("aligned")
    prefixes = []
    for split in ("train", "valid"):
        lines = (text / f"{split}.xx").read_text().splitlines()
        links = [" ".join(f"{i}-{j}" for i, j in reversal(len(line.split()))) for line in lines]
        if split == "train":
            links[0] = links[-1] = ""
        (folder / f"{split}.align").write_text("".join(line + "\n" for line in links))
        for language in ("xx", "yy"):
            (folder / f"{split}.{language}").write_text((text / f"{split}.{language}").read_text())
        prefixes += [f"--{split}pref", folder / split]
    dictionaries = ["--srcdict", tiny_data / "dict.xx.txt", "--tgtdict", tiny_data / "dict.yy.txt"]
    run_cli(
        *("fairseq-preprocess", "--source-lang", "xx", "--target-lang", "yy", "--destdir", folder / "bin"),
        *("--align-suffix", "align", *prefixes, *dictionaries),
    )
    return folder / "bin"


def train(data, folder, *options):
    """The log lines of a training: (kind, metrics), kinds train_inner, train and valid."""
    words = ["--user-dir", USER_DIR, "--save-dir", folder, "--arch", "lstm_soft", *SIZES, *TRAINING, *options]
    done = run_tool("fairseq-train", data, *words, "--log-format", "json")
    lines = re.findall(r"\| (train_inner|train|valid) \| (\{.*\})", done.stdout)
    return [(kind, json.loads(text)) for kind, text in lines]


@pytest.fixture(scope="module")
def guided(aligned, tmp_path_factory):
    """A model that was trained with alignments: its folder, and its log."""
    folder = tmp_path_factory.mktemp("guided")
    return folder, train(aligned, folder, *GUIDED, "--max-update", UPDATES)


def test_learns_the_alignments_it_is_given(guided):
    _, log = guided
    valid = [values for kind, values in log if kind == "valid"]
    losses = [float(values["valid_alignment_loss"]) for values in valid]
    assert losses[-1] < 0.4 * losses[0]
    assert float(valid[-1]["valid_alignment_accuracy"]) > 85
    assert float(valid[-1]["valid_loss"]) == float(valid[-1]["valid_nll_loss"])
    trained = [values for kind, values in log if kind == "train"]
    assert float(trained[0]["train_loss"]) > float(trained[0]["train_nll_loss"]) + 0.5
    assert float(trained[-1]["train_alignment_accuracy"]) > 80 and "train_ppl" in trained[-1]
    assert "valid_alignment_weight" not in valid[-1]


def test_teacher_aligns_as_it_was_taught(guided, aligned, tiny_data, tmp_path, capsys):
    """Training data in the order of the corpus; batches are in another one, and padded on the left."""
    checkpoint, text = guided[0] / "checkpoint_last.pt", tiny_data.parent / "text"
    cli.main(["align", str(aligned), "--path", str(checkpoint), "--out", str(tmp_path / "train.align"), *TEXT, *TRAIN])
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'train.align'}: ")
    found = read_gold(tmp_path / "train.align")
    lengths = [len(line.split()) for line in (text / "train.xx").read_text().splitlines()]
    gold = [GoldAlignment(frozenset(reversal(n)), frozenset(reversal(n))) for n in lengths]
    assert len(found) == len(gold)
    assert alignment_error_rate([item.sure for item in found], gold).aer < 0.15
    # small batches, and an ensemble of the same model twice, change nothing
    again = [str(tmp_path / "again"), "--max-tokens", "40", *TEXT, *TRAIN]
    cli.main(["align", str(aligned), "--path", f"{checkpoint}:{checkpoint}", "--out", *again])
    assert read_gold(tmp_path / "again") == found


def test_both_directions(guided, aligned, tiny_data, tmp_path):
    """A teacher of the other direction reads the same data folder; what both say is a part of what either says."""
    checkpoint, back = str(guided[0] / "checkpoint_last.pt"), tmp_path / "back"
    train(tiny_data, back, "--source-lang", "yy", "--target-lang", "xx", "--max-update", 20)
    valid, data = ["--gen-subset", "valid", "--cpu"], str(shutil.copytree(aligned, tmp_path / "bin"))
    both = ["--path", checkpoint, "--reverse", str(back / "checkpoint_last.pt"), "--into-data", "--overwrite", *valid]
    cli.main(["align", data, *both, "--symmetrize", "intersection", "--out", str(tmp_path / "both")])
    cli.main(["align", str(aligned), "--path", checkpoint, *valid, *TEXT, "--out", str(tmp_path / "forward")])
    found, forward = (read_gold(tmp_path / name) for name in ("both", "forward"))
    assert any(one.sure for one in found) and all(one.sure <= other.sure for one, other in zip(found, forward))
    with pytest.raises(OptionError, match="--reverse .*: translates xx-yy, must translate yy-xx, the opposite"):
        cli.main(["align", data, "--path", checkpoint, "--reverse", checkpoint, "--into-data", "--overwrite", *valid])


def test_into_the_data_folder(guided, tiny_data, tmp_path, capsys):
    """What is put into a folder of plain data is what --load-alignments finds there."""
    data = shutil.copytree(tiny_data, tmp_path / "bin")
    command = [str(data), "--path", str(guided[0] / "checkpoint_last.pt"), "--gen-subset", "valid", "--cpu"]
    cli.main(["align", *command, "--into-data"])
    assert {path.name for path in data.glob("*align*")} == {"valid.align.xx-yy.idx", "valid.align.xx-yy.bin"}
    cli.main(["align", *command, *TEXT, "--out", str(tmp_path / "text")])
    stored = data_utils.load_indexed_dataset(str(data / "valid.align.xx-yy"), None, "mmap")
    pairs = [sorted(map(tuple, item.view(-1, 2).tolist())) for item in stored]
    assert pairs == [sorted(item.sure) for item in read_gold(tmp_path / "text")]
    with pytest.raises(OptionError, match=r"--into-data: .*valid\.align\.xx-yy\.idx exists; give --overwrite"):
        cli.main(["align", *command, "--into-data"])
    capsys.readouterr()
    cli.main(["align", *command, "--into-data", "--overwrite"])
    assert capsys.readouterr().out.startswith(f"{data}/valid.align.xx-yy: ")


def test_teacher_that_links_nothing(guided, tiny_data, monkeypatch):
    """A file without links would be one of no bytes, which fairseq cannot read."""
    module = "fairseq_attn_plugin.analysis.alignment.linking.record_links"
    monkeypatch.setattr(module, lambda record, linking: frozenset())
    command = [str(tiny_data), "--path", str(guided[0] / "checkpoint_last.pt"), "--gen-subset", "valid", "--cpu"]
    with pytest.raises(OptionError, match="links no word of valid: its attention is greatest on the end"):
        cli.main(["align", *command, "--into-data"])
    assert not list(tiny_data.glob("*align*"))


def test_sentences_that_are_too_long_have_no_links(guided, tiny_data, tmp_path, capsys):
    """The lines of all others stay where they are."""
    command = ["align", str(tiny_data), "--path", str(guided[0] / "checkpoint_last.pt"), "--cpu", "--out"]
    cli.main([*command, str(tmp_path / "all")])
    capsys.readouterr()
    cli.main([*command, str(tmp_path / "some"), "--model-overrides", "{'max_source_positions': 6}"])
    every, some = ((tmp_path / name).read_text().splitlines() for name in ("all", "some"))
    lengths = [len(line.split()) for line in (tiny_data.parent / "text" / "test.xx").read_text().splitlines()]
    assert some == [line if n <= 5 else "" for n, line in zip(lengths, every)]
    longer = sum(n > 5 for n in lengths)
    assert longer and f"; {longer} are not in the records or too long" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["data", "--into-data", "--model-overrides", "latent"], "--model-overrides latent: must be a dictionary"),
        (["data", "--into-data", "--convert"], "--path checkpoint.pt: excludes --convert; leave one out"),
        (["data:more", "--into-data"], "give one data folder at a time"),
        (["data", "--out", "x", "--overwrite"], "--overwrite: needs --into-data"),
    ],
)
def test_wrong_options(words, message):
    with pytest.raises(OptionError, match=message):
        cli.main(["align", *words, "--path", "checkpoint.pt"])
