"""fairseq-attn align with a model: every method finds what a trained model has learned, whatever the batch."""

import shutil

import numpy as np
import pytest
import torch

from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import METHODS
from fairseq_attn_plugin.analysis.alignment.links import read_alignments
from fairseq_attn_plugin.analysis.inference.attributions import as_weights
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.cli import main


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
    return alignment_error_rate([one.sure for one in read_alignments(links)], read_alignments(gold)).aer


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
