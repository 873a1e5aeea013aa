"""Latent alignment through the real command-line tools: train, validate, generate, interactive, ensembles, errors."""

import json
import logging
import re

import gradient_variance
import pytest
import torch
from in_process import run_tool
from training import SIZES, generate, mistake, right_lines, soft_weights, training_command
from training import train as train_with

from cli import USER_DIR

LATENT = "--arch lstm_latent_small --attention-hidden-dim 32 --criterion latent_alignment".split()
LATENT += SIZES


@pytest.fixture(scope="module")
def trained(zoo):
    """Folder of a model trained with the exact ELBO, with its last line of validation."""
    model = zoo("latent")
    return model.folder, model.validations[-1]


@pytest.fixture(scope="module")
def ordinary(zoo):
    """Checkpoint of an ordinary model, trained for a moment."""
    return zoo("lstm_soft").last


def test_learns_and_logs(trained):
    _, valid = trained
    assert valid["valid_marginal_ppl"] == valid["valid_ppl"] < 1.3
    assert valid["valid_bound"] == pytest.approx(valid["valid_reconstruction"] + valid["valid_kl"], abs=1e-3)
    assert valid["valid_bound"] >= valid["valid_marginal"] - 1e-4
    assert valid["valid_prior_accuracy"] > 90 and valid["valid_posterior_accuracy"] > 90
    assert valid["valid_prior_entropy"] < 1.5 and "valid_posterior_entropy" in valid
    assert valid["valid_best_loss"] <= valid["valid_loss"]


def test_translates_alike_in_every_batch(trained, tiny_data):
    checkpoint = trained[0] / "checkpoint_best.pt"
    results = [
        generate(tiny_data, checkpoint, "--beam", 5, "--batch-size", size, "--print-alignment", "hard")
        for size in (1, 32)
    ]
    assert len(right_lines(results[0])) >= 0.9 * len(results[0]["T"])
    assert {i: h[1] for i, h in results[0]["H"].items()} == {i: h[1] for i, h in results[1]["H"].items()}
    assert results[0]["A"] == results[1]["A"]


def scores(lines):
    return [float(line[0]) for _, line in sorted(lines["H"].items())]


def test_topk_on_the_command_line(trained, tiny_data):
    """In either order with --model-overrides; K at least as large as every source is the exact marginal."""
    checkpoint = trained[0] / "checkpoint_best.pt"
    exact = scores(generate(tiny_data, checkpoint, "--score-reference"))
    everything = scores(generate(tiny_data, checkpoint, "--score-reference", "--latent-topk", 8))
    assert everything == pytest.approx(exact, rel=1e-4, abs=1e-5)
    one = scores(generate(tiny_data, checkpoint, "--score-reference", "--latent-topk", 1))
    assert one != pytest.approx(exact, rel=1e-3, abs=1e-4)
    override = ["--model-overrides", "{'latent_topk': 8}"]
    assert scores(generate(tiny_data, checkpoint, "--score-reference", *override, "--latent-topk", 1)) == pytest.approx(
        one
    )
    soft = ["--latent-prediction", "soft", "--model-overrides", "{'max_target_positions': 99}"]
    mean = scores(generate(tiny_data, checkpoint, "--score-reference", *soft))
    assert mean != pytest.approx(exact, rel=1e-3, abs=1e-4) and mean != pytest.approx(one, rel=1e-3, abs=1e-4)


def test_posterior_alignments_of_references(trained, tiny_data):
    checkpoint = trained[0] / "checkpoint_best.pt"
    options = ["--score-reference", "--print-alignment", "soft"]
    weights = {
        kind: soft_weights(generate(tiny_data, checkpoint, *options, "--latent-alignment", kind)["A"])
        for kind in ("prior", "posterior", "bayes")
    }
    assert weights["prior"] != weights["posterior"] != weights["bayes"]
    for rows in weights["bayes"]:
        assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in rows)


def test_interactive_and_ensembles_with_ordinary_models(trained, ordinary, tiny_data):
    checkpoint = trained[0] / "checkpoint_best.pt"
    command = ["fairseq-interactive", tiny_data, "--user-dir", USER_DIR, "--path", checkpoint, "--latent-topk", 3]
    done = run_tool(*command, stdin="ama bel cor dun\n")
    assert re.search(r"H-0\t\S+\tnud roc leb ama", done.stdout)
    assert len(generate(tiny_data, f"{checkpoint}:{ordinary}", "--beam", 3)["H"]) == 40


