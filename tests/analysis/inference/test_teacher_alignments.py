"""Alignments that a model is taught, learns, and teaches in turn; every method finds them, whatever the batch."""

import shutil

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from models_for_tests import exactly
from refusals import refuses
from training import SIZES, train

from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import METHODS
from fairseq_attn_plugin.analysis.alignment.links import read_gold
from fairseq_attn_plugin.analysis.alignment.subword_links import binarize
from fairseq_attn_plugin.analysis.inference import loading
from fairseq_attn_plugin.analysis.inference.attributions import as_weights
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError


def test_values_become_weights():
    values = torch.tensor([[3.0, -1.0, 1.0], [-2.0, -1.0, -3.0], [0.0, 0.0, 0.0]])
    expected = torch.stack([torch.tensor([0.75, 0.0, 0.25]), values[1].softmax(0), torch.ones(3) / 3])
    torch.testing.assert_close(as_weights(values), expected)
    assert as_weights(torch.zeros(0, 3)).shape == (0, 3)


def reversals(data, split):
    """The links of a split: the tiny corpus translates words one by one, in the opposite order."""
    lines = (data.parent / "text" / f"{split}.xx").read_text().splitlines()
    return [" ".join(f"{n - 1 - j}-{j}" for j in range(n)) + "\n" for n in (len(line.split()) for line in lines)]


@pytest.fixture(scope="module")
def gold(tiny_data, tmp_path_factory):
    path = tmp_path_factory.mktemp("gold") / "gold"
    path.write_text("".join(reversals(tiny_data, "test")))
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


def test_matrices_do_not_depend_on_the_batch(zoo, tiny_data, tmp_path, monkeypatch):
    """Of stock lstm, which moves its columns; rows sum to one. In float64: log p hardly changes without a word."""
    monkeypatch.setattr(loading, "load_models", exactly(loading.load_models))
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
# the links of --into-data as text
TEXT = ["--level", "subwords", "--end", "null"]


def test_learns_the_alignments_it_is_given(tiny_data, tmp_path):
    """Where the first and the last sentence of the training data have none."""
    data = shutil.copytree(tiny_data, tmp_path / "bin")
    for split in ("train", "valid"):
        lines = reversals(tiny_data, split)
        if split == "train":
            lines[0] = lines[-1] = "\n"
        (tmp_path / split).write_text("".join(lines))
        binarize(str(tmp_path / split), str(data / f"{split}.align.xx-yy"))
    options = ["--arch", "lstm_soft", *SIZES, *GUIDED, "--log-format", "json"]
    valid = train(data, tmp_path / "guided", *options, updates=150).validations
    assert valid[-1]["valid_alignment_loss"] < 0.4 * valid[0]["valid_alignment_loss"]
    assert valid[-1]["valid_alignment_accuracy"] > 85 and "valid_alignment_weight" not in valid[-1]
    assert valid[-1]["valid_loss"] == valid[-1]["valid_nll_loss"]


def test_both_directions(zoo, tiny_data, tmp_path):
    """A teacher of the other direction reads the same data folder; what both say is a part of what either says."""
    checkpoint, data = str(zoo("reversal").last), str(shutil.copytree(tiny_data, tmp_path / "bin"))
    back = train(tiny_data, tmp_path / "back", "--arch", "lstm_soft", *SIZES, *"-s yy -t xx".split(), updates=20)
    valid = ["--gen-subset", "valid", "--cpu"]
    both = ["--path", checkpoint, "--reverse", str(back.last), "--into-data", *valid]
    main(["align", data, *both, "--symmetrize", "intersection", "--out", str(tmp_path / "both")])
    main(["align", str(tiny_data), "--path", checkpoint, *valid, *TEXT, "--out", str(tmp_path / "forward")])
    found, forward = (read_gold(tmp_path / name) for name in ("both", "forward"))
    assert any(one.sure for one in found) and all(one.sure <= other.sure for one, other in zip(found, forward))
    with pytest.raises(OptionError, match="--reverse .*: translates xx-yy, must translate yy-xx, the opposite"):
        main(["align", data, "--path", checkpoint, "--reverse", checkpoint, "--into-data", "--overwrite", *valid])


def test_into_the_data_folder(zoo, tiny_data, tmp_path, capsys):
    """What is put into a folder of plain data is what --load-alignments finds there; small batches change nothing."""
    data = shutil.copytree(tiny_data, tmp_path / "bin")
    command = ["align", str(data), "--path", str(zoo("reversal").last), "--gen-subset", "valid", "--cpu"]
    main([*command, "--into-data"])
    assert {path.name for path in data.glob("*align*")} == {"valid.align.xx-yy.idx", "valid.align.xx-yy.bin"}
    main([*command, *TEXT, "--max-tokens", "40", "--out", str(tmp_path / "text")])
    stored = data_utils.load_indexed_dataset(str(data / "valid.align.xx-yy"), None, "mmap")
    pairs = [sorted(map(tuple, item.view(-1, 2).tolist())) for item in stored]
    assert pairs == [sorted(item.sure) for item in read_gold(tmp_path / "text")]
    with pytest.raises(OptionError, match=r"--into-data: .*valid\.align\.xx-yy\.idx exists; give --overwrite"):
        main([*command, "--into-data"])
    capsys.readouterr()
    main([*command, "--into-data", "--overwrite"])
    assert capsys.readouterr().out.startswith(f"{data}/valid.align.xx-yy: ")


def test_teacher_that_links_nothing(zoo, tiny_data, monkeypatch):
    """A file without links would be one of no bytes, which fairseq cannot read."""
    module = "fairseq_attn_plugin.analysis.alignment.linking.record_links"
    monkeypatch.setattr(module, lambda record, linking: frozenset())
    command = [str(tiny_data), "--path", str(zoo("reversal").last), "--gen-subset", "valid", "--cpu"]
    with pytest.raises(OptionError, match="links no word of valid: its attention is greatest on the end"):
        main(["align", *command, "--into-data"])
    assert not list(tiny_data.glob("*align*"))


@refuses(
    (["data", "--into-data", "--model-overrides", "latent"], "--model-overrides latent: must be a dictionary"),
    (["data", "--into-data", "--convert"], "--path checkpoint.pt: excludes --convert; leave one out"),
    (["data:more", "--into-data"], "give one data folder at a time"),
    (["data", "--out", "x", "--overwrite"], "--overwrite: needs --into-data"),
)
def test_wrong_options(words):
    main(["align", *words, "--path", "checkpoint.pt"])
