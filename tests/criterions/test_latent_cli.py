"""Latent alignment through the real command-line tools: train, validate, generate, interactive, ensembles, errors."""

import json
import logging
import re

import gradient_variance
import pytest
import torch
from in_process import run_tool
from training import SIZES, generate, right_lines
from training import train as train_with

from fairseq_attn_plugin.errors import OptionError

from cli import USER_DIR

LATENT = "--arch lstm_latent_small --attention-hidden-dim 32 --criterion latent_alignment".split()
LATENT += SIZES


@pytest.fixture(scope="module")
def trained(zoo):
    """A model trained with the exact ELBO."""
    return zoo("latent")


def test_learns_and_logs(trained):
    valid = trained.validations[-1]
    assert valid["valid_marginal_ppl"] == valid["valid_ppl"] < 1.3
    assert valid["valid_bound"] == pytest.approx(valid["valid_reconstruction"] + valid["valid_kl"], abs=1e-3)
    assert valid["valid_bound"] >= valid["valid_marginal"] - 1e-4
    assert valid["valid_prior_accuracy"] > 90 and valid["valid_posterior_accuracy"] > 90
    assert valid["valid_prior_entropy"] < 1.5 and "valid_posterior_entropy" in valid
    assert valid["valid_best_loss"] <= valid["valid_loss"]


def test_translates_alike_in_every_batch(trained, tiny_data):
    results = [
        generate(tiny_data, trained.best, "--beam", 5, "--batch-size", size, "--print-alignment", "hard")
        for size in (1, 32)
    ]
    assert len(right_lines(results[0])) >= 0.9 * len(results[0]["T"])
    assert {i: h[1] for i, h in results[0]["H"].items()} == {i: h[1] for i, h in results[1]["H"].items()}
    assert results[0]["A"] == results[1]["A"]


def scores(lines):
    return [float(line[0]) for _, line in sorted(lines["H"].items())]


def test_topk_on_the_command_line(trained, tiny_data):
    """K at least as large as every source is the exact marginal."""
    exact = scores(generate(tiny_data, trained.best, "--score-reference"))
    everything = scores(generate(tiny_data, trained.best, "--score-reference", "--latent-topk", 8))
    assert everything == pytest.approx(exact, rel=1e-4, abs=1e-5)
    one = scores(generate(tiny_data, trained.best, "--score-reference", "--latent-topk", 1))
    assert one != pytest.approx(exact, rel=1e-3, abs=1e-4)
    soft = ["--latent-prediction", "soft", "--model-overrides", "{'max_target_positions': 99}"]
    mean = scores(generate(tiny_data, trained.best, "--score-reference", *soft))
    assert mean != pytest.approx(exact, rel=1e-3, abs=1e-4) and mean != pytest.approx(one, rel=1e-3, abs=1e-4)


def test_interactive_and_ensembles_with_ordinary_models(trained, zoo, tiny_data):
    ordinary, options = zoo("lstm_soft").last, [tiny_data, "--user-dir", USER_DIR, "--latent-topk", 3, "--path"]
    done = run_tool("fairseq-interactive", *options, trained.best, stdin="ama bel cor dun\n")
    assert re.search(r"H-0\t\S+\tnud roc leb ama", done.stdout)
    ours, stock = (
        generate(tiny_data, f"{trained.best}:{ordinary}", "--beam", 3, "--decoding-engine", engine)["H"]
        for engine in ("plugin", "stock")
    )
    assert {i: h[1] for i, h in ours.items()} == {i: h[1] for i, h in stock.items()} and len(ours) == 40
    error = run_tool("fairseq-generate", *options, ordinary, fails=True).error
    assert error.startswith("--latent-topk 3: none of the models")


def test_validate_and_resume(trained, tiny_data, tmp_path):
    done = run_tool(
        *("fairseq-validate", tiny_data, "--user-dir", USER_DIR, "--task", "translation", "--path", trained.last),
        *("--valid-subset", "test", "--batch-size", 16, "--latent-topk", 1, "--log-format", "json"),
    )
    line = [text for text in done.stdout.splitlines() if "topk_ppl" in text][-1]
    topk, exact = (float(re.search(rf'{name}_ppl": "?([\d.]+)', line)[1]) for name in ("topk", "marginal"))
    # the likeliest alignment has most of the probability; renormalised, it may be better than all
    assert topk == pytest.approx(exact, rel=0.2)
    options = [*LATENT, "--objective", "elbo-enum", "--restore-file", trained.last]
    assert "Loaded checkpoint" in train_with(tiny_data, tmp_path, *options, updates=302).log


def test_estimators_of_a_gradient_of_zero_have_no_variance(monkeypatch):
    """As those of a sparse posterior that has come down to single positions."""
    monkeypatch.setattr(gradient_variance, "gradient", lambda *_: (torch.zeros(3), torch.ones(3), 0.01))
    figures = gradient_variance.measure(None, None, repeats=2)["sum and sample, K = 4"]
    assert figures["posterior_variance"] == figures["posterior_bias"] == figures["model_variance"] == 0


def test_gradient_variance(trained, zoo, tiny_data, tmp_path, monkeypatch, capsys):
    """The script that compares estimators: enumeration has no variance, sum and sample less than REINFORCE."""
    monkeypatch.setattr(logging, "disable", lambda level: None)
    report = tmp_path / "report.json"
    command = [str(tiny_data), "--sentences", "4", "--repeats", "6", "--json", str(report)]
    gradient_variance.main([*command, "--path", str(trained.best)])
    figures = json.loads(report.read_text())["estimators"]
    assert figures["enumeration"]["posterior_variance"] < 1e-9
    variances = [figures[name]["posterior_variance"] for name in ("reinforce, no baseline", "sum and sample, K = 4")]
    assert variances[1] < variances[0]
    assert all(figures[name]["model_variance"] < 1e-9 for name in figures if "ELBO" in name or "marginal" in name)
    assert figures["top-K marginal, K = 1"]["model_bias"] > figures["top-K marginal, K = 8"]["model_bias"]
    assert figures["sparse ELBO, support of q"]["posterior_bias"] < 1e-9
    assert "| enumeration  " in capsys.readouterr().out
    with pytest.raises(OptionError, match="has no posterior network"):
        gradient_variance.main([*command, "--path", str(zoo("lstm_soft").last)])