def test_validate_and_resume(trained, tiny_data, tmp_path):
    checkpoint = trained[0] / "checkpoint_last.pt"
    done = run_tool(
        *("fairseq-validate", tiny_data, "--user-dir", USER_DIR, "--task", "translation", "--path", checkpoint),
        *("--valid-subset", "test", "--batch-size", 16, "--latent-topk", 1, "--log-format", "json"),
    )
    line = [text for text in done.stdout.splitlines() if "topk_ppl" in text][-1]
    topk, exact = (float(re.search(rf'{name}_ppl": "?([\d.]+)', line)[1]) for name in ("topk", "marginal"))
    # the likeliest alignment has most of the probability; renormalised, it may be better than all
    assert topk == pytest.approx(exact, rel=0.2)
    options = [*LATENT, "--objective", "elbo-enum", "--restore-file", checkpoint]
    assert "Loaded checkpoint" in train_with(tiny_data, tmp_path, *options, updates=302).log


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--objective", "elbo-enum", "--latent-posterior", "False"], ["--objective elbo-enum", "--latent-posterior"]),
        (["--arch", "lstm_soft"], ["--criterion latent_alignment", "lstm_latent"]),
        (["--objective", "topk-marginal", "--topk-positions", "0"], ["--topk-positions 0: must be at least 1"]),
        (["--objective", "sparse-marginal"], ["--objective sparse-marginal", "--attention-normalizer sparsemax"]),
        (["--objective", "sparse-elbo"], ["--objective sparse-elbo", "--posterior-normalizer softmax", "sparsemax"]),
        (["--posterior-normalizer", "sparse"], ["--posterior-normalizer sparse", "sparsemax"]),
        (["--objective", "elbo-enum", "--num-samples", "3"], ["--num-samples 3", "elbo-enum does not read it"]),
    ],
)
def test_mistakes_in_training_are_one_line(options, words, tiny_data, tmp_path):
    mistake(training_command(tiny_data, tmp_path, *LATENT, *options, updates=2), words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--latent-alignment", "posterior"], ["--latent-alignment posterior", "--score-reference"]),
        (["--model-overrides", "latent_topk=5"], ["--model-overrides latent_topk=5", "dictionary"]),
        (["--path", "ordinary", "--latent-topk", "5"], ["--latent-topk 5: none of the models"]),
    ],
)
def test_mistakes_in_generation_are_one_line(options, words, trained, ordinary, tiny_data):
    command = ["fairseq-generate", tiny_data, "--user-dir", USER_DIR, "--path", trained[0] / "checkpoint_best.pt"]
    mistake([*command, *(ordinary if word == "ordinary" else word for word in options)], words)


def test_estimators_of_a_gradient_of_zero_have_no_variance(monkeypatch):
    """As those of a sparse posterior that has come down to single positions."""
    monkeypatch.setattr(gradient_variance, "gradient", lambda *_: (torch.zeros(3), torch.ones(3), 0.01))
    figures = gradient_variance.measure(None, None, repeats=2)["sum and sample, K = 4"]
    assert figures["posterior_variance"] == figures["posterior_bias"] == figures["model_variance"] == 0


def test_gradient_variance(trained, ordinary, tiny_data, tmp_path, monkeypatch, capsys):
    """The script that compares estimators: enumeration has no variance, sum and sample less than REINFORCE."""
    monkeypatch.setattr(logging, "disable", lambda level: None)
    report, picture = tmp_path / "report.json", tmp_path / "plot.png"
    command = [str(tiny_data), "--sentences", "4", "--repeats", "6", "--json", str(report), "--out", str(picture)]
    assert gradient_variance.main([*command, "--path", str(trained[0] / "checkpoint_best.pt")]) == 0
    figures = json.loads(report.read_text())["estimators"]
    assert figures["enumeration"]["posterior_variance"] < 1e-9
    variances = [figures[name]["posterior_variance"] for name in ("reinforce, no baseline", "sum and sample, K = 4")]
    assert variances[1] < variances[0]
    assert all(figures[name]["model_variance"] < 1e-9 for name in figures if "ELBO" in name or "marginal" in name)
    assert figures["top-K marginal, K = 1"]["model_bias"] > figures["top-K marginal, K = 8"]["model_bias"]
    assert figures["sparse ELBO, support of q"]["posterior_bias"] < 1e-9
    assert "| enumeration | 1.00 |" in capsys.readouterr().out and picture.stat().st_size > 1000
    assert gradient_variance.main([*command, "--path", str(ordinary)]) == 2
    assert "has no posterior network" in capsys.readouterr().err
