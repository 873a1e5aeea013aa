"""First-order alignments through the real command-line tools: train, translate, score, align, extract."""

import pytest
import torch
from training import SIZES, generate, mistake, right_lines, soft_weights, training_command
from training import train as train_with

from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.cli import main

OPTIONS = "--arch lstm_latent_first_order_small --attention-hidden-dim 32 --criterion latent_alignment".split()
OPTIONS += [*SIZES, "--log-format", "json"]


@pytest.fixture(scope="module")
def trained(tiny_data, tmp_path_factory):
    options = [*OPTIONS, "--objective", "first-order", "--soft-updates", 100, "--jump-window", 3, "--seed", 1]
    return train_with(tiny_data, tmp_path_factory.mktemp("first_order"), *options, updates=300)


def test_learns_translates_and_scores(trained, tiny_data):
    """The translation is the reverse: the jumps that are learned go back by one word."""
    assert trained.validations[-1]["valid_ppl"] < 1.3
    found = generate(tiny_data, trained.best, "--beam", 4)
    assert len(right_lines(found)) >= 0.9 * len(found["T"])
    forced = generate(tiny_data, trained.best, "--score-reference")
    for number in right_lines(found):
        assert float(found["H"][number][0]) == pytest.approx(float(forced["H"][number][0]), abs=2e-3)
    jumps = torch.load(trained.best, weights_only=False)["model"]["decoder.jumps"]
    assert jumps.argmax() == 2  # of -3 to 3: -1


def test_posterior_alignments(trained, tiny_data, tmp_path):
    options = ["--score-reference", "--print-alignment", "soft"]
    weights = [
        soft_weights(generate(tiny_data, trained.best, *options, "--latent-alignment", kind)["A"])
        for kind in ("prior", "bayes")
    ]
    assert weights[0] != weights[1]
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for rows in weights[1] for row in rows)
    out = tmp_path / "records.jsonl"
    main(["extract", str(tiny_data), "--path", str(trained.best), "--out", str(out), "--gen-subset", "test", "--cpu"])
    assert open_records(out).header.weights == ("attention", "bayes")


def test_another_criterion_is_refused(tiny_data, tmp_path):
    command = training_command(tiny_data, tmp_path, *OPTIONS, "--criterion", "cross_entropy", updates=2)
    mistake(command, ["--criterion cross_entropy", "--objective first-order"])
